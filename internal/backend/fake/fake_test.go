package fake_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/fake"
)

// deadline is how long a test waits for what must happen.
const deadline = 2 * time.Minute

// rig is one device of a script, driven by hand. Its lanes are compute, in, out.
type rig struct {
	t    *testing.T
	drv  *fake.Driver
	dev  driver.Device
	seq  [3]uint32
	woke chan struct{}
}

const (
	compute driver.Lane = iota
	in
	out
)

func start(t *testing.T, script string) *rig {
	t.Helper()
	o, err := fake.Parse(script)
	if err != nil {
		t.Fatal(err)
	}
	o.Funcs = map[string]driver.Func{"bump": func(c *driver.Call, lo, hi int) {
		for i := lo; i < hi; i++ {
			c.Args[0][i]++
		}
	}}
	drv, err := fake.New(o)
	if err != nil {
		t.Fatal(err)
	}
	devs, err := drv.Open(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, drv: drv, dev: devs[0], woke: make(chan struct{}, 1)}
	r.dev.Attach(driver.NewBoard(3), []driver.Lane{compute, in, out}, func() {
		select {
		case r.woke <- struct{}{}:
		default:
		}
	})
	t.Cleanup(func() {
		for _, d := range devs {
			d.Close()
		}
	})
	return r
}

func (r *rig) submit(ops ...driver.Op) error {
	for i := range ops {
		if o := &ops[i]; o.Kind >= driver.Copy {
			r.seq[o.Lane]++
			o.Seq = r.seq[o.Lane]
		}
	}
	return r.dev.Submit(ops)
}

// collect waits for n completions.
func (r *rig) collect(n int) []driver.Completion {
	r.t.Helper()
	var got []driver.Completion
	dst := make([]driver.Completion, 16)
	late := time.After(deadline)
	for len(got) < n {
		if k := r.dev.Completions(dst); k > 0 {
			got = append(got, dst[:k]...)
			continue
		}
		select {
		case <-r.woke:
		case <-late:
			r.t.Fatalf("%d of %d operations completed", len(got), n)
		}
	}
	return got
}

// none checks that nothing completes.
func (r *rig) none() {
	r.t.Helper()
	select {
	case <-r.woke:
		r.t.Fatalf("completed: %v", r.dev.Completions(make([]driver.Completion, 16)))
	case <-time.After(10 * time.Millisecond):
	}
}

func alloc(b driver.Buffer, n int64) driver.Op {
	return driver.Op{Kind: driver.Alloc, Buf: b, Bytes: n}
}

func toDevice(b driver.Buffer, mem []byte) driver.Op {
	return driver.Op{Kind: driver.Copy, Lane: in, Src: driver.NoBuffer, HostSrc: mem, Dst: b, Bytes: int64(len(mem))}
}

func toHost(mem []byte, b driver.Buffer, waits ...driver.Wait) driver.Op {
	return driver.Op{Kind: driver.Copy, Lane: out, Src: b, Dst: driver.NoBuffer, HostDst: mem, Bytes: int64(len(mem)), Waits: waits}
}

func bump(b driver.Buffer, n int64, waits ...driver.Wait) driver.Op {
	k := &graph.Kernel{Name: "bump", Impls: []graph.Impl{{Dialect: graph.PTX, Entry: "bump"}}}
	return driver.Op{
		Kind: driver.Launch, Lane: compute, Waits: waits, Args: []driver.Arg{{Buf: b, Bytes: n}},
		Task: &graph.Task{Steps: []graph.Step{{Kernel: k, Launch: graph.Launch{Grid: [3]uint32{uint32(n), 1, 1}}}}},
	}
}

func TestFailures(t *testing.T) {
	r := start(t, "fail op 2; fail kernel bump times 2; fail kernel other")
	if err := r.submit(alloc(1, 4), toDevice(1, make([]byte, 4)), toDevice(1, make([]byte, 4)), toDevice(1, make([]byte, 4))); err != nil {
		t.Fatal(err)
	}
	for i, c := range r.collect(3) {
		if (c.Err != nil) != (i == 1) {
			t.Errorf("copy %d: %v", i+1, c.Err)
		}
	}
	if err := r.submit(bump(1, 4), bump(1, 4), bump(1, 4)); err != nil {
		t.Fatal(err)
	}
	for i, c := range r.collect(3) {
		if (c.Err != nil) != (i < 2) {
			t.Errorf("launch %d: %v", i+1, c.Err)
		}
	}
	mem := make([]byte, 4)
	if err := r.submit(toHost(mem, 1)); err != nil {
		t.Fatal(err)
	}
	if r.collect(1); mem[3] != 1 {
		t.Errorf("launches that failed ran: %d", mem)
	}
}

func TestTake(t *testing.T) {
	r := start(t, "take 30ms launches times 1")
	if err := r.submit(alloc(1, 4), bump(1, 4), bump(1, 4)); err != nil {
		t.Fatal(err)
	}
	c := r.collect(2)
	if took := c[0].End - c[0].Start; took < 30*time.Millisecond {
		t.Errorf("took %v, less than the script says", took)
	}
}

func TestHang(t *testing.T) {
	r := start(t, "hang launches times 1")
	if err := r.submit(alloc(1, 4), bump(1, 4), bump(1, 4)); err != nil {
		t.Fatal(err)
	}
	r.none()
	if err := r.drv.Play("release"); err != nil {
		t.Fatal(err)
	}
	for _, c := range r.collect(2) {
		if c.Err != nil {
			t.Error(c.Err)
		}
	}

	r = start(t, "hang launches")
	if err := r.submit(alloc(1, 4), bump(1, 4), bump(1, 4)); err != nil {
		t.Fatal(err)
	}
	r.none()
	if err := r.dev.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range r.collect(2) {
		if !errors.Is(c.Err, driver.ErrClosed) {
			t.Error(c.Err)
		}
	}
}

func TestLimit(t *testing.T) {
	r := start(t, "memory 1000; limit 100")
	if err := r.submit(alloc(1, 60), alloc(2, 60), bump(1, 60), bump(2, 60)); err != nil {
		t.Fatal(err)
	}
	c := r.collect(2)
	if c[0].Err != nil || !errors.Is(c[1].Err, driver.ErrOutOfMemory) {
		t.Errorf("got %v and %v", c[0].Err, c[1].Err)
	}
	if err := r.submit(driver.Op{Kind: driver.Free, Buf: 1}, driver.Op{Kind: driver.Free, Buf: 2}, alloc(2, 100), bump(2, 100)); err != nil {
		t.Fatal(err)
	}
	if c := r.collect(1); c[0].Err != nil {
		t.Error(c[0].Err)
	}
}

func TestLossAndRevival(t *testing.T) {
	for _, end := range []string{"empty", "kept"} {
		r := start(t, "hang op 3; lose op 4; revive standby fails; revive restart "+end)
		before := []byte{1, 2, 3, 4}
		if err := r.submit(alloc(1, 4), toDevice(1, before), bump(1, 4, driver.Wait{Lane: in, Seq: 1})); err != nil {
			t.Fatal(err)
		}
		r.collect(2)
		// The third hangs until the fourth loses the device; the fifth waits
		// behind it, the sixth for something that never comes.
		never := driver.Wait{Lane: out, Seq: 99}
		if err := r.submit(bump(1, 4), toDevice(1, before), bump(1, 4), toDevice(1, before), toHost(make([]byte, 4), 1, never)); err != nil {
			t.Fatal(err)
		}
		for _, c := range r.collect(5) {
			if !errors.Is(c.Err, driver.ErrDeviceLost) {
				t.Errorf("%s: operation %d of lane %d: %v", end, c.Seq, c.Lane, c.Err)
			}
		}
		if err := r.submit(bump(1, 4)); !errors.Is(err, driver.ErrDeviceLost) {
			t.Errorf("submit to a lost device: %v", err)
		}
		v := r.dev.(driver.Reviver)
		if _, err := v.Revive(context.Background(), driver.Standby); !errors.Is(err, driver.ErrDeviceLost) {
			t.Errorf("a rung that fails: %v", err)
		}
		kept, err := v.Revive(context.Background(), driver.Restart)
		if err != nil || kept != (end == "kept") {
			t.Fatalf("%s: kept %v, %v", end, kept, err)
		}
		mem := make([]byte, 4)
		if err := r.submit(toHost(mem, 1)); err != nil {
			t.Fatal(err)
		}
		c := r.collect(1)
		if end == "kept" && (c[0].Err != nil || !slices.Equal(mem, []byte{2, 3, 4, 5})) {
			t.Errorf("kept memory reads %d, %v", mem, c[0].Err)
		}
		if end == "empty" && !errors.Is(c[0].Err, driver.ErrOutOfMemory) {
			t.Errorf("a buffer outlived the loss: %v", c[0].Err)
		}
	}
}

func TestPlay(t *testing.T) {
	r := start(t, "devices 2; memory 1000; set temp 50")
	tele := func() driver.Telemetry {
		got, err := r.dev.(driver.Telemeter).Telemetry()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if err := r.submit(alloc(1, 250)); err != nil {
		t.Fatal(err)
	}
	if got := tele(); got.TempC != 50 || got.MemUsed != 0.25 || got.Util >= 0 {
		t.Errorf("got %+v", got)
	}
	if err := r.drv.Play("on 1 set temp 70; set util 0.5; set memory 0.97; set errors 2"); err != nil {
		t.Fatal(err)
	}
	if got := tele(); got.TempC != 50 || got.Util != 0.5 || got.MemUsed != 0.97 || got.MemErrors != 2 {
		t.Errorf("got %+v", got)
	}
	if err := r.drv.Play("on 0 lose"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.dev.(driver.Telemeter).Telemetry(); !errors.Is(err, driver.ErrDeviceLost) {
		t.Errorf("telemetry of a lost device: %v", err)
	}
	for text, want := range map[string]string{"on 2 lose": "no device 2", "devices 3": "cannot change", "nonsense": "unknown statement"} {
		if err := r.drv.Play(text); !errors.Is(err, fake.ErrScript) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
