package collective_test

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/collective"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/fake"
	"github.com/weft-run/weft/internal/test/poll"
	"github.com/weft-run/weft/machine"
)

// natives are the routines of a library for collectives, on numbers of 32 bits:
// plainly, with everything of all ranks at hand.
func natives() map[string]func([][][]byte, []byte) error {
	out := make(map[string]func([][][]byte, []byte) error)
	for op := range collective.Op(collective.NumOps) {
		out["nccl."+op.String()] = func(args [][][]byte, params []byte) error {
			word := func(i int) int { return int(binary.LittleEndian.Uint32(params[4*i:])) }
			s := collective.Spec{Op: op, Count: int64(word(2)), Fold: collective.Fold(word(5)), Root: word(6), Peer: word(7)}
			s.Ranks = make([]machine.DeviceID, len(args))
			n := len(args)
			in, to := make([][]float32, n), make([][]float32, n)
			for r, a := range args {
				if a == nil {
					continue
				}
				if s.InCount(r) > 0 {
					in[r], a = weft.View[float32](a[0]), a[1:]
				}
				if s.OutCount(r) > 0 {
					to[r] = weft.View[float32](a[0])
				}
			}
			folded := func(i int) float32 {
				x := in[0][i]
				for _, v := range in[1:] {
					switch s.Fold {
					case collective.Max:
						x = max(x, v[i])
					case collective.Min:
						x = min(x, v[i])
					default:
						x += v[i]
					}
				}
				if s.Fold == collective.Average {
					x /= float32(n)
				}
				return x
			}
			for r := range to {
				first, _ := collective.Cut(s.Count, n, r)
				at := 0
				for i := range to[r] {
					switch op {
					case collective.OpAllReduce, collective.OpReduce:
						to[r][i] = folded(i)
					case collective.OpReduceScatter:
						to[r][i] = folded(int(first) + i)
					case collective.OpBroadcast, collective.OpSend:
						to[r][i] = in[s.Root][i]
					case collective.OpAllGather:
						for lo, hi := collective.Cut(s.Count, n, at); int64(i) >= hi; lo, hi = collective.Cut(s.Count, n, at) {
							_, at = lo, at+1
						}
						lo, _ := collective.Cut(s.Count, n, at)
						to[r][i] = in[at][int64(i)-lo]
					case collective.OpAllToAll:
						each := len(to[r]) / n
						to[r][i] = in[i/each][int(first)+i%each]
					}
				}
			}
			return nil
		}
	}
	return out
}

func joining(t *testing.T, script string) *fake.Driver {
	t.Helper()
	o, err := fake.Parse("devices 3; memory 67108864; peer; joins nccl; " + script)
	if err != nil {
		t.Fatal(err)
	}
	o.Funcs, o.Natives = collective.Funcs(), natives()
	drv, err := fake.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return drv
}

// Devices that have a library of their own do every operation by it, whatever the
// order of ranks; exactness and other algorithms do without.
func TestNative(t *testing.T) {
	ctx, rt := open(t, weft.Options{Drivers: []driver.Driver{joining(t, "")}})
	for _, names := range [][]string{nil, {"fake:2", "fake:0", "fake:1"}, {"fake:1", "fake:2"}} {
		g := group(t, rt, collective.Options{Devices: names})
		for _, count := range []int64{0, 1, 3, 1003} {
			everyOperation(t, ctx, g, count)
		}
		in, out := vectors(g.Size(), same(100), x), vectors(g.Size(), same(100), zero)
		res, err := collective.AllReduce(ctx, g, collective.Sum, in, out)
		if err != nil || res.Algorithm != collective.Native || res.Report.Executed != 1 {
			t.Errorf("devices %v: %v, by %q", names, err, res.Algorithm)
		}
		if g.Failure() != nil {
			t.Error(g.Failure())
		}
		g.Close()
		if res, err := collective.AllReduce(ctx, g, collective.Max, in, out); err != nil || res.Algorithm != collective.Native {
			t.Errorf("after Close: %v, by %q", err, res.Algorithm)
		}
	}
	for name, o := range map[string]collective.Options{
		"exact": {Exact: true}, "ring": {Algorithm: "ring"}, "two ranks on one": {Devices: []string{"fake:0", "fake:1", "fake:0"}},
	} {
		g := group(t, rt, o)
		in, out := vectors(g.Size(), same(100), x), vectors(g.Size(), same(100), zero)
		if res, err := collective.AllReduce(ctx, g, collective.Sum, in, out); err != nil || res.Algorithm == collective.Native || out[1][7] != total(g.Size(), 7) && name != "two ranks on one" {
			t.Errorf("%s: %v, by %q", name, err, res.Algorithm)
		}
		everyOperation(t, ctx, g, 10)
	}
	g := group(t, rt, collective.Options{})
	ints, sums := [][]int32{{1}, {2}, {6}}, [][]int32{{0}, {0}, {0}}
	if res, err := collective.AllReduce(ctx, g, collective.Average, ints, sums); err != nil || res.Algorithm == collective.Native || sums[2][0] != 3 {
		t.Errorf("the average of integers: %v, by %q: %v", err, res.Algorithm, sums)
	}
}

func TestExplainNative(t *testing.T) {
	_, rt := open(t, weft.Options{Drivers: []driver.Driver{joining(t, "")}})
	for want, o := range map[string]collective.Options{
		"over 3 ranks: native, predicted":                      {},
		"native               no  exact results are asked for": {Exact: true},
		"native               no  fake:0 would be two ranks":   {Devices: []string{"fake:0", "fake:0"}},
	} {
		p, err := group(t, rt, o).Plan(collective.Spec{Op: collective.OpAllReduce, Count: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(p.Explain(), want) || !strings.Contains(p.Explain(), "\n  direct ") {
			t.Errorf("%q is not in\n%s", want, p.Explain())
		}
	}
}

// What a library cannot do, for whatever reason, is done without it: the devices
// left end what they wait for, discard it and go on by a graph.
func TestNativeFails(t *testing.T) {
	const count = 5000
	stays := "; on 1 revive standby fails; on 1 revive restart fails; on 1 revive reopen fails"
	for name, c := range map[string]struct {
		script string
		lost   []string
	}{
		"a member fails":           {"on 1 fail kernel nccl.allreduce times 1", nil},
		"a member cannot read":     {"on 1 fail copies times 1", nil},
		"a member is lost":         {"on 1 lose kernel nccl.allreduce" + stays, []string{"fake:1"}},
		"it is lost while copying": {"on 1 lose op 1" + stays, []string{"fake:1"}},
		"it is lost and back":      {"on 1 lose kernel nccl.allreduce times 1", nil},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, rt := open(t, weft.Options{Drivers: []driver.Driver{joining(t, c.script)}})
			g := group(t, rt, collective.Options{})
			in := vectors(3, same(count), x)
			for round := range 2 {
				if round == 1 && c.lost == nil {
					awaitHealthy(t, ctx, rt)
				}
				out := vectors(3, same(count), zero)
				res, err := collective.AllReduce(ctx, g, collective.Sum, in, out)
				if err != nil {
					t.Fatal(err)
				}
				for r := range out {
					for i := range out[r] {
						if out[r][i] != total(3, int64(i)) {
							t.Fatalf("element %d of rank %d is %v, want %v", i, r, out[r][i], total(3, int64(i)))
						}
					}
				}
				if round == 1 && !slices.Equal(res.Lost, c.lost) {
					t.Errorf("lost is %v, want %v", res.Lost, c.lost)
				}
				if round == 0 && (res.Algorithm == collective.Native || g.Failure() == nil) {
					t.Errorf("done by %s after %v", res.Algorithm, g.Failure())
				}
				if round == 1 && c.lost == nil && res.Algorithm != collective.Native {
					t.Errorf("the next is done by %s", res.Algorithm)
				}
			}
		})
	}
}

// awaitHealthy waits until every device is healthy: a lost one comes back beside
// the run that lost it, which may end first.
func awaitHealthy(t *testing.T, ctx context.Context, rt *weft.Runtime) {
	t.Helper()
	for i, d := range rt.Devices() {
		poll.True(t, d.Name+" is healthy", func() bool { return ctx.Err() != nil || rt.Devices()[i].State == "healthy" })
		if ctx.Err() != nil {
			t.Fatalf("%s is %s", d.Name, rt.Devices()[i].State)
		}
	}
}

// A library that keeps failing is left alone.
func TestNativeKeepsFailing(t *testing.T) {
	ctx, rt := open(t, weft.Options{Drivers: []driver.Driver{joining(t, "on 2 fail kernel nccl.allreduce")}, Retries: 0})
	g := group(t, rt, collective.Options{})
	in, out := vectors(3, same(10), x), vectors(3, same(10), zero)
	for range 5 {
		if _, err := collective.AllReduce(ctx, g, collective.Sum, in, out); err != nil || out[0][7] != total(3, 7) {
			t.Fatalf("%v, %v", err, out[0][7])
		}
	}
	p, err := g.Plan(collective.Spec{Op: collective.OpAllReduce, Count: 10})
	if err != nil || !strings.Contains(p.Explain(), "native               no  the ranks have not joined") {
		t.Errorf("%v\n%s", err, p.Explain())
	}
}

// A deadline ends an operation whose rank does not come. The one that hangs is let go when
// all ranks have heard of the deadline; each try allows twice the time for that. The others
// need no other rank to end.
func TestNativeDeadline(t *testing.T) {
	for patience := time.Second; ; patience *= 2 {
		drv := joining(t, "on 1 hang kernel nccl.allreduce times 1")
		ctx, rt := open(t, weft.Options{Drivers: []driver.Driver{drv}, CancelWait: 10 * time.Minute})
		g := group(t, rt, collective.Options{})
		in, out := vectors(3, same(1000), x), vectors(3, same(1000), zero)
		short, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
		defer cancel()
		ended := make(chan error, 1)
		go func() {
			_, err := collective.AllReduce(short, g, collective.Sum, in, out)
			ended <- err
		}()
		<-short.Done()
		var err error
		for over := false; !over; {
			select {
			case err = <-ended:
				over = true
			case <-time.After(patience):
				if err := drv.Play("on 1 release"); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err == nil && patience < time.Minute {
			continue
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("past its deadline an operation ends with %v", err)
		}
		return
	}
}
