//go:build invariants

package graph

import (
	"math/rand/v2"
	"testing"
)

// Twice as many uses or slices take at most 2.5 times the steps.
func TestGrowth(t *testing.T) {
	kernel := &Kernel{Name: "k", Impls: []Impl{{Dialect: Abstract}}}
	task := func(uses ...Use) Task { return Task{Steps: []Step{{Kernel: kernel, Launch: Grid(1)}}, Uses: uses} }
	slice := func(d DataID, i int, a Access) Use { return Use{Data: d, Offset: int64(i) * 8, Bytes: 8, Access: a} }
	for name, build := range map[string]func(b *Builder, n int){
		"one task that reads much data": func(b *Builder, n int) {
			var uses []Use
			for range n {
				uses = append(uses, Use{Data: b.Data(Data{Bytes: 64, Input: true}), Access: Read})
			}
			b.Add(task(uses...))
		},
		"one task that writes slices": func(b *Builder, n int) {
			d := b.Data(Data{Bytes: int64(n) * 8})
			var uses []Use
			for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
				uses = append(uses, slice(d, i, Write))
			}
			b.Add(task(uses...))
		},
		"tasks that reduce into slices": func(b *Builder, n int) {
			d := b.Data(Data{Bytes: int64(n) * 8, Input: true, Combine: kernel})
			for i := range 2 * n {
				b.Add(task(slice(d, i%n, Reduce)))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			count := func(n int) int {
				var b Builder
				before := stepsTaken
				build(&b, n)
				if _, err := b.Build(); err != nil {
					t.Fatal(err)
				}
				return stepsTaken - before
			}
			small, large := count(2000), count(4000)
			if small == 0 || 2*large > 5*small {
				t.Errorf("%d steps for 2000, %d for 4000", small, large)
			}
		})
	}
}
