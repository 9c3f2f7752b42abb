package backendtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/fake"
	"github.com/weft-run/weft/machine"
)

// liar is a device that breaks a promise on its way to the caller.
type liar struct {
	driver.Device
	lie   lie
	held  []driver.Completion
	count int
}

// lie says how; what is nil is true.
type lie struct {
	info   func(*machine.Device)
	op     func(*driver.Op)                                            // before it is submitted
	ended  func(n int, c driver.Completion) []driver.Completion        // instead of the n-th completion
	submit func(d driver.Device, batch []driver.Op, closed bool) error // instead of Submit
	order  func(cs []driver.Completion) []driver.Completion            // what is handed over at once
	closed bool
}

func (l *liar) Info() machine.Device {
	info := l.Device.Info()
	if l.lie.info != nil {
		l.lie.info(&info)
	}
	return info
}

func (l *liar) Submit(batch []driver.Op) error {
	batch = slices.Clone(batch)
	for i := range batch {
		if l.lie.op != nil {
			l.lie.op(&batch[i])
		}
	}
	if l.lie.submit != nil {
		return l.lie.submit(l.Device, batch, l.lie.closed)
	}
	return l.Device.Submit(batch)
}

func (l *liar) Close() error {
	l.lie.closed = true
	return l.Device.Close()
}

func (l *liar) Completions(dst []driver.Completion) int {
	got := make([]driver.Completion, 64)
	got = got[:l.Device.Completions(got)]
	for _, c := range got {
		l.count++
		if l.lie.ended == nil {
			l.held = append(l.held, c)
		} else {
			l.held = append(l.held, l.lie.ended(l.count, c)...)
		}
	}
	if l.lie.order != nil {
		l.held = l.lie.order(l.held)
	}
	n := copy(dst, l.held)
	l.held = l.held[n:]
	return n
}

// liars is a driver of such devices.
type liars struct {
	driver.Driver
	lie lie
}

func (d *liars) Open(ctx context.Context, log *slog.Logger) ([]driver.Device, error) {
	devs, err := d.Driver.Open(ctx, log)
	for i := range devs {
		devs[i] = &liar{Device: devs[i], lie: d.lie}
	}
	return devs, err
}

// leaks returns a lie by which a buffer that is made after one with a secret was freed has the memory of that one,
// as it is.
func leaks() func(o *driver.Op) {
	const nothing = 1 << 30
	was := make(map[driver.Buffer]driver.Buffer) // what devices know a buffer by
	var left []driver.Buffer
	return func(o *driver.Op) {
		o.Args = slices.Clone(o.Args)
		names := []*driver.Buffer{&o.Buf, &o.Src, &o.Dst}
		for i := range o.Args {
			names = append(names, &o.Args[i].Buf)
		}
		for _, b := range names {
			if old, ok := was[*b]; ok {
				*b = old
			}
		}
		switch {
		case o.Kind == driver.Free && o.Secret:
			left = append(left, o.Buf)
			o.Buf = nothing
		case o.Kind == driver.Alloc && len(left) > 0:
			was[o.Buf], left = left[0], left[1:]
			o.Buf, o.Bytes = nothing, 1
		}
	}
}

// recorder takes a test's failures down instead of failing.
type recorder struct {
	testing.TB
	said    []string
	cleanup []func()
}

func (r *recorder) Helper()           {}
func (r *recorder) Failed() bool      { return len(r.said) > 0 }
func (r *recorder) Cleanup(fn func()) { r.cleanup = append(r.cleanup, fn) }
func (r *recorder) Error(args ...any) { r.said = append(r.said, fmt.Sprint(args...)) }
func (r *recorder) Errorf(format string, args ...any) {
	r.said = append(r.said, fmt.Sprintf(format, args...))
}
func (r *recorder) Fatal(args ...any) {
	r.Error(args...)
	runtime.Goexit()
}
func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// failures runs a test of the suite, or all, on devices that lie and returns
// what they say.
func failures(t *testing.T, name string, l lie) (said []string) {
	c := &Config{Impls: GoImpls, Open: func() driver.Driver {
		drv, err := fake.New(fake.Options{Devices: 2, MemBytes: 64 << 20, Funcs: Funcs()})
		if err != nil {
			t.Error(err)
		}
		return &liars{drv, l}
	}}
	for _, tc := range tests {
		if name != "" && name != tc.name {
			continue
		}
		rec := &recorder{TB: t}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer func() {
				for _, fn := range slices.Backward(rec.cleanup) {
					fn()
				}
			}()
			tc.run(newRig(rec, c, tc.devices, false))
		}()
		<-ended
		said = append(said, rec.said...)
	}
	return said
}

// The suite must find out devices that break the contract, each in the test
// that is about it.
func TestSuiteCatches(t *testing.T) {
	if said := failures(t, "", lie{}); len(said) > 0 {
		t.Errorf("an honest device fails: %q", said)
	}
	// What never comes need not be waited for as long as what is late.
	defer func(d time.Duration) { deadline = d }(deadline)
	deadline = 5 * time.Second
	drop := func(n int, c driver.Completion) []driver.Completion {
		if n == 3 {
			return nil
		}
		return []driver.Completion{c}
	}
	instead := func(was, is error) func(int, driver.Completion) []driver.Completion {
		return func(_ int, c driver.Completion) []driver.Completion {
			if errors.Is(c.Err, was) {
				c.Err = is
			}
			return []driver.Completion{c}
		}
	}
	params := func(of func([]byte) []byte) func(*driver.Op) {
		return func(o *driver.Op) {
			if o.Task == nil {
				return
			}
			t := *o.Task
			t.Steps = slices.Clone(t.Steps)
			for i := range t.Steps {
				if t.Steps[i].Kernel.Name == "add" {
					t.Steps[i].Params = of(t.Steps[i].Params)
				}
			}
			o.Task = &t
		}
	}
	for _, c := range []struct {
		name  string
		lie   lie
		found string // the test that must fail
	}{
		{"two devices of one name", lie{info: func(d *machine.Device) { d.Name, d.UUID = "fake:0", "x" }}, "info"},
		{"no dialect", lie{info: func(d *machine.Device) { d.Dialects = nil }}, "info"},
		{"memory of its own, and none", lie{info: func(d *machine.Device) { d.MemBytes = 0 }}, "info"},
		{"a completion is missing", lie{ended: drop}, "lane order"},
		{"a completion comes twice", lie{ended: func(n int, c driver.Completion) []driver.Completion {
			return slices.Repeat([]driver.Completion{c}, 1+n%2)
		}}, "lane order"},
		{"completions come in another order", lie{order: func(cs []driver.Completion) []driver.Completion {
			slices.Reverse(cs)
			return cs
		}}, "lane order"},
		{"times run backwards", lie{ended: func(_ int, c driver.Completion) []driver.Completion {
			c.Start, c.End = c.End+1, c.Start
			return []driver.Completion{c}
		}}, "lane order"},
		{"failures are not told", lie{ended: func(_ int, c driver.Completion) []driver.Completion {
			c.Err = nil
			return []driver.Completion{c}
		}}, "failure"},
		{"a dependent has the wrong error", lie{ended: instead(driver.ErrDependency, errors.New("oops"))}, "failure"},
		{"out of memory is called something else", lie{ended: instead(driver.ErrOutOfMemory, errors.New("oops"))}, "memory limit"},
		{"a wrong kernel is called something else", lie{ended: instead(driver.ErrKernel, errors.New("oops"))}, "wrong kernels"},
		{"closing is called something else", lie{ended: instead(driver.ErrClosed, errors.New("oops"))}, "close in flight"},
		{"copies begin a byte late", lie{op: func(o *driver.Op) {
			if o.Kind == driver.Copy && o.Src != driver.NoBuffer && o.Bytes > 1 {
				o.SrcOff, o.Bytes = o.SrcOff+1, o.Bytes-1
			}
		}}, "copies"},
		{"arguments begin at the buffer's first byte", lie{op: func(o *driver.Op) {
			o.Args = slices.Clone(o.Args)
			for i := range o.Args {
				o.Args[i].Off = 0
			}
		}}, "launch"},
		{"only the first step runs", lie{op: func(o *driver.Op) {
			if o.Task != nil && len(o.Task.Steps) > 1 {
				t := *o.Task
				t.Steps = t.Steps[:1]
				o.Task = &t
			}
		}}, "launch steps"},
		{"parameters are cut off", lie{op: params(func(b []byte) []byte { return b[:min(len(b), 8)] })}, "parameters"},
		{"parameters are filled up", lie{op: params(func(b []byte) []byte {
			return append(slices.Clip(b), make([]byte, max(8-len(b), 0))...)
		})}, "parameters"},
		{"buffers are not freed", lie{op: func(o *driver.Op) {
			if o.Kind == driver.Free {
				o.Buf = 1 << 30
			}
		}}, "buffers do not leak"},
		{"secrets are left in the next buffer", lie{op: leaks()}, "secrets"},
		{"allocations never fail", lie{op: func(o *driver.Op) {
			if o.Kind == driver.Alloc {
				o.Bytes = 1 << 16
			}
		}}, "memory limit"},
		{"a closed device takes work", lie{submit: func(d driver.Device, batch []driver.Op, closed bool) error {
			if closed {
				return nil
			}
			return d.Submit(batch)
		}}, "after close"},
	} {
		t.Run(c.name, func(t *testing.T) {
			said := failures(t, c.found, c.lie)
			if len(said) == 0 {
				t.Fatalf("%q did not notice", c.found)
			}
			t.Log(said[0])
		})
	}
}
