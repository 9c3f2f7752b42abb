package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
)

// on restricts a task to a device.
func on(device string, t graph.Task) graph.Task {
	t.On.Only = []string{device}
	return t
}

// A task on a patient device waits for a run that needs the lane its successor would be
// issued to. The limit of tasks in flight is the other run's to use, too.
func TestPatient(t *testing.T) {
	for _, limit := range []int{0, 1} {
		r := newRig(t, cpus(2), engine.Options{Patient: []machine.DeviceID{1}, Concurrent: limit})
		outer := r.submit(build(t, func(b *graph.Builder) {
			x := b.Data(graph.Data{Name: "x", Bytes: 8})
			y := b.Data(graph.Data{Name: "y", Bytes: 8, Output: true})
			b.Add(on("cpu:1", job("asks", 1, writes(x))))
			b.Add(on("cpu:0", job("reads", 1, reads(x), writes(y))))
		}), engine.RunOptions{})
		r.hang["asks"] = true
		r.starts("asks")
		equal(t, "launches of the successor", r.count("reads"), 0)
		inner := r.submit(build(t, func(b *graph.Builder) {
			b.Add(on("cpu:0", job("inner", 1, writes(b.Data(graph.Data{Name: "z", Bytes: 8})))))
		}), engine.RunOptions{})
		r.mustRun(inner)
		r.hang["asks"] = false
		r.mustRun(outer)
		equalLists(t, "order", r.ran, []string{"inner@cpu:0", "asks@cpu:1", "reads@cpu:0"})
	}
}

// A launch on a patient device leaves its lane before it has begun. It may still look at how
// the copies ended that it waits for, so that the lane has not ended before it has; one that is
// detached because it takes long has begun, and waits for nothing.
func TestPatientHasNotEnded(t *testing.T) {
	m := gpus(1, 1000)
	m.Devices = append(m.Devices, cpus(1).Devices...)
	r := newRig(t, m, engine.Options{Patient: []machine.DeviceID{1}})
	var asks []engine.Op
	r.onLaunch = func(o *op) {
		if o.a.Device == 1 {
			asks = append(asks, o.a.Op)
		}
	}
	r.hold = func(o *op) bool { return o.a.Kind == engine.Copy }
	id := r.submit(build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: 8})
		b.Add(on("gpu:0", job("makes", 1, writes(x))))
		for i := range 2 {
			b.Add(on("cpu:0", job(fmt.Sprint("asks", i), 1, reads(x), writes(b.Data(graph.Data{Bytes: 8, Output: true})))))
		}
	}), engine.RunOptions{})
	r.until("a copy in flight", func() bool { return len(r.copies) == 1 && len(r.ran) == 1 })
	equal(t, "launches", len(asks), 2)
	equal(t, "launches given to their lane", r.e.Issued(asks[0].Lane), asks[1].Seq)
	equal(t, "ended before the copy has", r.e.Ended(asks[0].Lane), asks[0].Seq-1)
	r.hold = nil
	r.until("the end of the first", func() bool { return len(r.ran) == 2 })
	equal(t, "ended after the first", r.e.Ended(asks[0].Lane), asks[0].Seq)
	r.mustRun(id)
	equal(t, "ended after both", r.e.Ended(asks[0].Lane), asks[1].Seq)
}

// A patient device takes two launches for each of its lanes, and the next when one has ended.
func TestPatientLimit(t *testing.T) {
	m := cpus(2)
	m.Devices[1].Lanes = 2
	r := newRig(t, m, engine.Options{Patient: []machine.DeviceID{1}})
	id := r.submit(build(t, func(b *graph.Builder) {
		for range 9 {
			b.Add(on("cpu:1", job("t", 1, writes(b.Data(graph.Data{Bytes: 8})))))
		}
	}), engine.RunOptions{})
	r.step()
	equal(t, "launches at first", r.launchedOn("cpu:1"), 4)
	r.until("one has ended", func() bool { return len(r.ran) == 1 })
	equal(t, "launches then", r.launchedOn("cpu:1"), 5)
	r.mustRun(id)
}

// A task on a patient device that fails is tried again, and its successors wait for that.
func TestPatientFails(t *testing.T) {
	r := newRig(t, cpus(2), engine.Options{Patient: []machine.DeviceID{1}})
	id := r.submit(build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: 8})
		b.Add(on("cpu:1", job("asks", 1, writes(x))))
		b.Add(on("cpu:0", job("reads", 1, reads(x), writes(b.Data(graph.Data{Name: "y", Bytes: 8, Output: true})))))
	}), engine.RunOptions{})
	r.fail["asks"] = 2
	r.mustRun(id)
	equalLists(t, "order", r.ran, []string{"asks@cpu:1", "reads@cpu:0"})
	equal(t, "attempts", r.count("asks"), 3)
}

// A device that is drained for an error says so in its state, its notices and its status. A
// patient device is no reason to take the last one that computes out of service.
func TestDrainedForAnError(t *testing.T) {
	var causes []error
	r := newRig(t, cpus(3), engine.Options{
		Patient: []machine.DeviceID{2},
		Changed: func(c engine.StateChange) { causes = append(causes, c.Cause) },
	})
	wrong := errors.New("its results are wrong")
	var answers []error
	drain := func(dev machine.DeviceID, err error) {
		r.step(engine.Event{Kind: engine.Drain, Device: dev, Err: err, Answer: func(err error) { answers = append(answers, err) }})
	}
	drain(0, wrong)
	drain(1, wrong)
	if !slices.Equal(causes, []error{wrong}) {
		t.Errorf("causes are %v", causes)
	}
	if len(answers) != 2 || answers[0] != nil || !errors.Is(answers[1], engine.ErrLastDevice) {
		t.Errorf("answers are %v", answers)
	}
	for dev := range machine.DeviceID(2) {
		if err := r.e.Status(dev).LastErr; !errors.Is(err, wrong) {
			t.Errorf("the last error of device %d is %v", dev, err)
		}
	}
	r.step(engine.Event{Kind: engine.Undrain, Device: 0})
	drain(0, nil)
	if last := causes[len(causes)-1]; last != nil {
		t.Errorf("drained without an error, for %v", last)
	}
}

// asking is a graph of n tasks on cpu:1, named asks0 and on, each with a result of its own.
func asking(t *testing.T, n int, bytes int64) *graph.Graph {
	return build(t, func(b *graph.Builder) {
		for i := range n {
			b.Add(on("cpu:1", job(fmt.Sprint("asks", i), 1, writes(b.Data(graph.Data{Name: fmt.Sprint("x", i), Bytes: bytes})))))
		}
	})
}

// A task that has no room beside those on a patient device waits until they have ended, on that
// device and on another, also while nothing is in flight.
func TestPatientHoldsMemory(t *testing.T) {
	m := cpus(2)
	m.HostBytes = 100
	r := newRig(t, m, engine.Options{Patient: []machine.DeviceID{1}})
	r.hang["asks0"] = true
	outer := r.submit(asking(t, 3, 60), engine.RunOptions{})
	r.starts("asks0")
	other := r.submit(build(t, func(b *graph.Builder) {
		b.Add(on("cpu:0", job("other", 1, writes(b.Data(graph.Data{Name: "out", Bytes: 8, Output: true})))))
	}), engine.RunOptions{})
	r.mustRun(other) // which needs none
	large := r.submit(build(t, func(b *graph.Builder) {
		b.Add(on("cpu:0", job("large", 1, writes(b.Data(graph.Data{Name: "z", Bytes: 60})))))
	}), engine.RunOptions{})
	r.step()
	equal(t, "launches without room", r.count("large")+r.count("asks1"), 0)
	if len(r.ended) != 1 {
		t.Errorf("runs that only had to wait have ended: %v", r.ended)
	}
	r.hang["asks0"] = false
	r.mustRun(large)
	r.mustRun(outer)
}

// A run that a task on a patient device waits for fails if there is no room for it but that of
// the task: neither would end.
func TestPatientNeedsMemory(t *testing.T) {
	m := cpus(2)
	m.HostBytes = 100
	r := newRig(t, m, engine.Options{Patient: []machine.DeviceID{1}})
	r.hang["asks0"] = true
	outer := r.submit(asking(t, 2, 60), engine.RunOptions{})
	r.starts("asks0")
	inner := r.submit(build(t, func(b *graph.Builder) {
		b.Add(on("cpu:0", job("inner", 1, writes(b.Data(graph.Data{Name: "z", Bytes: 60})))))
	}), engine.RunOptions{Of: outer, OfTask: 0})
	is(t, r.finish(inner), engine.ErrOutOfMemory)
	equal(t, "launches behind it", r.count("asks1"), 0)
	r.hang["asks0"] = false
	r.mustRun(outer)
}

// A run that a task on a patient device waits for finds no device. Who submitted it will go on
// without it, so that another run without room waits.
func TestPatientRunLeftOut(t *testing.T) {
	m := cpus(3)
	m.HostBytes = 100
	r := newRig(t, m, engine.Options{Patient: []machine.DeviceID{1}})
	r.hang["asks0"] = true
	outer := r.submit(asking(t, 2, 60), engine.RunOptions{})
	r.starts("asks0")
	r.step(engine.Event{Kind: engine.Drain, Device: 0})
	inner := r.submit(single(t, on("cpu:0", job("inner", 1))), engine.RunOptions{Of: outer, OfTask: 0})
	large := r.submit(build(t, func(b *graph.Builder) {
		b.Add(on("cpu:2", job("large", 1, writes(b.Data(graph.Data{Name: "z", Bytes: 60})))))
	}), engine.RunOptions{})
	r.step()
	if len(r.ended) > 0 {
		t.Errorf("runs that only had to wait have ended: %v", r.ended)
	}
	r.step(engine.Event{Kind: engine.Cancel, Run: inner})
	r.hang["asks0"] = false
	r.mustRun(large)
	r.mustRun(outer)
}

// A spare takes the place of a device that is drained for an error, once, also where that is the
// last one; one that a caller drains has none called.
func TestSpareForWrongResults(t *testing.T) {
	for _, n := range []int{2, 3} {
		spare := machine.DeviceID(n - 1)
		r := newRig(t, cpus(n+1), engine.Options{Spares: []machine.DeviceID{spare, spare + 1}})
		var answers []error
		drain := func(dev machine.DeviceID, err error) {
			r.step(engine.Event{Kind: engine.Drain, Device: dev, Err: err, Answer: func(err error) { answers = append(answers, err) }})
		}
		if n == 3 {
			drain(1, nil)
			equal(t, "state of a spare after a drain", r.state(spare), "spare")
		}
		drain(0, errBoom)
		drain(0, errBoom) // for another result
		equal(t, "state of the spare", r.state(spare), "healthy")
		equal(t, "state of the other spare", r.state(spare+1), "spare")
		equal(t, "state of the device", r.state(0), "draining")
		r.mustRun(r.submit(single(t, job("t", 1)), engine.RunOptions{}))
		equalLists(t, "ran", r.ran, []string{"t@" + r.m.DeviceName(spare)})
		if len(answers) != n || slices.ContainsFunc(answers, func(err error) bool { return err != nil }) {
			t.Errorf("answers are %v", answers)
		}
	}
}
