//go:build gpu || stub || cgo

package cuda

import (
	"context"
	_ "embed"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
)

//go:generate go run github.com/weft-run/weft/internal/tools/weftparams testdata
//go:generate testdata/generate.sh
//go:embed testdata/kernels.ptx
var testPTX []byte

// testKernel is a kernel of testdata/kernels.cu.
func testKernel(name string) *graph.Kernel {
	return &graph.Kernel{Name: name, Impls: []graph.Impl{
		{Dialect: graph.PTX, Arch: "sm_75", Entry: name, Source: testPTX, Per: [3]uint32{256}, Block: [3]uint32{256}},
	}}
}

// count and spinParams are parameters of kernels of testdata/kernels.cu.
type (
	count      struct{ N int }
	spinParams struct{ NS uint64 }
)

func params(p any) []byte {
	b, err := graph.Pack(p)
	if err != nil {
		panic(err)
	}
	return b
}

// step runs a kernel over n items with n as its parameter.
func step(k *graph.Kernel, n int) graph.Step {
	return graph.Step{Kernel: k, Launch: graph.Launch{Grid: [3]uint32{uint32(n)}}, Params: params(count{n})}
}

// rig is an attached device and the bookkeeping of a caller.
type rig struct {
	testing.TB
	dev   driver.Device
	board *driver.Board
	first driver.Lane
	lanes int
	woke  chan struct{}
	seq   []uint32
	got   map[driver.Wait]driver.Completion
	bufs  driver.Buffer
	all   []driver.Completion
}

// openRigs opens devices on one board; they close with the test.
func openRigs(t testing.TB, o Options) []*rig {
	t.Helper()
	o.LibraryPath = append(o.LibraryPath, libraryPath(t)...)
	// A warning means that something is slower or less than it should be.
	warn := slog.New(slog.NewTextHandler(failing{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	devs, err := New(o).Open(context.Background(), warn)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, d := range devs {
		n += d.Info().Lanes + 2
	}
	board := driver.NewBoard(n)
	var rigs []*rig
	at := driver.Lane(0)
	for _, d := range devs {
		r := &rig{TB: t, dev: d, board: board, first: at, lanes: d.Info().Lanes + 2, woke: make(chan struct{}, 1), got: map[driver.Wait]driver.Completion{}}
		r.seq = make([]uint32, r.lanes)
		var lanes []driver.Lane
		for range r.lanes {
			lanes = append(lanes, at)
			at++
		}
		d.Attach(board, lanes, func() {
			select {
			case r.woke <- struct{}{}:
			default:
			}
		})
		t.Cleanup(func() { _ = d.Close() })
		rigs = append(rigs, r)
	}
	return rigs
}

// failing fails a test with what is written to it, but for the loss of a device.
type failing struct{ testing.TB }

func (f failing) Write(b []byte) (int, error) {
	if !strings.Contains(string(b), "gpu lost") {
		f.Errorf("%s", b)
	}
	return len(b), nil
}

func openRig(t testing.TB, o Options) *rig {
	t.Helper()
	return openRigs(t, o)[0]
}

// The lanes of a rig.
func (r *rig) in() int  { return r.lanes - 2 }
func (r *rig) out() int { return r.lanes - 1 }

// alloc makes a buffer.
func (r *rig) alloc(bytes int64) driver.Buffer {
	r.Helper()
	b := r.bufs
	r.bufs++
	r.submit(driver.Op{Kind: driver.Alloc, Buf: b, Bytes: bytes})
	return b
}

func (r *rig) submit(ops ...driver.Op) {
	r.Helper()
	if err := r.dev.Submit(ops); err != nil {
		r.Fatal(err)
	}
}

// on puts an operation on a lane and numbers it.
func (r *rig) on(lane int, o driver.Op, waits ...driver.Wait) (driver.Op, driver.Wait) {
	r.seq[lane]++
	o.Lane, o.Seq, o.Waits = r.first+driver.Lane(lane), r.seq[lane], waits
	return o, driver.Wait{Lane: o.Lane, Seq: o.Seq}
}

func (r *rig) send(lane int, o driver.Op, waits ...driver.Wait) driver.Wait {
	r.Helper()
	o, w := r.on(lane, o, waits...)
	r.submit(o)
	return w
}

func (r *rig) copyIn(dst driver.Buffer, src []byte, waits ...driver.Wait) driver.Wait {
	r.Helper()
	return r.send(r.in(), driver.Op{Kind: driver.Copy, Bytes: int64(len(src)), Src: driver.NoBuffer, Dst: dst, HostSrc: src}, waits...)
}

func (r *rig) copyOut(dst []byte, src driver.Buffer, waits ...driver.Wait) driver.Wait {
	r.Helper()
	return r.send(r.out(), driver.Op{Kind: driver.Copy, Bytes: int64(len(dst)), Src: src, Dst: driver.NoBuffer, HostDst: dst}, waits...)
}

func (r *rig) launch(lane int, task *graph.Task, args []driver.Arg, waits ...driver.Wait) driver.Wait {
	r.Helper()
	return r.send(lane, driver.Op{Kind: driver.Launch, Task: task, Args: args}, waits...)
}

// wait blocks until an operation completed and returns how.
func (r *rig) wait(w driver.Wait) driver.Completion {
	r.Helper()
	deadline := time.NewTimer(2 * time.Minute)
	defer deadline.Stop()
	for {
		r.collect()
		if c, ok := r.got[w]; ok {
			return c
		}
		select {
		case <-r.woke:
		case <-deadline.C:
			r.Fatalf("lane %d operation %d did not complete", w.Lane, w.Seq)
		}
	}
}

// must waits for an operation that has to succeed.
func (r *rig) must(ws ...driver.Wait) driver.Completion {
	r.Helper()
	var c driver.Completion
	for _, w := range ws {
		if c = r.wait(w); c.Err != nil {
			r.Fatalf("lane %d operation %d: %v", w.Lane, w.Seq, c.Err)
		}
	}
	return c
}

func (r *rig) collect() {
	var dst [64]driver.Completion
	for {
		n := r.dev.Completions(dst[:])
		for _, c := range dst[:n] {
			w := driver.Wait{Lane: c.Lane, Seq: c.Seq}
			if _, twice := r.got[w]; twice {
				r.Errorf("lane %d operation %d completed twice", c.Lane, c.Seq)
			}
			r.got[w] = c
			r.all = append(r.all, c)
		}
		if n < len(dst) {
			return
		}
	}
}

// args makes arguments of whole buffers of the given size.
func args(bytes int64, bufs ...driver.Buffer) []driver.Arg {
	var out []driver.Arg
	for _, b := range bufs {
		out = append(out, driver.Arg{Buf: b, Bytes: bytes})
	}
	return out
}

// bytesOf views numbers as bytes.
func bytesOf[T any](xs []T) []byte {
	var x T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(xs))), len(xs)*int(unsafe.Sizeof(x)))
}

// upTo returns 0, 1, … n-1.
func upTo(n int) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = uint32(i)
	}
	return out
}
