package merkle_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/merkle/testonly"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/merkle"
)

// leaves are n leaves by a seed, of Size bytes each or of many lengths, some of which are
// those at which SHA-256 takes another block.
func leaves(n int, even bool, seed uint64) [][]byte {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	lengths := []int{0, 1, 31, 32, 33, 54, 55, 56, 63, 64, 118, 254, 255, 256, 257, 1000}
	out := make([][]byte, n)
	for i := range out {
		length := lengths[r.IntN(len(lengths))]
		if even {
			length = merkle.Size
		}
		out[i] = make([]byte, length)
		for k := range out[i] {
			out[i][k] = byte(r.Uint32())
		}
	}
	return out
}

func treeOf(t *testing.T, rt *weft.Runtime, leaves [][]byte) *merkle.Tree {
	t.Helper()
	tree, err := merkle.TreeOf(t.Context(), rt, leaves)
	if err != nil {
		t.Fatal(err)
	}
	root, err := merkle.RootOf(t.Context(), rt, leaves)
	if err != nil || root != tree.Root() || tree.Len() != len(leaves) {
		t.Fatalf("root %x, that of the tree of %d leaves %x: %v", root, tree.Len(), tree.Root(), err)
	}
	return tree
}

func slicesOf(nodes [][merkle.Size]byte) (out [][]byte) {
	for i := range nodes {
		out = append(out, nodes[i][:])
	}
	return out
}

// Roots and proofs are those of the implementation by others, which verifies ours, and
// ours verifies its own: by lengths of leaves, below and above what the calling goroutine
// takes, and at the edges of chunks.
func TestTreesOfOthers(t *testing.T) {
	rt := workloadtest.Open(t, 3, merkle.Funcs())
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 31, 64, 65, 100, 511, 512, 513, 575, 577, 1024, 4099, 40_001} {
		for _, even := range []bool{false, true} {
			all := leaves(n, even, 1)
			tree, other := treeOf(t, rt, all), testonly.New(rfc6962.DefaultHasher)
			other.AppendData(all...)
			root := tree.Root()
			if !bytes.Equal(root[:], other.Hash()) {
				t.Fatalf("%d leaves: root %x, want %x", n, root, other.Hash())
			}
			some := r.Perm(n)[:min(n, 40)]
			if n > 40 {
				some = append(some, 0, 1, n-2, n-1)
			}
			for _, i := range some {
				ours, err := tree.Inclusion(i)
				if err != nil {
					t.Fatal(err)
				}
				if err := proof.VerifyInclusion(rfc6962.DefaultHasher, uint64(i), uint64(n), rfc6962.DefaultHasher.HashLeaf(all[i]), slicesOf(ours), root[:]); err != nil {
					t.Fatalf("leaf %d of %d: %v", i, n, err)
				}
				if err := merkle.VerifyInclusion(root, n, i, all[i], ours); err != nil {
					t.Fatalf("leaf %d of %d: %v", i, n, err)
				}
				old := i + 1
				theirs, err := other.ConsistencyProof(uint64(old), uint64(n))
				if err != nil {
					t.Fatal(err)
				}
				ours, err = tree.Consistency(old)
				if err != nil || len(ours) != len(theirs) {
					t.Fatalf("%d leaves of %d: %d nodes, want %d: %v", old, n, len(ours), len(theirs), err)
				}
				for k := range ours {
					if !bytes.Equal(ours[k][:], theirs[k]) {
						t.Fatalf("%d leaves of %d: node %d differs", old, n, k)
					}
				}
				if err := merkle.VerifyConsistency([merkle.Size]byte(other.HashAt(uint64(old))), old, root, n, ours); err != nil {
					t.Fatalf("%d leaves of %d: %v", old, n, err)
				}
			}
		}
	}
}

// The test vectors of Certificate Transparency, whose tree RFC 6962 defines.
func TestTreeVectors(t *testing.T) {
	rt := workloadtest.Open(t, 1, nil) // small trees need no kernels
	all := testonly.LeafInputs()
	for n, want := range testonly.RootHashes() {
		if root := treeOf(t, rt, all[:n]).Root(); !bytes.Equal(root[:], want) {
			t.Errorf("%d leaves: root %x, want %x", n, root, want)
		}
	}
	if root := treeOf(t, rt, nil).Root(); root != sha256.Sum256(nil) {
		t.Errorf("no leaves: %x", root)
	}
	if root := treeOf(t, rt, [][]byte{nil}).Root(); root != sha256.Sum256([]byte{0}) {
		t.Errorf("a leaf of no bytes: %x", root)
	}
}

// Nothing else passes for a proof: with another node, order, length, leaf, number, size or
// root, of every leaf and size of trees up to 20 leaves.
func TestProofsRefused(t *testing.T) {
	rt := workloadtest.Open(t, 1, nil)
	for n := 1; n <= 20; n++ {
		all := leaves(n, false, 5)
		for i := range all {
			all[i] = append(all[i], byte(i)) // no two are the same
		}
		tree := treeOf(t, rt, all)
		root, other := tree.Root(), sha256.Sum256([]byte("other"))
		for i := range n {
			p, _ := tree.Inclusion(i)
			for what, q := range spoiled(p) {
				if err := merkle.VerifyInclusion(root, n, i, all[i], q); !errors.Is(err, merkle.ErrProof) {
					t.Errorf("leaf %d of %d, %s: %v", i, n, what, err)
				}
			}
			for _, err := range []error{
				merkle.VerifyInclusion(other, n, i, all[i], p), merkle.VerifyInclusion(root, n, i, []byte("other"), p),
				merkle.VerifyInclusion(root, n, -1, all[i], p), merkle.VerifyInclusion(root, n, n, all[i], p), merkle.VerifyInclusion(root, i, i, all[i], p),
			} {
				if !errors.Is(err, merkle.ErrProof) {
					t.Errorf("leaf %d of %d: %v", i, n, err)
				}
			}
			// For some other sizes a path is the same, and the root alone tells no size.
			for size := i + 1; size < 2*n+3; size++ {
				theirs := proof.VerifyInclusion(rfc6962.DefaultHasher, uint64(i), uint64(size), rfc6962.DefaultHasher.HashLeaf(all[i]), slicesOf(p), root[:])
				if ours := merkle.VerifyInclusion(root, size, i, all[i], p); (ours == nil) != (theirs == nil) {
					t.Errorf("leaf %d of %d as one of %d: %v, by others %v", i, n, size, ours, theirs)
				}
			}
			if n > 1 {
				if err := merkle.VerifyInclusion(root, n, (i+1)%n, all[i], p); !errors.Is(err, merkle.ErrProof) {
					t.Errorf("leaf %d of %d as the next: %v", i, n, err)
				}
			}
		}
		for old := 0; old <= n; old++ {
			p, _ := tree.Consistency(old)
			was := treeOf(t, rt, all[:old]).Root()
			if err := merkle.VerifyConsistency(was, old, root, n, p); err != nil {
				t.Error(err)
			}
			for what, q := range spoiled(p) {
				if err := merkle.VerifyConsistency(was, old, root, n, q); !errors.Is(err, merkle.ErrProof) {
					t.Errorf("%d of %d leaves, %s: %v", old, n, what, err)
				}
			}
			for size := old; size < 2*n+3; size++ {
				theirs := proof.VerifyConsistency(rfc6962.DefaultHasher, uint64(old), uint64(size), slicesOf(p), was[:], root[:])
				if ours := merkle.VerifyConsistency(was, old, root, size, p); (ours == nil) != (theirs == nil) {
					t.Errorf("%d of %d leaves as of %d: %v, by others %v", old, n, size, ours, theirs)
				}
			}
			for _, err := range []error{
				merkle.VerifyConsistency(other, old, root, n, p), merkle.VerifyConsistency(was, -1, root, n, p), merkle.VerifyConsistency(was, n+1, root, n, p),
			} {
				if !errors.Is(err, merkle.ErrProof) {
					t.Errorf("%d of %d leaves: %v", old, n, err)
				}
			}
			if err := merkle.VerifyConsistency(was, old, other, n, p); old > 0 && !errors.Is(err, merkle.ErrProof) {
				t.Errorf("%d of %d leaves, another root: %v", old, n, err)
			}
		}
	}
}

// spoiled are proofs made of one that are none.
func spoiled(p [][merkle.Size]byte) map[string][][merkle.Size]byte {
	out := map[string][][merkle.Size]byte{"a node more": append(append([][merkle.Size]byte{}, p...), [merkle.Size]byte{1})}
	if len(p) > 0 {
		flipped := append([][merkle.Size]byte{}, p...)
		flipped[len(p)/2][7] ^= 4
		out["another node"], out["a node less"], out["without the first"], out["nothing"] = flipped, p[:len(p)-1], p[1:], nil
	}
	if len(p) > 1 && p[0] != p[1] {
		swapped := append([][merkle.Size]byte{}, p...)
		swapped[0], swapped[1] = p[1], p[0]
		out["another order"] = swapped
	}
	return out
}

// Both verifiers take the same proofs, whatever is in them.
func FuzzProofs(f *testing.F) {
	rt := workloadtest.Open(f, 1, nil)
	all := leaves(20, false, 1)
	f.Add(20, 7, 0, byte(0), 0)
	f.Add(13, 12, 2, byte(1), 1)
	f.Add(1, 0, 5, byte(9), -1)
	f.Fuzz(func(t *testing.T, n, i, at int, flip byte, more int) {
		n, i = n%21, i%21
		if n < 0 || i < 0 || more < -20 || more > 20 {
			return
		}
		tree, err := merkle.TreeOf(t.Context(), rt, all[:n])
		if err != nil {
			t.Fatal(err)
		}
		size, root := max(n+more, 0), tree.Root()
		inside, _ := tree.Inclusion(i)
		grown, _ := tree.Consistency(i)
		var was [merkle.Size]byte
		if old, err := merkle.RootOf(t.Context(), rt, all[:min(i, n)]); err == nil {
			was = old
		}
		for _, p := range [][][merkle.Size]byte{inside, grown} {
			if at >= 0 && at < len(p)*merkle.Size {
				p[at/merkle.Size][at%merkle.Size] ^= flip
			} else if at < 0 && len(p) > 0 {
				p = p[1:]
			}
			leaf := all[min(i, 19)]
			theirs := proof.VerifyInclusion(rfc6962.DefaultHasher, uint64(i), uint64(size), rfc6962.DefaultHasher.HashLeaf(leaf), slicesOf(p), root[:])
			if ours := merkle.VerifyInclusion(root, size, i, leaf, p); (ours == nil) != (theirs == nil) {
				t.Errorf("leaf %d of %d: %v, by others %v", i, size, ours, theirs)
			}
			theirs = proof.VerifyConsistency(rfc6962.DefaultHasher, uint64(i), uint64(size), slicesOf(p), was[:], root[:])
			if ours := merkle.VerifyConsistency(was, i, root, size, p); (ours == nil) != (theirs == nil) {
				t.Errorf("%d of %d leaves: %v, by others %v", i, size, ours, theirs)
			}
		}
	})
}

func TestTreeErrors(t *testing.T) {
	rt := workloadtest.Open(t, 1, merkle.Funcs())
	tree := treeOf(t, rt, leaves(5, false, 1))
	for _, i := range []int{-1, 5} {
		if _, err := tree.Inclusion(i); !errors.Is(err, merkle.ErrProof) {
			t.Errorf("leaf %d: %v", i, err)
		}
	}
	for _, i := range []int{-1, 6} {
		if _, err := tree.Consistency(i); !errors.Is(err, merkle.ErrProof) {
			t.Errorf("%d leaves: %v", i, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, n := range []int{3, 2000} {
		for _, even := range []bool{false, true} {
			if _, err := merkle.RootOf(ctx, rt, leaves(n, even, 1)); !errors.Is(err, context.Canceled) {
				t.Errorf("%d leaves after the context ended: %v", n, err)
			}
		}
	}
	for _, c := range []merkle.Config{{N: 4, Hashed: true}, {Leaves: make([]byte, 64), Hashed: true, Mode: merkle.Dup}} {
		if _, err := merkle.New(c); !errors.Is(err, workload.ErrConfig) {
			t.Errorf("%d leaves hashed: %v", c.N, err)
		}
	}
}

// A tree that is nil is told by a line that says so.
func TestNilTree(t *testing.T) {
	var tree *merkle.Tree
	if _, err := tree.Inclusion(0); !errors.Is(err, merkle.ErrProof) || !strings.Contains(err.Error(), "the tree is nil; ") {
		t.Errorf("Inclusion: %v", err)
	}
	if _, err := tree.Consistency(0); !errors.Is(err, merkle.ErrProof) || !strings.Contains(err.Error(), "the tree is nil; ") {
		t.Errorf("Consistency: %v", err)
	}
	for name, call := range map[string]func(){"Len": func() { tree.Len() }, "Root": func() { tree.Root() }} {
		func() {
			defer func() {
				if err, _ := recover().(error); err == nil || err.Error() != "merkle: "+name+": the tree is nil; TreeOf returns one" {
					t.Errorf("%s: %v", name, err)
				}
			}()
			call()
		}()
	}
}
