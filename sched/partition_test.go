package sched

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawPieces makes work with uneven cost and bytes by drawing both for every
// item, so that sums over a range can be checked item by item.
func drawPieces(t *rapid.T) (p Items, cost []float64, bytes []int64) {
	n := rapid.IntRange(0, 300).Draw(t, "extent")
	p.Extent = int64(n)
	p.Align = int64(rapid.IntRange(0, 9).Draw(t, "align"))
	costs := rapid.SliceOfN(rapid.IntRange(0, 1000), n, n).Draw(t, "costs")
	sizes := rapid.SliceOfN(rapid.IntRange(0, 100), n, n).Draw(t, "bytes")
	for i := range n {
		cost, bytes = append(cost, float64(costs[i])), append(bytes, int64(sizes[i]))
	}
	if rapid.Bool().Draw(t, "uneven") {
		p.Cost = func(lo, hi int64) (sum float64) {
			for _, c := range cost[lo:hi] {
				sum += c
			}
			return sum
		}
	} else {
		for i := range cost {
			cost[i] = 1
		}
	}
	p.Bytes = func(lo, hi int64) (in, out int64) {
		for _, b := range bytes[lo:hi] {
			in += b
		}
		return in, (hi - lo) * 8
	}
	return p, cost, bytes
}

func drawShares(t *rapid.T) []Share {
	shares := make([]Share, rapid.IntRange(1, 9).Draw(t, "shares"))
	for k := range shares {
		shares[k] = Share{
			Rate:        float64(rapid.IntRange(0, 100).Draw(t, "rate")),
			FreeBytes:   int64(rapid.IntRange(0, 20000).Draw(t, "free")),
			MarginBytes: int64(rapid.IntRange(0, 500).Draw(t, "margin")),
			Util:        float64(rapid.IntRange(0, 4).Draw(t, "util")) / 4,
			LinkBPS:     float64(rapid.IntRange(0, 1000).Draw(t, "link")),
			Latency:     time.Duration(rapid.IntRange(0, 5000).Draw(t, "latency")) * time.Millisecond,
		}
	}
	return shares
}

// TestPartitionsCover checks what every partition must be: contiguous ranges
// in order that cover the extent, aligned, none for a device without a rate,
// with a prediction that follows from the ranges.
func TestPartitionsCover(t *testing.T) {
	for _, name := range PartitionerNames() {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				p, _, bytes := drawPieces(t)
				shares := drawShares(t)
				got, err := Partitioners()[name](p, shares)
				if err != nil {
					rated := false
					for _, s := range shares {
						rated = rated || s.Rate > 0
					}
					if errors.Is(err, ErrNoShare) && !rated || errors.Is(err, ErrTooBig) && name == "memory" {
						return
					}
					t.Fatal(err)
				}
				at, moved := int64(0), int64(0)
				for k, r := range got.Ranges {
					if r.Lo != at || r.Hi < r.Lo {
						t.Fatalf("range %d is %v after %d", k, r, at)
					}
					if r.Hi != p.Extent && r.Hi%max(p.Align, 1) != 0 {
						t.Fatalf("range %d ends at %d, not a multiple of %d", k, r.Hi, p.Align)
					}
					if shares[k].Rate == 0 && r.Len() > 0 {
						t.Fatalf("share %d has no rate and gets %v", k, r)
					}
					held := 8 * r.Len()
					for _, b := range bytes[r.Lo:r.Hi] {
						held += b
					}
					if shares[k].LinkBPS > 0 {
						moved += held
					}
					if name == "memory" && held > max(shares[k].FreeBytes-shares[k].MarginBytes, 0) {
						t.Fatalf("share %d holds %d bytes of %d less %d", k, held, shares[k].FreeBytes, shares[k].MarginBytes)
					}
					at = r.Hi
				}
				if at != p.Extent {
					t.Fatalf("ranges end at %d of %d", at, p.Extent)
				}
				if got.BytesMoved != moved {
					t.Fatalf("moves %d bytes, says %d", moved, got.BytesMoved)
				}
				if got.Balance < 0 || got.Balance > 1+1e-9 {
					t.Fatalf("balance %v", got.Balance)
				}
			})
		})
	}
}

// TestLatencyIsOptimal compares with the best of all ways to cut, found by
// dynamic programming.
func TestLatencyIsOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, cost, bytes := drawPieces(t)
		p.Extent = min(p.Extent, 40)
		shares := drawShares(t)
		shares = shares[:min(len(shares), 4)]
		shares[0].Rate++ // at least one takes work
		got, err := Latency(p, shares)
		if err != nil {
			t.Fatal(err)
		}
		align := max(p.Align, 1)
		ends := func(s Share, lo, hi int64) float64 {
			if lo == hi {
				return 0
			}
			if s.Rate == 0 {
				return math.Inf(1)
			}
			total := s.Latency.Seconds()
			for i := lo; i < hi; i++ {
				total += cost[i] / s.Rate
				if s.LinkBPS > 0 {
					total += float64(bytes[i]+8) / s.LinkBPS
				}
			}
			return total
		}
		// best[hi] is the shortest longest time with the shares so far doing [0, hi).
		best := map[int64]float64{0: 0}
		for _, s := range shares {
			next := make(map[int64]float64)
			for lo, before := range best {
				for hi := lo; ; hi = min(hi/align*align+align, p.Extent) {
					at := max(before, ends(s, lo, hi))
					if old, ok := next[hi]; !ok || at < old {
						next[hi] = at
					}
					if hi == p.Extent {
						break
					}
				}
			}
			best = next
		}
		if want := best[p.Extent]; math.Abs(got.Completion.Seconds()-want) > 1e-6*(1+want) {
			t.Fatalf("completion %v, possible %vs", got.Completion, want)
		}
	})
}

// TestProportionalQuota checks largest remainders: each share within one item
// of its exact part.
func TestProportionalQuota(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shares := drawShares(t)
		shares[0].Rate++
		n := rapid.Int64Range(0, 1e12).Draw(t, "n")
		got, err := Proportional(Items{Extent: n}, shares)
		if err != nil {
			t.Fatal(err)
		}
		total := 0.0
		for _, s := range shares {
			total += s.Rate
		}
		for k, r := range got.Ranges {
			if exact := float64(n) * shares[k].Rate / total; math.Abs(float64(r.Len())-exact) > 1.001 {
				t.Fatalf("share %d gets %d, its part is %v", k, r.Len(), exact)
			}
		}
	})
}

// landscape is the cost of rows that hold a pair with every later column:
// row i costs (i+2)(n−i−2), for i from 0 to n−3.
func landscape(n int64) Items {
	prefix := []float64{0}
	for i := range n - 2 {
		prefix = append(prefix, prefix[i]+float64((i+2)*(n-i-2)))
	}
	return Items{Extent: n - 2, Cost: func(lo, hi int64) float64 { return prefix[hi] - prefix[lo] }}
}

func TestLandscapeRows(t *testing.T) {
	const n = 2000
	for _, c := range []struct {
		devices int
		equal   float64 // percent
	}{{3, 69}, {4, 73}, {8, 68}, {16, 67}} {
		p := landscape(n)
		shares := make([]Share, c.devices)
		for k := range shares {
			shares[k].Rate = 1e6
		}
		for name, want := range map[string]float64{"equal": c.equal, "proportional": 95, "latency": 95} {
			got, err := Partitioners()[name](p, shares)
			if err != nil {
				t.Fatal(err)
			}
			// Efficiency from the ranges themselves.
			longest := 0.0
			for _, r := range got.Ranges {
				longest = max(longest, p.Cost(r.Lo, r.Hi))
			}
			efficiency := 100 * p.Cost(0, p.Extent) / longest / float64(c.devices)
			if name == "equal" && math.Round(efficiency) != want || name != "equal" && efficiency < want {
				t.Errorf("%s on %d devices: %.1f %%, want %v", name, c.devices, efficiency, want)
			}
			if math.Abs(100*got.Balance-efficiency) > 1e-6 {
				t.Errorf("%s on %d devices: balance %v, efficiency %v %%", name, c.devices, got.Balance, efficiency)
			}
		}
	}
}

// TestLandscapeSmall holds the same target where a row is a noticeable part of
// a device's work.
func TestLandscapeSmall(t *testing.T) {
	p := landscape(500)
	for _, devices := range []int{3, 4, 8, 16} {
		shares := make([]Share, devices)
		for k := range shares {
			shares[k].Rate = 1
		}
		for _, name := range []string{"proportional", "latency"} {
			got, _ := Partitioners()[name](p, shares)
			if got.Balance < 0.95 {
				t.Errorf("%s on %d devices: %.3f", name, devices, got.Balance)
			}
		}
	}
}

func TestPartitionErrors(t *testing.T) {
	for name, part := range Partitioners() {
		if _, err := part(Items{Extent: 10}, nil); !errors.Is(err, ErrNoShare) {
			t.Errorf("%s of no shares: %v", name, err)
		}
		if _, err := part(Items{Extent: -1}, []Share{{Rate: 1}}); !errors.Is(err, ErrItems) {
			t.Errorf("%s of a negative extent: %v", name, err)
		}
		if _, err := part(Items{Extent: 1}, []Share{{Rate: math.NaN()}}); !errors.Is(err, ErrItems) {
			t.Errorf("%s of a rate that is no number: %v", name, err)
		}
	}
}

func BenchmarkLatencyPartition(b *testing.B) {
	p := landscape(100_000)
	shares := make([]Share, 16)
	for k := range shares {
		shares[k] = Share{Rate: 1e9, Latency: time.Microsecond}
	}
	for b.Loop() {
		if _, err := Latency(p, shares); err != nil {
			b.Fatal(err)
		}
	}
}
