package collective_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/collective"
)

// folding compares what is folded inline with the algorithm direct, which folds in the
// order of ranks as well, bit by bit.
func folding[T collective.Element](t *testing.T, ctx context.Context, inline, direct *collective.Group, count int64, number func(r int, i int64) T) {
	t.Helper()
	n := inline.Size()
	in := vectors(n, same(count), number)
	block := func(r int) int64 {
		lo, hi := collective.Cut(count, n, r)
		return hi - lo
	}
	for f := range collective.Fold(collective.NumFolds) {
		for name, do := range map[string]func(g *collective.Group) (collective.Result, [][]T, error){
			"allreduce": func(g *collective.Group) (collective.Result, [][]T, error) {
				out := vectors(n, same(count), func(int, int64) T { return 1 })
				res, err := collective.AllReduce(ctx, g, f, in, out)
				return res, out, err
			},
			"reduce": func(g *collective.Group) (collective.Result, [][]T, error) {
				out := make([]T, count)
				res, err := collective.Reduce(ctx, g, f, n/2, in, out)
				return res, [][]T{out}, err
			},
			"reducescatter": func(g *collective.Group) (collective.Result, [][]T, error) {
				out := vectors(n, block, func(int, int64) T { return 1 })
				res, err := collective.ReduceScatter(ctx, g, f, in, out)
				return res, out, err
			},
		} {
			res, got, err := do(inline)
			_, want, err2 := do(direct)
			if err := errors.Join(err, err2); err != nil {
				t.Fatalf("%s of %d, %v: %v", name, count, f, err)
			}
			if res.Algorithm != collective.Inline || res.Report != nil {
				t.Errorf("%s of %d, %v is done by %q, report %v", name, count, f, res.Algorithm, res.Report)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s of %d %T, %v:\n%v, want\n%v", name, count, in[0][0], f, got, want)
			}
		}
	}
}

// What is done inline is what the plans do, for every fold and type.
func TestInlineAgrees(t *testing.T) {
	for n := 1; n <= 4; n++ {
		ctx, rt := open(t, weft.Options{Devices: fmt.Sprintf("cpu/%d", n)})
		inline, direct := group(t, rt, collective.Options{}), group(t, rt, collective.Options{Algorithm: "direct"})
		for _, count := range []int64{1, 2, 3, 7, 100} {
			// Sums and products of these are rounded, or wrap.
			whole := func(r int, i int64) int64 { return (int64(r)+3)*(i*0x1234567+11)*0x10001 - 0x7fffff }
			folding(t, ctx, inline, direct, count, func(r int, i int64) float32 { return float32(whole(r, i)) / 7 })
			folding(t, ctx, inline, direct, count, func(r int, i int64) float64 { return float64(whole(r, i)) / 7 })
			folding(t, ctx, inline, direct, count, func(r int, i int64) int32 { return int32(whole(r, i)) })
			folding(t, ctx, inline, direct, count, whole)
			folding(t, ctx, inline, direct, count, func(r int, i int64) collective.Half { return collective.Half(0x3c00 + 37*r + int(i)) })
			folding(t, ctx, inline, direct, count, func(r int, i int64) collective.BFloat { return collective.BFloat(0x3f80 + 3*r + int(i)) })
		}
	}
}

// Only small operations without a wish for an algorithm are done inline.
func TestInlineOnly(t *testing.T) {
	ctx, rt := open(t, weft.Options{Devices: "cpu/2"})
	for name, c := range map[string]struct {
		o     collective.Options
		count int64
		want  bool
	}{
		"small":                {count: 1024, want: true},
		"64 KiB in all":        {count: 4096, want: true},
		"more":                 {count: 4097},
		"exact":                {o: collective.Options{Exact: true}, count: 1024, want: true},
		"an algorithm is told": {o: collective.Options{Algorithm: "ring"}, count: 1024},
	} {
		g := group(t, rt, c.o)
		in, out := vectors(2, same(c.count), x), vectors(2, same(c.count), zero)
		res, err := collective.AllReduce(ctx, g, collective.Sum, in, out)
		if err != nil || (res.Algorithm == collective.Inline) != c.want {
			t.Errorf("%s: done by %q, %v", name, res.Algorithm, err)
		}
		for i, got := range out[1] {
			if want := total(2, int64(i)); got != want {
				t.Fatalf("%s: element %d is %v, want %v", name, i, got, want)
			}
		}
	}
	if res, err := collective.Barrier(ctx, group(t, rt, collective.Options{})); err != nil || res.Algorithm == collective.Inline || res.Report == nil {
		t.Errorf("a barrier is done by %q, %v", res.Algorithm, err)
	}
}

// What is done inline is refused like the rest.
func TestInlineRefused(t *testing.T) {
	_, rt := open(t, weft.Options{Devices: "cpu/2"})
	g := group(t, rt, collective.Options{})
	in, out := vectors(2, same(3), x), vectors(2, same(3), zero)
	cause := errors.New("enough")
	ended, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	if _, err := collective.AllReduce(ended, g, collective.Sum, in, out); !errors.Is(err, cause) {
		t.Errorf("with a context that has ended: %v", err)
	}
	if _, err := collective.Send(context.Background(), g, 1, 1, in[0], out[0]); !errors.Is(err, collective.ErrSpec) {
		t.Errorf("sent to oneself: %v", err)
	}
	if _, err := collective.AllReduce(context.Background(), g, collective.NumFolds, in, out); !errors.Is(err, collective.ErrSpec) {
		t.Errorf("a fold that there is not: %v", err)
	}
	if !slices.Equal(out[0], []float32{0, 0, 0}) {
		t.Errorf("a refused operation wrote %v", out[0])
	}
	if err := rt.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := collective.AllReduce(context.Background(), g, collective.Sum, in, out); !errors.Is(err, weft.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// A device that was drained takes no part; the others do its part.
func TestDrainedStandsAside(t *testing.T) {
	ctx, rt := open(t, weft.Options{Devices: "cpu/3"})
	g := group(t, rt, collective.Options{})
	if err := rt.Drain(ctx, "cpu:1"); err != nil {
		t.Fatal(err)
	}
	const count = 100_000
	in, out := vectors(3, same(count), x), vectors(3, same(count), zero)
	res, err := collective.AllReduce(ctx, g, collective.Sum, in, out)
	if err != nil || !slices.Equal(res.Lost, []string{"cpu:1"}) {
		t.Fatalf("done without %v, %v", res.Lost, err)
	}
	for i, got := range out[1] {
		if want := total(3, int64(i)); got != want {
			t.Fatalf("element %d is %v, want %v", i, got, want)
		}
	}
	if _, err := collective.Barrier(ctx, g); err != nil {
		t.Error(err)
	}
}
