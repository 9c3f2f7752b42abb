package collective

import (
	"math/bits"
	"slices"

	"github.com/weft-run/weft/machine"
)

// A hop is one rank getting what another has.
type hop struct{ from, to int }

// algorithm chooses routes. An operation needs up to three things of it: which
// ranks to give slices to, how to fold a slice towards a rank, and how to spread
// it from there.
type algorithm struct {
	name string
	why  string // when it is good, for people
	// ordered says that slices are folded in the order of ranks.
	ordered bool
	// owners returns a rank for every slice a vector is cut into when nothing
	// else says where slices belong; one rank when it is not cut.
	owners func(t *topology) []int
	// fold returns the hops that fold a slice, towards owner if that can be, and
	// the rank they end at. At each hop, what from has is folded into what to
	// has. Without it the owner reads what all others have.
	fold func(t *topology, owner int) (hops []hop, root int)
	// spread returns the hops that bring what a rank has to all others.
	spread func(t *topology, from int) []hop
	// halves says that reduce and broadcast go by slices of owners, too.
	halves bool
	// phased says that routes are within groups of close devices, then between
	// them, then within them again.
	phased bool
}

// behind are by how many steps a piece may follow the one before it: not at all,
// by one, or, where groups are to go on while pieces are under way between them,
// by several.
func (a *algorithm) behind(t *topology) []int {
	if a.phased && len(t.groups) > 1 {
		return []int{0, 1, 2, 3, 4}
	}
	return []int{0, 1}
}

// topology holds what routes depend on. Its numbers are ranks.
type topology struct {
	n      int
	ring   []int   // ranks in the order of the best ring
	at     []int   // where in the ring a rank is
	groups [][]int // ranks by closeness
	group  []int   // which group a rank is in
	index  []int   // where in its group
}

func newTopology(m *machine.Machine, ranks []machine.DeviceID) *topology {
	n := len(ranks)
	t := &topology{n: n, at: make([]int, n), group: make([]int, n), index: make([]int, n)}
	// Ranks on one device are neighbours in the ring.
	var devs []machine.DeviceID
	of := make(map[machine.DeviceID][]int)
	for r, d := range ranks {
		if of[d] == nil {
			devs = append(devs, d)
		}
		of[d] = append(of[d], r)
	}
	for _, d := range m.Ring(devs) {
		t.ring = append(t.ring, of[d]...)
	}
	for i, r := range t.ring {
		t.at[r] = i
	}
	for _, g := range m.Groups() {
		var members []int
		for r, d := range ranks {
			if slices.Contains(g, d) {
				t.group[r], t.index[r] = len(t.groups), len(members)
				members = append(members, r)
			}
		}
		if members != nil {
			t.groups = append(t.groups, members)
		}
	}
	return t
}

// algorithms are those there are, each with its routes.
var algorithms = []algorithm{
	{
		name: "direct", ordered: true,
		why:    "every rank reads its slice from all others, and all read the results from it: fewest steps, for devices in one memory or all linked to each other",
		owners: everyRank,
		spread: func(t *topology, from int) []hop {
			var hops []hop
			for i := 1; i < t.n; i++ { // each begins with another, so that they do not meet
				hops = append(hops, hop{from, (from + i) % t.n})
			}
			return hops
		},
	},
	{
		name: "ring",
		why:  "every rank exchanges with its neighbours only, all links busy at once: least bytes on each link, for large vectors",
		// In step s of folding rank i of the ring passes slice (i-s) on, in step
		// s of spreading slice (i+1-s): slice k ends, whole, at rank k-1.
		owners: func(t *topology) []int {
			out := make([]int, t.n)
			for k := range out {
				out[k] = t.ring[(k+t.n-1)%t.n]
			}
			return out
		},
		fold: func(t *topology, owner int) ([]hop, int) {
			return path(rotate(t.ring, t.at[owner]+1)), owner
		},
		spread: func(t *topology, from int) []hop { return path(rotate(t.ring, t.at[from])) },
	},
	{
		name: "chain", ordered: true,
		why:    "slices go from rank to rank in order and the results back: as few bytes as a ring but for one part in the number of ranks, in the order of ranks",
		owners: func(t *topology) []int { return []int{t.n - 1} },
		fold: func(t *topology, _ int) ([]hop, int) {
			return path(sequence(t.n)), t.n - 1
		},
		spread: func(t *topology, from int) []hop {
			down, up := sequence(from+1), sequence(t.n)[from:]
			slices.Reverse(down)
			return append(path(down), path(up)...)
		},
	},
	{
		name:   "tree",
		why:    "half the ranks drop out at each step: fewest steps where reading from many at once does not pay, for small vectors",
		owners: func(*topology) []int { return []int{0} },
		fold:   func(t *topology, owner int) ([]hop, int) { return t.tree(owner), owner },
		spread: func(t *topology, from int) []hop {
			hops := t.tree(from) // and back
			slices.Reverse(hops)
			for i, h := range hops {
				hops[i] = hop{h.to, h.from}
			}
			return hops
		},
	},
	{
		name: "halving", halves: true,
		why: "partners exchange halves, then quarters, and the results in reverse (recursive halving and doubling): few steps and few bytes, for vectors in between",
		// Ranks past the last power of two first join the rank that many before.
		owners: func(t *topology) []int { return sequence(1 << (bits.Len(uint(t.n)) - 1)) },
		fold: func(t *topology, owner int) ([]hop, int) {
			p := 1 << (bits.Len(uint(t.n)) - 1)
			root := owner % p
			var hops []hop
			for r := p; r < t.n; r++ {
				hops = append(hops, hop{r, r - p})
			}
			for d := p / 2; d > 0; d /= 2 {
				for r := range d {
					hops = append(hops, hop{(r + d) ^ root, r ^ root})
				}
			}
			return hops, root
		},
		spread: func(t *topology, from int) []hop {
			p := 1 << (bits.Len(uint(t.n)) - 1)
			root := from % p
			var hops []hop
			if from >= p {
				hops = append(hops, hop{from, root})
			}
			for d := 1; d < p; d *= 2 {
				for r := range d {
					hops = append(hops, hop{r ^ root, (r + d) ^ root})
				}
			}
			for r := p; r < t.n; r++ {
				if r != from {
					hops = append(hops, hop{r - p, r})
				}
			}
			return hops
		},
	},
	{
		name: "hierarchical", phased: true,
		why:    "rings within groups of close devices and between them: least bytes between groups, for machines with slow links between fast islands",
		owners: everyRank,
		fold: func(t *topology, owner int) ([]hop, int) {
			var hops []hop
			for g := range t.groups {
				local := t.local(g, owner)
				hops = append(hops, path(rotate(t.groups[g], t.index[local]+1))...)
			}
			return append(hops, path(t.across(owner, 1))...), owner
		},
		spread: func(t *topology, from int) []hop {
			hops := path(t.across(from, 0))
			for g := range t.groups {
				hops = append(hops, path(rotate(t.groups[g], t.index[t.local(g, from)]))...)
			}
			return hops
		},
	},
}

// tree is the hops towards a rank by which half of those left drop out at each step.
func (t *topology) tree(root int) []hop {
	var hops []hop
	for d := 1; d < t.n; d *= 2 {
		for r := 0; r+d < t.n; r += 2 * d {
			hops = append(hops, hop{(root + r + d) % t.n, (root + r) % t.n})
		}
	}
	return hops
}

// local is the member of a group that stands for it in routes of an owner's
// slice: the owner in its own group, and in others the one at the same place.
func (t *topology) local(group, owner int) int {
	g := t.groups[group]
	return g[t.index[owner]%len(g)]
}

// across returns the members that stand for groups, in ring order. The first is of the
// group that comes after places behind the owner's.
func (t *topology) across(owner, after int) []int {
	var out []int
	for _, g := range rotate(sequence(len(t.groups)), t.group[owner]+after) {
		out = append(out, t.local(g, owner))
	}
	return out
}

// Algorithms returns the names Spec.Algorithm takes.
func Algorithms() []string {
	var out []string
	for i := range algorithms {
		out = append(out, algorithms[i].name)
	}
	return out
}

func everyRank(t *topology) []int { return sequence(t.n) }

// sequence is 0 to n-1.
func sequence(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// rotate returns a list that begins at a place of it.
func rotate(list []int, at int) []int {
	at %= len(list)
	return slices.Concat(list[at:], list[:at])
}

// path is the hops along a list of ranks.
func path(ranks []int) []hop {
	var out []hop
	for i := 1; i < len(ranks); i++ {
		out = append(out, hop{ranks[i-1], ranks[i]})
	}
	return out
}
