package merkle

import (
	"context"
	"crypto/sha256"
	"fmt"
	"unsafe"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/task"
	"github.com/weft-run/weft/workload"
)

// RootOf returns the root of the tree of RFC 6962 over leaves of any length, which may be
// none, computed on the devices of a runtime that was opened with [Funcs] among its
// kernels; the calling goroutine hashes up to 512 leaves itself, without any device. A leaf
// that is nil is one of no bytes. There may be 2²⁶ leaves; more are an error that wraps
// [workload.ErrConfig].
func RootOf(ctx context.Context, rt *weft.Runtime, leaves [][]byte) ([Size]byte, error) {
	t, err := TreeOf(ctx, rt, leaves)
	if err != nil {
		return [Size]byte{}, err
	}
	return t.Root(), nil
}

// Tree is a tree of RFC 6962 over a list of leaves, from which proofs are made. It is safe
// for concurrent use.
type Tree struct {
	leaves []byte // Size bytes each: the leaves, or their hashes
	hashed bool
	n, h   int
	levels [][]byte // from level h up to the root
}

// fewLeaves is the number of leaves up to which the calling goroutine hashes them itself,
// in about 0.1 ms, as long as a run takes to begin and end.
const fewLeaves = 1 << 9

// TreeOf computes a tree as [RootOf] does, and keeps what proofs need of it: 32 bytes for
// each leaf, and a few more. It does not keep the leaves.
func TreeOf(ctx context.Context, rt *weft.Runtime, leaves [][]byte) (*Tree, error) {
	t := &Tree{n: len(leaves)}
	if t.n > maxLeaves {
		return nil, fmt.Errorf("merkle: %d leaves: %w: there may be %d", t.n, workload.ErrConfig, maxLeaves)
	}
	if err := t.gather(ctx, leaves); err != nil {
		return nil, err
	}
	if t.n <= fewLeaves {
		if t.n > 0 {
			t.levels = [][]byte{t.subtree(0, t.n, 0)}
		}
	} else {
		j, err := New(Config{Leaves: t.leaves, Hashed: t.hashed})
		if err != nil {
			return nil, err
		}
		j.nodes = make([]byte, j.chunks*Size)
		if _, err := workload.Call(ctx, rt, j.declare(), "merkle"); err != nil {
			return nil, err
		}
		t.h, t.levels = j.h, [][]byte{j.nodes}
	}
	for below := t.top(); len(below) > Size; below = t.top() {
		n := len(below) / Size
		above := make([]byte, (n+1)/2*Size)
		hashLevel(RFC6962, above, below, n, 0, (n+1)/2)
		t.levels = append(t.levels, above)
	}
	return t, nil
}

// top is the highest level there is.
func (t *Tree) top() []byte {
	if len(t.levels) == 0 {
		return nil
	}
	return t.levels[len(t.levels)-1]
}

// gather puts the leaves into one piece of memory: as they are if each has Size bytes,
// and devices hash them, or else hashed on the cores, which have to read them all anyway
// to put them where a device could.
func (t *Tree) gather(ctx context.Context, leaves [][]byte) error {
	for _, l := range leaves {
		t.hashed = t.hashed || len(l) != Size
	}
	if !t.hashed {
		t.leaves = make([]byte, 0, t.n*Size)
		for _, l := range leaves {
			t.leaves = append(t.leaves, l...)
		}
		return context.Cause(ctx)
	}
	hashes, err := task.Map(ctx, leaves, func(_ context.Context, leaf []byte) ([Size]byte, error) { return HashLeaf(leaf), nil })
	if err != nil {
		return fmt.Errorf("merkle: hash %d leaves: %w", t.n, err)
	}
	t.leaves = unsafe.Slice(&hashes[0][0], t.n*Size)
	return nil
}

// HashLeaf returns the hash of a leaf of any length in a tree of RFC 6962: the hash of a
// zero byte followed by the leaf.
func HashLeaf(leaf []byte) (hash [Size]byte) {
	var short [256]byte // of which nothing is allocated
	if len(leaf) < len(short) {
		return sha256.Sum256(short[:1+copy(short[1:], leaf)])
	}
	h := sha256.New()
	h.Write(short[:1])
	h.Write(leaf)
	h.Sum(hash[:0])
	return hash
}

// hashPair returns the hash of two nodes.
func hashPair(l, r [Size]byte) [Size]byte {
	var message [1 + 2*Size]byte
	message[0] = 1
	copy(message[1:], l[:])
	copy(message[1+Size:], r[:])
	return sha256.Sum256(message[:])
}

// Len is the number of leaves.
func (t *Tree) Len() int { return t.must("Len").n }

// must panics with an error that names the call if the tree is nil.
func (t *Tree) must(call string) *Tree {
	if t == nil {
		panic(fmt.Errorf("merkle: %s: %w", call, errNoTree))
	}
	return t
}

// Root is the root. That of no leaves is the hash of nothing.
func (t *Tree) Root() [Size]byte {
	if t.must("Root").n == 0 {
		return sha256.Sum256(nil)
	}
	return [Size]byte(t.top())
}

// subtree returns the nodes at a height over leaves lo to hi-1.
func (t *Tree) subtree(lo, hi, height int) []byte {
	nodes := make([]byte, (hi-lo)*Size)
	if t.hashed {
		copy(nodes, t.leaves[lo*Size:])
	} else {
		hashLeaves(nodes, t.leaves[lo*Size:hi*Size], 0, hi-lo)
	}
	reduceNodes(RFC6962, nodes, hi-lo, height)
	return nodes
}

// node returns a node of a level. One below those that are kept is computed again from
// its leaves, 2¹⁰ at most.
func (t *Tree) node(level, i int) [Size]byte {
	if level >= t.h {
		return [Size]byte(t.levels[level-t.h][i*Size:])
	}
	return [Size]byte(t.subtree(i<<level, min((i+1)<<level, t.n), level))
}

// path returns the neighbours of node i of a level and of all above it.
func (t *Tree) path(level, i int) (proof [][Size]byte) {
	for count := (t.n + 1<<level - 1) >> level; count > 1; count = (count + 1) / 2 {
		if i^1 < count {
			proof = append(proof, t.node(level, i^1))
		}
		level, i = level+1, i/2
	}
	return proof
}
