package weft

import (
	"math/rand/v2"
	"testing"
)

// claimed makes a claim of some addresses.
func claimed(from, to uintptr, number uint64) *claim {
	return &claim{from: from, to: to, chance: rand.Uint32(), number: number}
}

// depth is the length of the longest way down a tree, after a check of its order and of
// what its nodes know.
func depth(t *testing.T, n *claim) int {
	if n == nil {
		return 0
	}
	highest := n.highest
	if n.left != nil && (!n.left.before(n) || n.left.chance > n.chance) || n.right != nil && (!n.before(n.right) || n.right.chance > n.chance) {
		t.Fatal("a tree is out of order")
	}
	left, right := depth(t, n.left), depth(t, n.right)
	if n.sum().highest != highest {
		t.Fatalf("a node takes %d for the highest end, which is %d", highest, n.highest)
	}
	return 1 + max(left, right)
}

// A tree finds an overlap exactly when a look at every claim does.
func TestClaims(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var root *claim
		var all []*claim
		for i := range uint64(60) {
			from := uintptr(r.IntN(300))
			to := from + 1 + uintptr(r.IntN(30))
			want := false
			for _, c := range all {
				want = want || c.from < to && c.to > from
			}
			if got := root.overlap(from, to); (got != nil) != want || got != nil && (got.from >= to || got.to <= from) {
				t.Fatalf("%d to %d overlaps %v; one of %d claims does: %v", from, to, got, len(all), want)
			}
			if len(all) > 0 && r.IntN(3) == 0 {
				k := r.IntN(len(all))
				root = root.without(all[k])
				all[k] = all[len(all)-1]
				all = all[:len(all)-1]
			} else {
				c := claimed(from, to, i)
				root, all = root.with(c), append(all, c)
			}
			depth(t, root)
		}
		for _, c := range all {
			root = root.without(c)
		}
		if root != nil {
			t.Fatal("claims are left after all were given back")
		}
	}
}

// Many runs that read the same memory do not make a tree deep: of 2^15 claims, a path of
// 100 has a chance below 1e-9.
func TestClaimsStayShallow(t *testing.T) {
	var root *claim
	for i := range uint64(1 << 15) {
		root = root.with(claimed(1000, 2000, i))
	}
	if d := depth(t, root); d > 100 {
		t.Errorf("a path has %d nodes", d)
	}
}
