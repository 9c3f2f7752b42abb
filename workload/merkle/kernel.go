package merkle

import (
	"crypto/sha256"
	"math/bits"
)

// Size is the length of a leaf and of a node in bytes.
const Size = sha256.Size

// Mode says how nodes are hashed and what becomes of the last node of a level
// with an odd number of them.
type Mode uint8

const (
	// RFC6962 is the tree of Certificate Transparency (RFC 6962, section 2.1): a
	// leaf is hashed behind a zero byte, a pair of nodes behind a one byte, and
	// an odd last node moves up unchanged, which is the same as splitting at the
	// largest power of two.
	RFC6962 Mode = iota
	// Dup takes the leaves as they are, hashes pairs without a prefix and pairs
	// an odd last node with itself. Two different lists of leaves can have the
	// same root (CVE-2012-2459): use it only where a format demands it.
	Dup
)

// hashLeaves hashes the leaves lo to hi-1 of src into the same places of dst, as
// RFC6962 asks for before the first level. In mode Dup the leaves are the
// lowest level themselves and this is not called. dst may be src.
func hashLeaves(dst, src []byte, lo, hi int) {
	lo += leavesWide(dst, src, lo, hi)
	var message [1 + Size]byte
	for i := lo; i < hi; i++ {
		copy(message[1:], src[i*Size:(i+1)*Size])
		hash := sha256.Sum256(message[:])
		copy(dst[i*Size:(i+1)*Size], hash[:])
	}
}

// hashLevel computes the nodes lo to hi-1 of a level into dst from the n nodes of
// the level below in src. The level has (n+1)/2 nodes. dst may be src when the
// nodes are computed from 0 upwards by one goroutine: no node is overwritten
// before it was read.
func hashLevel(mode Mode, dst, src []byte, n, lo, hi int) {
	full := min(hi, n/2)
	lo += nodesWide(mode, dst, src, lo, full)
	if mode == Dup {
		for i := lo; i < full; i++ {
			hash := sha256.Sum256(src[2*i*Size : (2*i+2)*Size])
			copy(dst[i*Size:(i+1)*Size], hash[:])
		}
	} else {
		var message [1 + 2*Size]byte
		message[0] = 1
		for i := lo; i < full; i++ {
			copy(message[1:], src[2*i*Size:(2*i+2)*Size])
			hash := sha256.Sum256(message[:])
			copy(dst[i*Size:(i+1)*Size], hash[:])
		}
	}
	if hi <= n/2 {
		return
	}
	// The last node of an odd level has no neighbour.
	last := src[(n-1)*Size : n*Size]
	if mode == Dup {
		var message [2 * Size]byte
		copy(message[:Size], last)
		copy(message[Size:], last)
		hash := sha256.Sum256(message[:])
		last = hash[:]
	}
	copy(dst[n/2*Size:(n/2+1)*Size], last)
}

// reduceNodes computes the node that stands h levels above the n nodes at the
// beginning of nodes, which it overwrites, and leaves it in nodes[:Size]. n is
// from 1 to 2^h; fewer than 2^h nodes are the end of a list that continues to
// their left, or the whole list if h is [heightOf](n).
func reduceNodes(mode Mode, nodes []byte, n, h int) {
	for range h {
		hashLevel(mode, nodes, nodes, n, 0, (n+1)/2)
		n = (n + 1) / 2
	}
}

// heightOf returns the number of levels above n leaves, the root's included:
// the smallest h with n <= 2^h.
func heightOf(n int) int { return bits.Len(uint(n - 1)) }

// chunksOf cuts n leaves into chunks of 2^h leaves, the last one shorter where n
// is no multiple of that, such that there are at least parts of them or chunks
// of one leaf. It returns h and the number of chunks; chunk c begins at leaf
// c·2^h. The nodes that the chunks are reduced to are a level of the tree: the
// root is theirs, reduced by [heightOf] of their number.
func chunksOf(n, parts int) (h, chunks int) {
	h = heightOf(n)
	for h > 0 && (n+1<<h-1)>>h < parts {
		h--
	}
	return h, (n + 1<<h - 1) >> h
}

// ops returns the number of SHA-256 compressions for a tree of n leaves.
func ops(mode Mode, n int) float64 {
	ops := 2 * float64(n-1)
	if mode == RFC6962 {
		ops += float64(n)
	}
	return ops
}

// integerOps is about how many 32-bit integer operations a SHA-256 compression
// takes on a machine without instructions for it.
const integerOps = 2300

// traffic returns the memory traffic for a tree of n leaves: each level is
// written once and read once.
func traffic(mode Mode, n int) float64 {
	bytes := 3 * Size * float64(n)
	if mode == RFC6962 {
		bytes += 2 * Size * float64(n)
	}
	return bytes
}
