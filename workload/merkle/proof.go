package merkle

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/bits"
)

// ErrProof is wrapped by every error about proofs: of what none can be made, and those
// that prove nothing.
var ErrProof = errors.New("no proof")

var errNoTree = errors.New("the tree is nil; TreeOf returns one")

// Inclusion returns the proof that the tree has a leaf, from 0 on: the audit path of RFC
// 6962, section 2.1.1.
func (t *Tree) Inclusion(leaf int) ([][Size]byte, error) {
	if t == nil {
		return nil, fmt.Errorf("merkle: %w: %w", ErrProof, errNoTree)
	}
	if leaf < 0 || leaf >= t.n {
		return nil, fmt.Errorf("merkle: leaf %d of %d: %w: number leaves from 0", leaf, t.n, ErrProof)
	}
	return t.path(0, leaf), nil
}

// Consistency returns the proof that the tree begins with the leaves of an older one of
// some size (RFC 6962, section 2.1.2). Where that is none or all of the leaves, there is
// nothing to prove and no node in it.
func (t *Tree) Consistency(old int) ([][Size]byte, error) {
	if t == nil {
		return nil, fmt.Errorf("merkle: %w: %w", ErrProof, errNoTree)
	}
	if old < 0 || old > t.n {
		return nil, fmt.Errorf("merkle: %d leaves of %d: %w: an older tree has no more", old, t.n, ErrProof)
	}
	if old == 0 || old == t.n {
		return nil, nil
	}
	// The last whole subtree of the older tree; the verifier knows it if it is all of it.
	level := bits.TrailingZeros(uint(old))
	last := old>>level - 1
	path := t.path(level, last)
	if last == 0 {
		return path, nil
	}
	return append([][Size]byte{t.node(level, last)}, path...), nil
}

// VerifyInclusion reports whether a proof shows that the leaf of a number, from 0 on, is in
// the tree of RFC 6962 with a root and a number of leaves. It implements RFC 9162, section
// 2.1.3.2, and needs no runtime.
func VerifyInclusion(root [Size]byte, leaves, number int, leaf []byte, proof [][Size]byte) error {
	if number < 0 || number >= leaves {
		return fmt.Errorf("merkle: leaf %d of %d: %w: number leaves from 0", number, leaves, ErrProof)
	}
	at, last, hash := number, leaves-1, HashLeaf(leaf)
	for _, p := range proof {
		if last == 0 {
			return wrongLength(len(proof))
		}
		if at&1 == 1 || at == last {
			hash = hashPair(p, hash)
			at, last = upToOdd(at, last)
		} else {
			hash = hashPair(hash, p)
		}
		at, last = at>>1, last>>1
	}
	if last != 0 {
		return wrongLength(len(proof))
	}
	return same("root", hash, root)
}

// VerifyConsistency reports whether a proof shows that a tree of RFC 6962 begins with the
// leaves of an older one, by the roots and numbers of leaves of both. The algorithm is that
// of RFC 9162, section 2.1.4.2. A tree of no leaves, whose root is the hash of nothing, is
// the beginning of every tree. It needs no runtime.
func VerifyConsistency(oldRoot [Size]byte, old int, root [Size]byte, leaves int, proof [][Size]byte) error {
	switch {
	case old < 0 || old > leaves:
		return fmt.Errorf("merkle: %d leaves of %d: %w: an older tree has no more", old, leaves, ErrProof)
	case (old == 0 || old == leaves) && len(proof) > 0:
		return wrongLength(len(proof))
	case old == leaves:
		return same("root", root, oldRoot)
	case old == 0:
		return same("older root", sha256.Sum256(nil), oldRoot)
	}
	given := len(proof)
	if old&(old-1) == 0 {
		proof = append([][Size]byte{oldRoot}, proof...)
	}
	if len(proof) == 0 {
		return wrongLength(given)
	}
	at, last := old-1, leaves-1
	for at&1 == 1 {
		at, last = at>>1, last>>1
	}
	oldHash, hash := proof[0], proof[0]
	for _, p := range proof[1:] {
		if last == 0 {
			return wrongLength(given)
		}
		if at&1 == 1 || at == last {
			oldHash, hash = hashPair(p, oldHash), hashPair(p, hash)
			at, last = upToOdd(at, last)
		} else {
			hash = hashPair(hash, p)
		}
		at, last = at>>1, last>>1
	}
	if last != 0 {
		return wrongLength(given)
	}
	if err := same("older root", oldHash, oldRoot); err != nil {
		return err
	}
	return same("root", hash, root)
}

// upToOdd goes up the levels at which a node has no neighbour.
func upToOdd(at, last int) (int, int) {
	for at&1 == 0 && at != 0 {
		at, last = at>>1, last>>1
	}
	return at, last
}

func wrongLength(n int) error {
	return fmt.Errorf("merkle: %d nodes: %w: trees of these sizes take another number", n, ErrProof)
}

func same(what string, got, want [Size]byte) error {
	if got != want {
		return fmt.Errorf("merkle: the %s is %x by the proof, given is %x: %w", what, got, want, ErrProof)
	}
	return nil
}
