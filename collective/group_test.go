package collective_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/collective"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/cuda/cudatest"
	"github.com/weft-run/weft/internal/backend/fake"
)

func TestMain(m *testing.M) {
	weft.Worker()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		cudatest.Remove()
		os.Exit(code)
	}))
}

// open opens devices, which end with the test.
func open(t *testing.T, o weft.Options) (context.Context, *weft.Runtime) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	o.Funcs, o.NoCalibrate, o.CacheDir = collective.Funcs(), true, "off"
	rt, err := weft.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	return ctx, rt
}

func group(t *testing.T, rt *weft.Runtime, o collective.Options) *collective.Group {
	t.Helper()
	g, err := collective.New(rt, o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// vectors are n of them, x(r, i) being element i of number r.
func vectors[T any](n int, count func(r int) int64, x func(r int, i int64) T) [][]T {
	out := make([][]T, n)
	for r := range out {
		out[r] = make([]T, count(r))
		for i := range out[r] {
			out[r][i] = x(r, int64(i))
		}
	}
	return out
}

func same(count int64) func(int) int64 { return func(int) int64 { return count } }

// x is a number that depends on who has it where.
func x(r int, i int64) float32 { return float32(r*1000) + float32(i%911) }

func zero(int, int64) float32 { return 0 }

// total is the sum over ranks.
func total(n int, i int64) (sum float32) {
	for r := range n {
		sum += x(r, i)
	}
	return sum
}

// Every operation, live on one to four devices by every algorithm.
func TestOnCores(t *testing.T) {
	for n := 1; n <= 4; n++ {
		ctx, rt := open(t, weft.Options{Devices: fmt.Sprintf("cpu/%d", n)})
		for _, algorithm := range append([]string{""}, collective.Algorithms()...) {
			g := group(t, rt, collective.Options{Algorithm: algorithm})
			for _, count := range []int64{0, 3, 100_003} {
				everyOperation(t, ctx, g, count)
			}
		}
	}
}

// And on devices with memories of their own.
func TestOnDevices(t *testing.T) {
	drv := fakes(t, "devices 3; memory 67108864; peer")
	ctx, rt := open(t, weft.Options{Drivers: []driver.Driver{drv}})
	for _, algorithm := range append([]string{""}, collective.Algorithms()...) {
		everyOperation(t, ctx, group(t, rt, collective.Options{Algorithm: algorithm}), 1003)
	}
}

func fakes(t *testing.T, script string) *fake.Driver {
	t.Helper()
	o, err := fake.Parse(script)
	if err != nil {
		t.Fatal(err)
	}
	o.Funcs = collective.Funcs()
	drv, err := fake.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return drv
}

func everyOperation(t *testing.T, ctx context.Context, g *collective.Group, count int64) {
	t.Helper()
	n := g.Size()
	block := func(r int) int64 {
		lo, hi := collective.Cut(count, n, r)
		return hi - lo
	}
	first := func(r int) int64 {
		lo, _ := collective.Cut(count, n, r)
		return lo
	}
	check := func(op string, err error, out [][]float32, want func(r int, i int64) float32) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s of %d: %v", op, count, err)
		}
		for r := range out {
			for i, got := range out[r] {
				if want := want(r, int64(i)); got != want {
					t.Fatalf("%s of %d: element %d of rank %d is %v, want %v", op, count, i, r, got, want)
				}
			}
		}
	}
	in := vectors(n, same(count), x)

	out := vectors(n, same(count), zero)
	_, err := collective.AllReduce(ctx, g, collective.Sum, in, out)
	check("allreduce", err, out, func(_ int, i int64) float32 { return total(n, i) })

	root := n - 1
	one := make([]float32, count)
	_, err = collective.Reduce(ctx, g, collective.Max, root, in, one)
	check("reduce", err, [][]float32{one}, func(_ int, i int64) float32 { return x(n-1, i) })

	out = vectors(n, block, zero)
	_, err = collective.ReduceScatter(ctx, g, collective.Sum, in, out)
	check("reducescatter", err, out, func(r int, i int64) float32 { return total(n, first(r)+i) })

	out = vectors(n, same(count), zero)
	_, err = collective.Broadcast(ctx, g, root, in[root], out)
	out[root] = nil
	check("broadcast", err, out, func(_ int, i int64) float32 { return x(root, i) })

	blocks := vectors(n, block, func(r int, i int64) float32 { return x(r, first(r)+i) })
	out = vectors(n, same(count), zero)
	_, err = collective.AllGather(ctx, g, blocks, out)
	check("allgather", err, out, func(_ int, i int64) float32 {
		r := 0
		for i >= first(r)+block(r) {
			r++
		}
		return x(r, i)
	})

	out = vectors(n, func(r int) int64 { return int64(n) * block(r) }, zero)
	_, err = collective.AllToAll(ctx, g, in, out)
	check("alltoall", err, out, func(r int, i int64) float32 { return x(int(i/block(r)), first(r)+i%block(r)) })

	if n > 1 {
		_, err = collective.Send(ctx, g, 0, root, in[0], one)
		check("send", err, [][]float32{one}, func(_ int, i int64) float32 { return x(0, i) })
	}
	_, err = collective.Barrier(ctx, g)
	check("barrier", err, nil, nil)
}

// Other types reach their kernels.
func TestTypes(t *testing.T) {
	ctx, rt := open(t, weft.Options{Devices: "cpu/2"})
	g := group(t, rt, collective.Options{})
	sums(t, ctx, g, func(x float64) float64 { return x })
	sums(t, ctx, g, func(x float64) int32 { return int32(x) })
	sums(t, ctx, g, func(x float64) int64 { return int64(x) })
	sums(t, ctx, g, func(x float64) collective.Half { return collective.NewHalf(float32(x)) })
	sums(t, ctx, g, func(x float64) collective.BFloat { return collective.NewBFloat(float32(x)) })
}

func sums[T collective.Element](t *testing.T, ctx context.Context, g *collective.Group, from func(float64) T) {
	t.Helper()
	in := [][]T{{from(1), from(2), from(-3)}, {from(4), from(5), from(-6)}}
	out := vectors(2, same(3), func(int, int64) T { return from(99) })
	if _, err := collective.AllReduce(ctx, g, collective.Sum, in, out); err != nil {
		t.Fatal(err)
	}
	if want := []T{from(5), from(7), from(-9)}; !slices.Equal(out[0], want) || !slices.Equal(out[1], want) {
		t.Errorf("the sums are %v, want %v", out, want)
	}
}

func TestGroupMistakes(t *testing.T) {
	ctx, rt := open(t, weft.Options{Devices: "cpu/2"})
	if _, err := collective.New(rt, collective.Options{Devices: []string{"cuda:0"}}); !errors.Is(err, collective.ErrSpec) {
		t.Errorf("a device that is not there gives %v", err)
	}
	if _, err := collective.New(rt, collective.Options{Algorithm: "star"}); !errors.Is(err, collective.ErrSpec) {
		t.Errorf("an unknown algorithm gives %v", err)
	}
	g := group(t, rt, collective.Options{})
	a, b, c := make([]float32, 4), make([]float32, 4), make([]float32, 4)
	for want, do := range map[string]func() error{
		"1 slices in and 2 out for 2 ranks": func() error {
			_, err := collective.AllReduce(ctx, g, collective.Sum, [][]float32{a}, [][]float32{b, c})
			return err
		},
		"rank 1 brings 3 elements": func() error {
			_, err := collective.AllReduce(ctx, g, collective.Sum, [][]float32{a, b[:3]}, [][]float32{c, make([]float32, 4)})
			return err
		},
		"overlaps": func() error {
			_, err := collective.AllReduce(ctx, g, collective.Sum, [][]float32{a, b}, [][]float32{a, c})
			return err
		},
		"number ranks from 0":     func() error { _, err := collective.Broadcast(ctx, g, 2, a, [][]float32{b, c}); return err },
		"no reduction unknown(9)": func() error { _, err := collective.Reduce(ctx, g, 9, 0, [][]float32{a, b}, c); return err },
	} {
		if err := do(); !errors.Is(err, collective.ErrSpec) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := collective.AllReduce(over, g, collective.Sum, [][]float32{a, b}, [][]float32{c, make([]float32, 4)}); !errors.Is(err, context.Canceled) {
		t.Errorf("after its context an operation ends with %v", err)
	}
}

func TestExplain(t *testing.T) {
	_, rt := open(t, weft.Options{Devices: "cpu/2"})
	p, err := group(t, rt, collective.Options{}).Plan(collective.Spec{Op: collective.OpAllReduce, Count: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"allreduce sum of 1048576 f32 (4MiB) over 2 ranks: direct, predicted", "\n  ring ", "\n  hierarchical "} {
		if !strings.Contains(p.Explain(), want) {
			t.Errorf("%q is not in\n%s", want, p.Explain())
		}
	}
}

// A device is lost in the middle of an operation and does not come back: the
// others redo it with what it brought, fail with its name, or go on without it.
func TestLoss(t *testing.T) {
	const n, count = 3, 5000
	for _, c := range []struct {
		loss collective.Loss
		lose string
	}{{collective.Again, "op 1"}, {collective.Again, "op 4"}, {collective.Fail, "op 2"}, {collective.Without, "op 3"}} {
		drv := fakes(t, "devices 3; memory 4194304; peer; on 1 lose "+c.lose+"; on 1 revive standby fails; on 1 revive restart fails; on 1 revive reopen fails")
		ctx, rt := open(t, weft.Options{Drivers: []driver.Driver{drv}})
		g := group(t, rt, collective.Options{Algorithm: "ring", OnLoss: c.loss})
		in := vectors(n, same(count), x)
		for range 2 { // found out, and known
			out := vectors(n, same(count), zero)
			res, err := collective.AllReduce(ctx, g, collective.Average, in, out)
			var lost *collective.LostError
			switch c.loss {
			case collective.Fail:
				if !errors.As(err, &lost) || !slices.Equal(lost.Devices, []string{"fake:1"}) || !slices.Equal(lost.Ranks, []int{1}) {
					t.Fatalf("%s: got %v, want the loss of fake:1", c.lose, err)
				}
				continue
			case collective.Without:
				if out[1][7] != 0 {
					t.Errorf("the lost rank got %v", out[1][7])
				}
				if want := (x(0, 7) + x(2, 7)) / 2; err != nil || out[0][7] != want || out[2][7] != want {
					t.Errorf("without it: %v, %v and %v, want %v", err, out[0][7], out[2][7], want)
				}
			default:
				for r := range n {
					if want := total(n, 7) / n; err != nil || out[r][7] != want {
						t.Errorf("again: %v, rank %d has %v, want %v", err, r, out[r][7], want)
					}
				}
			}
			if !slices.Equal(res.Lost, []string{"fake:1"}) {
				t.Errorf("%s: lost is %v", c.lose, res.Lost)
			}
		}
		// What has a place for every rank cannot go on without one.
		if c.loss == collective.Without {
			var lost *collective.LostError
			if _, err := collective.AllGather(ctx, g, vectors(n, same(2), x), vectors(n, same(6), zero)); !errors.As(err, &lost) {
				t.Errorf("allgather without a rank gives %v", err)
			}
		}
	}
}

// A device is lost while several operations of a group are on their way: one may
// find out between another's being worked out and its start. All are done again.
func TestLossOfMany(t *testing.T) {
	const n, count = 3, 5000
	for op := 1; op <= 40; op += 3 {
		drv := fakes(t, fmt.Sprintf("devices 3; memory 4194304; peer; on 1 lose op %d; on 1 revive standby fails; on 1 revive restart fails; on 1 revive reopen fails", op))
		ctx, rt := open(t, weft.Options{Drivers: []driver.Driver{drv}})
		g := group(t, rt, collective.Options{Algorithm: "ring"})
		in := vectors(n, same(count), x)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 10 {
					out := vectors(n, same(count), zero)
					if _, err := collective.AllReduce(ctx, g, collective.Sum, in, out); err != nil || out[2][7] != total(n, 7) {
						t.Errorf("lost at %d: %v, %v, want %v", op, err, out[2][7], total(n, 7))
					}
				}
			})
		}
		all.Wait()
	}
}

// A deadline ends an operation in its middle. The middle is made longer until everybody
// hears of the deadline in time.
func TestDeadline(t *testing.T) {
	for middle := time.Second; ; middle *= 2 {
		drv := fakes(t, fmt.Sprintf("devices 2; memory 4194304; peer; take %v launches times 1", middle))
		ctx, rt := open(t, weft.Options{Drivers: []driver.Driver{drv}, CancelWait: 10 * time.Minute})
		g := group(t, rt, collective.Options{Algorithm: "chain"})
		in, out := vectors(2, same(5000), x), vectors(2, same(5000), zero)
		short, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
		defer cancel()
		_, err := collective.AllReduce(short, g, collective.Sum, in, out)
		if err == nil && middle < time.Minute {
			continue
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("past its deadline an operation ends with %v", err)
		}
		if _, err := collective.AllReduce(ctx, g, collective.Sum, in, out); err != nil || out[1][7] != total(2, 7) {
			t.Errorf("after that, one ends with %v and %v", err, out[1][7])
		}
		return
	}
}
