package merkle

import "crypto/sha256"

// referenceRoot returns the root of the tree over leaves of Size bytes each. It follows the
// definition by recursion and is the reference for the kernels, not a fast way to a
// root. The root over no leaves is the hash of nothing in mode RFC6962, as its section
// 2.1 defines, and 32 zero bytes in mode Dup, as in Bitcoin.
func referenceRoot(mode Mode, leaves []byte) [Size]byte {
	if len(leaves) < Size {
		if mode == Dup {
			return [Size]byte{}
		}
		return sha256.Sum256(nil)
	}
	if mode == Dup {
		return rootDup(leaves)
	}
	return rootRFC6962(leaves, false)
}

// rootRFC6962 allocates nothing: every path of the recursion would be a stack of its own to the
// memory profiler, which keeps those it has seen for ever.
func rootRFC6962(leaves []byte, hashed bool) [Size]byte {
	n := len(leaves) / Size
	if n == 1 && hashed {
		return [Size]byte(leaves)
	} else if n == 1 {
		leaf := [1 + Size]byte{0}
		copy(leaf[1:], leaves)
		return sha256.Sum256(leaf[:])
	}
	split := 1 << (heightOf(n) - 1)
	left, right := rootRFC6962(leaves[:split*Size], hashed), rootRFC6962(leaves[split*Size:], hashed)
	node := [1 + 2*Size]byte{1}
	copy(node[1:], left[:])
	copy(node[1+Size:], right[:])
	return sha256.Sum256(node[:])
}

func rootDup(level []byte) [Size]byte {
	if len(level) == Size {
		return [Size]byte(level)
	}
	var above []byte
	for len(level) > 0 {
		left, right := level[:Size], level[:Size]
		if len(level) > Size {
			right = level[Size : 2*Size]
		}
		node := sha256.Sum256(append(append([]byte(nil), left...), right...))
		above = append(above, node[:]...)
		level = level[min(2*Size, len(level)):]
	}
	return rootDup(above)
}
