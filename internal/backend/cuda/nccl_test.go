//go:build gpu || stub || cgo

package cuda

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
)

// collectiveTask is an operation of a gang.
func collectiveTask(op string, number uint64, count, kind, fold, root, peer, gang int) *graph.Task {
	p := params(graph.Collective{Communicator: number, Count: uint64(count), Type: kind, Fold: fold, Root: root, Peer: peer})
	k := &graph.Kernel{Name: op, Impls: []graph.Impl{{Dialect: graph.Library, Entry: "nccl." + op}}}
	return &graph.Task{Gang: gang, Steps: []graph.Step{{Kernel: k, Params: p}}}
}

// join makes ranks of devices.
func join(t *testing.T, number uint64, rigs []*rig) {
	t.Helper()
	id, err := rigs[0].dev.(driver.Joiner).CollectiveID()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	errs := make(chan error, len(rigs))
	for i, r := range rigs {
		go func() { errs <- r.dev.(driver.Joiner).Join(ctx, number, id, len(rigs), i) }()
	}
	for range rigs {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
}

// part is block r of count elements cut among n.
func part(count, n, r int) (lo, hi int) {
	at := func(r int) int { return r*(count/n) + min(r, count%n) }
	return at(r), at(r + 1)
}

// together runs an operation on all ranks: in and out are what each brings and
// gets, nil for nothing.
func together[T any](t *testing.T, rigs []*rig, task *graph.Task, in, out [][]T) {
	t.Helper()
	ends := make([]driver.Wait, len(rigs))
	for i, r := range rigs {
		var g []driver.Arg
		var waits []driver.Wait
		if len(in[i]) > 0 {
			b := r.alloc(int64(len(bytesOf(in[i]))))
			waits = append(waits, r.copyIn(b, bytesOf(in[i])))
			g = append(g, driver.Arg{Buf: b, Bytes: int64(len(bytesOf(in[i])))})
		}
		var o driver.Buffer
		if len(out[i]) > 0 {
			o = r.alloc(int64(len(bytesOf(out[i]))))
			g = append(g, driver.Arg{Buf: o, Bytes: int64(len(bytesOf(out[i])))})
		}
		if len(in[i]) == 0 && len(out[i]) == 0 && task.Gang < len(rigs) {
			continue // it takes no part
		}
		ends[i] = r.launch(0, task, g, waits...)
		if len(out[i]) > 0 {
			ends[i] = r.copyOut(bytesOf(out[i]), o, ends[i])
		}
	}
	for i, r := range rigs {
		if ends[i].Seq > 0 {
			r.must(ends[i])
		}
	}
}

// Every operation of NCCL, over all GPUs there are: on a machine with one of them
// a rank alone.
func TestCollectives(t *testing.T) {
	rigs := openRigs(t, Options{})
	n := len(rigs)
	join(t, 7, rigs)
	x := func(r, i int) float32 { return float32((r+1)*10 + i%7) }
	vectors := func(size func(r int) int, at func(r, i int) float32) [][]float32 {
		out := make([][]float32, n)
		for r := range out {
			out[r] = make([]float32, size(r))
			for i := range out[r] {
				out[r][i] = at(r, i)
			}
		}
		return out
	}
	zero := func(int, int) float32 { return 0 }
	sum := func(i int) (s float32) {
		for r := range n {
			s += x(r, i)
		}
		return s
	}
	only := func(k, size int) func(int) int {
		return func(r int) int {
			if r == k {
				return size
			}
			return 0
		}
	}
	for _, count := range []int{1, n, 1000, 3*n + 1} {
		all := func(int) int { return count }
		block := func(r int) int { lo, hi := part(count, n, r); return hi - lo }
		first := func(r int) int { lo, _ := part(count, n, r); return lo }
		root := n - 1
		for _, c := range []struct {
			op       string
			in, out  func(r int) int
			at, want func(r, i int) float32
			fold     int
		}{
			{"allreduce", all, all, x, func(_, i int) float32 { return sum(i) }, 0},
			{"allreduce", all, all, x, func(_, i int) float32 { return sum(i) / float32(n) }, 1},
			{"reduce", all, only(root, count), x, func(_, i int) float32 { return x(n-1, i) }, 2},
			{"reduce", all, only(root, count), x, func(_, i int) float32 { return x(0, i) }, 3},
			{"reducescatter", all, block, x, func(r, i int) float32 { return sum(first(r) + i) }, 0},
			{"broadcast", only(root, count), func(r int) int { return count - only(root, count)(r) }, x, func(_, i int) float32 { return x(root, i) }, 0},
			{"allgather", block, all, func(r, i int) float32 { return x(0, first(r)+i) }, func(_, i int) float32 { return x(0, i) }, 0},
			{"alltoall", all, func(r int) int { return n * block(r) }, x, func(r, i int) float32 { return x(i/block(r), first(r)+i%block(r)) }, 0},
		} {
			in, out := vectors(c.in, c.at), vectors(c.out, zero)
			together(t, rigs, collectiveTask(c.op, 7, count, 0, c.fold, root, 0, max(n, 2)), in, out)
			if want := vectors(c.out, c.want); !slices.EqualFunc(out, want, slices.Equal) {
				t.Fatalf("%s of %d elements, fold %d: got %v, want %v", c.op, count, c.fold, out, want)
			}
		}
		if n > 2 { // and rank 0 has no part in it
			in, out := vectors(only(1, count), x), vectors(only(2, count), zero)
			together(t, rigs, collectiveTask("send", 7, count, 0, 0, 1, 2, 2), in, out)
			if !slices.Equal(in[1], out[2]) {
				t.Fatalf("send of %d elements: got %v, want %v", count, out[2], in[1])
			}
		}
	}
	products(t, rigs, 1, func(v int) float64 { return float64(v) })
	products(t, rigs, 2, func(v int) uint16 { return []uint16{0, 0x3c00, 0x4000, 0x4200, 0x4400, 0, 0x4600}[v] }) // half precision
	products(t, rigs, 3, func(v int) uint16 { return []uint16{0, 0x3f80, 0x4000, 0x4040, 0x4080, 0, 0x40c0}[v] }) // bfloat16
	products(t, rigs, 4, func(v int) int32 { return int32(v) })
	products(t, rigs, 5, func(v int) int64 { return int64(v) })
}

// products multiplies the numbers of ranks, from 1 on, in an element type.
func products[T comparable](t *testing.T, rigs []*rig, kind int, from func(int) T) {
	t.Helper()
	in, out, want := make([][]T, len(rigs)), make([][]T, len(rigs)), 1
	for r := range rigs {
		in[r], out[r] = []T{from(r + 1), from(1)}, make([]T, 2)
		want *= r + 1
	}
	together(t, rigs, collectiveTask("allreduce", 7, 2, kind, 4, 0, 0, max(len(rigs), 2)), in, out)
	for r := range rigs {
		if out[r][0] != from(want) || out[r][1] != from(1) {
			t.Errorf("type %d: rank %d has %v, want %v", kind, r, out[r], from(want))
		}
	}
}

// begun launches a task and returns when it is on its stream: what is given
// together and waits for nothing begins before anything of it is seen to end.
func begun(r *rig, task *graph.Task, a []driver.Arg) driver.Wait {
	r.Helper()
	first, before := r.on(0, driver.Op{Kind: driver.Launch, Task: &graph.Task{Steps: []graph.Step{step(testKernel("add_one"), 1)}}, Args: a[:1]})
	second, w := r.on(0, driver.Op{Kind: driver.Launch, Task: task, Args: a})
	r.submit(first, second)
	r.must(before)
	return w
}

// A communicator that is left ends what runs on it, and what comes later fails.
func TestLeave(t *testing.T) {
	rigs := openRigs(t, Options{})
	if len(rigs) == 1 { // the stub, which CI runs, has several
		t.Log("one GPU: nobody to wait for")
		return
	}
	two := rigs[:2]
	join(t, 1, two)
	b := two[0].alloc(4000)
	task := collectiveTask("allreduce", 1, 500, 0, 0, 0, 0, 2)
	give := func() driver.Wait { return two[0].launch(0, task, args(2000, b, b)) }
	alone := begun(two[0], task, args(2000, b, b)) // the other rank never comes
	after := two[0].copyOut(make([]byte, 4), b, alone)
	if done, _ := two[0].board.State(alone); done {
		t.Error("a sum ended without its other rank")
	}
	two[0].dev.(driver.Joiner).Leave(1)
	if c := two[0].wait(alone); !errors.Is(c.Err, driver.ErrDependency) || errors.Is(c.Err, driver.ErrKernel) {
		t.Errorf("what ran on a communicator that was left ends with %v", c.Err)
	}
	if c := two[0].wait(after); !errors.Is(c.Err, driver.ErrDependency) {
		t.Errorf("what waited for it ends with %v", c.Err)
	}
	if c := two[0].wait(give()); !errors.Is(c.Err, driver.ErrKernel) || !strings.Contains(c.Err.Error(), "communicator 1") {
		t.Errorf("a launch after leaving ends with %v", c.Err)
	}
	two[0].dev.(driver.Joiner).Leave(1)
	two[1].dev.(driver.Joiner).Leave(1)
	// The device works on, in a new communicator too.
	join(t, 2, two)
	in, out := [][]float32{{1}, {2}}, [][]float32{{0}, {0}}
	together(t, two, collectiveTask("allreduce", 2, 1, 0, 0, 0, 0, 2), in, out)
	if out[0][0] != 3 || out[1][0] != 3 {
		t.Errorf("after that the sum is %v", out)
	}
}

// Who joins alone is let go when it has waited long enough, or the device closes.
func TestJoinAlone(t *testing.T) {
	rigs := openRigs(t, Options{})
	j := rigs[0].dev.(driver.Joiner)
	id, err := j.CollectiveID()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := j.Join(ctx, 1, id, 2, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("joining alone ends with %v", err)
	}
	for _, bad := range []struct {
		id          []byte
		ranks, rank int
	}{{id[:100], 2, 0}, {id, 0, 0}, {id, 2, 2}, {id, 2, -1}} {
		if err := j.Join(context.Background(), 1, bad.id, bad.ranks, bad.rank); err == nil {
			t.Errorf("rank %d of %d with a name of %d bytes joined", bad.rank, bad.ranks, len(bad.id))
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- j.Join(context.Background(), 3, id, 2, 0) }()
	if err := rigs[0].dev.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, driver.ErrDependency) && !errors.Is(err, driver.ErrClosed) {
		t.Errorf("joining a device that closes ends with %v", err)
	}
	if err := j.Join(context.Background(), 4, id, 1, 0); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("joining a closed device ends with %v", err)
	}
}

// A device that closes lets go of what waits for other ranks.
func TestCloseWithoutPeers(t *testing.T) {
	rigs := openRigs(t, Options{})
	if len(rigs) == 1 {
		t.Log("one GPU: nobody to wait for")
		return
	}
	two := rigs[:2]
	join(t, 1, two)
	b := two[0].alloc(400)
	w := begun(two[0], collectiveTask("allreduce", 1, 100, 0, 0, 0, 0, 2), args(400, b, b))
	if err := two[0].dev.Close(); err != nil {
		t.Error(err)
	}
	if c := two[0].wait(w); c.Err == nil {
		t.Error("a sum without its other rank succeeded")
	}
}

func TestBadCollectives(t *testing.T) {
	r := openRig(t, Options{})
	join(t, 1, []*rig{r})
	b := r.alloc(400)
	short := collectiveTask("allreduce", 1, 100, 0, 0, 0, 0, 2)
	short.Steps[0].Params = short.Steps[0].Params[:24]
	for name, c := range map[string]struct {
		task *graph.Task
		bufs int
	}{
		"parameters": {short, 2},
		"type":       {collectiveTask("allreduce", 1, 100, 6, 0, 0, 0, 2), 2},
		"fold":       {collectiveTask("allreduce", 1, 100, 0, 5, 0, 0, 2), 2},
		"root":       {collectiveTask("reduce", 1, 100, 0, 0, 1, 0, 2), 2},
		"count":      {collectiveTask("allreduce", 1, 0, 0, 0, 0, 0, 2), 2},
		"number":     {collectiveTask("allreduce", 9, 100, 0, 0, 0, 0, 2), 2},
		"buffers":    {collectiveTask("allreduce", 1, 100, 0, 0, 0, 0, 2), 1},
		"operation":  {collectiveTask("sort", 1, 100, 0, 0, 0, 0, 2), 2},
	} {
		if c := r.wait(r.launch(0, c.task, args(400, []driver.Buffer{b, b}[:c.bufs]...))); !errors.Is(c.Err, driver.ErrKernel) {
			t.Errorf("a wrong %s ends with %v", name, c.Err)
		}
	}
}
