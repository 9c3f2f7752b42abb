package landscape

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/simd"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload/protein"
)

// chains are the models that rows are cut of.
func chains(t testing.TB) []*Model {
	return []*Model{coil(t, 4), coil(t, 5), crambin(t), coil(t, 60)}
}

// unset returns numbers that no kernel computes.
func unset(n int) []float64 { return slices.Repeat([]float64{math.NaN()}, n) }

func sameBits(a, b []float64) bool {
	return bytes.Equal(workloadtest.Bytes(a), workloadtest.Bytes(b))
}

// A part of a row has the bits that the whole row has there, wherever it begins and
// ends.
func TestPartsEqualRows(t *testing.T) {
	turns, models := turnTable(), chains(t)
	if testing.Short() { // longer chains differ in how long they take
		models = models[:2]
	}
	everyKernel(t, func(t *testing.T) {
		for _, m := range models {
			whole, energy := sample(m), m.Energy(m.Native)
			check := func(t rapid.TB, i, from, to int) {
				part := unset(to - from)
				rowPart(part, m.Native, turns, energy, i, from)
				if !sameBits(part, whole[i*Angles+from:i*Angles+to]) {
					t.Errorf("%d beads, row %d: angles %d to %d differ from those of the whole row", m.Beads(), i, from, to)
				}
			}
			rows := rowCount(m.Beads())
			for _, i := range []int{0, 1, rows / 2, rows - 1} {
				for lo := range hostedParts {
					for hi := lo + 1; hi <= hostedParts; hi++ {
						check(t, i, lo*Angles/hostedParts, hi*Angles/hostedParts)
					}
				}
			}
			rapid.Check(t, func(t *rapid.T) {
				from := rapid.IntRange(0, Angles/lanes-1).Draw(t, "from")
				to := rapid.IntRange(from+1, Angles/lanes).Draw(t, "to")
				check(t, rapid.IntRange(0, rows-1).Draw(t, "row"), from*lanes, to*lanes)
			})
		}
	})
}

// The kernels write a task's range with the bits of whole rows, and nothing beside
// it, however its items are dealt out to a team.
func TestPiecesOfTasks(t *testing.T) {
	funcs := Funcs()
	for _, m := range chains(t) {
		want := sample(m)
		rows := (&job{model: m, parts: 1, energy: m.Energy(m.Native), turns: turnTable(), energies: make([]float64, len(want))}).declare()
		for _, j := range []*job{rows, rows.Hosted().(*job)} {
			check := func(lo, hi int64, cut float64) {
				step := j.Task(lo, hi).Steps[0]
				got := unset(len(want))
				from, to := j.offset(lo), j.offset(hi)
				c := &weft.Call{Params: step.Params, Args: [][]byte{
					workloadtest.Bytes(m.Native), workloadtest.Bytes(j.turns), workloadtest.Bytes(got)[from:to:to],
				}}
				items := int(step.Launch.Grid[0])
				mid := int(cut * float64(items))
				funcs[step.Kernel.Name](c, mid, items)
				funcs[step.Kernel.Name](c, 0, mid)
				all := unset(len(want))
				copy(all[from/8:to/8], want[from/8:to/8])
				if !sameBits(got, all) {
					t.Errorf("%d beads in %d pieces: pieces %d to %d in items to %d and from there to %d are not those of whole rows",
						m.Beads(), j.extent(), lo, hi, mid, items)
				}
			}
			extent := j.extent()
			if extent <= 15 {
				for lo := range extent {
					for hi := lo + 1; hi <= extent; hi++ {
						check(lo, hi, 0)
						check(lo, hi, 0.5)
					}
				}
				continue
			}
			// Of long chains, ranges that begin and end around the same rows or
			// others.
			middle := extent / 2 / hostedParts * hostedParts
			for _, at := range []int64{0, middle, extent - 2*hostedParts} {
				for lo := at; lo <= at+hostedParts; lo += 2 {
					for _, length := range []int64{1, 4, 5, 6, 9} {
						check(lo, min(lo+length, extent), 0.5)
					}
				}
			}
			rapid.Check(t, func(t *rapid.T) {
				lo := rapid.Int64Range(0, extent-1).Draw(t, "lo")
				hi := rapid.Int64Range(lo+1, min(lo+12, extent)).Draw(t, "hi")
				check(lo, hi, rapid.Float64Range(0, 1).Draw(t, "cut"))
			})
		}
	}
}

// The cost of parts is that of their pairs at their angles, exactly: a row has that
// of its parts.
func TestPartsCost(t *testing.T) {
	for _, n := range []int{4, 5, 46, 301} {
		rows := (&job{model: &Model{&protein.Model{Native: make([]float64, 3*n)}}, parts: 1}).declare()
		parts := rows.Hosted().(*job)
		if got, want := parts.extent(), hostedParts*rows.extent(); got != want {
			t.Fatalf("%d beads: %d parts, want %d", n, got, want)
		}
		var sum int64
		for p := range parts.extent() {
			if got := parts.costBefore(p); got != sum {
				t.Fatalf("%d beads: parts before %d cost %d, want %d", n, p, got, sum)
			}
			if row := p / hostedParts; p%hostedParts == 0 && sum != hostedParts*rows.costBefore(row) {
				t.Fatalf("%d beads: parts before row %d cost %d, the rows %d of %d angles each", n, row, sum, rows.costBefore(row), Angles)
			}
			cost := costOf(n, int(p/hostedParts))
			if got := parts.Items().Cost(p, p+1); got != float64(cost) {
				t.Fatalf("%d beads: part %d costs %v, want %d", n, p, got, cost)
			}
			sum += cost
		}
		if got := parts.Items().Cost(0, parts.extent()); got != float64(sum) || sum != hostedParts*costBefore(n, rowCount(n)) {
			t.Errorf("%d beads: all parts cost %v, want %d, %d times the rows' %d", n, got, sum, hostedParts, costBefore(n, rowCount(n)))
		}
		for lo := range rows.extent() {
			got, want := parts.Task(hostedParts*lo, parts.extent()).Work, rows.Task(lo, rows.extent()).Work
			cost := costBefore(n, rowCount(n)) - costBefore(n, int(lo))
			if got != want || want.Ops != 25*Angles*float64(cost) || want.Bytes != float64(8*(3*n+Angles*int(rows.extent()-lo))) {
				t.Fatalf("%d beads from row %d on: work %+v in parts, %+v in rows", n, lo, got, want)
			}
		}
	}
}

// A part of a long chain's row is worth a task, of short chains only a whole row's.
func TestGrain(t *testing.T) {
	for _, c := range []struct {
		beads int
		want  int64
	}{{4, 5}, {5, 5}, {10, 5}, {20, 2}, {46, 1}, {MaxResidues, 1}} {
		rows := (&job{model: &Model{&protein.Model{Native: make([]float64, 3*c.beads)}}, parts: 1}).declare()
		if got := rows.Hosted().Items().Grain; got != c.want || rows.Items().Grain != 1 {
			t.Errorf("%d beads: a task has at least %d parts or %d rows, want %d or one", c.beads, got, rows.Items().Grain, c.want)
		}
	}
}

// BenchmarkParts samples the landscape of crambin on one core, row by row and part
// by part: what it costs to cut rows.
func BenchmarkParts(b *testing.B) {
	m := crambin(b)
	dst, turns, energy := make([]float64, rowCount(m.Beads())*Angles), turnTable(), m.Energy(m.Native)
	defer func() { use = simd.Best }()
	for _, use = range simd.Sets() {
		for _, parts := range []int{1, hostedParts} {
			b.Run(fmt.Sprintf("kernel=%v/parts=%d", use, parts), func(b *testing.B) {
				angles := Angles / parts
				for range b.N {
					for e := 0; e < len(dst); e += angles {
						rowPart(dst[e:e+angles], m.Native, turns, energy, e/Angles, e%Angles)
					}
				}
			})
		}
	}
}
