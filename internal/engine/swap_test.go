package engine_test

import (
	"errors"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
)

// asked is an answer of the engine.
type asked struct {
	times int
	err   error
}

// ask steps the engine with a request.
func (r *rig) ask(kind engine.EventKind, dev, other machine.DeviceID) *asked {
	a := &asked{}
	r.step(engine.Event{Kind: kind, Device: dev, Spare: other, Answer: func(err error) { a.times++; a.err = err }})
	return a
}

// answered checks that a request was answered once, with an error or without.
func (a *asked) answered(t *testing.T, what string, want error) {
	t.Helper()
	if a.times != 1 || !errors.Is(a.err, want) {
		t.Errorf("%s: answered %d times, with %v, want %v", what, a.times, a.err, want)
	}
}

// A drained device hands what only it has to host memory before it is said to be drained,
// and stays out of service when it is lost and comes back.
func TestDrainHandsOver(t *testing.T) {
	r := newRig(t, gpus(2, 1<<20), engine.Options{})
	ref := r.e.NewData("w", 1000, graph.Versioned)
	update := job("update", 1, updates(0))
	update.On.Hint = "gpu:0"
	g := build(t, func(b *graph.Builder) {
		b.Data(graph.Data{Name: "w", Bytes: 1000, Input: true})
		b.Add(update)
	})
	bind := engine.RunOptions{Bind: []engine.Binding{{Data: 0, Ref: ref}}}
	r.mustRun(r.submit(g, bind))
	if r.e.Status(0).MemUsed == 0 {
		t.Fatal("the data is not on the device")
	}
	d := r.ask(engine.Drain, 0, 0)
	equal(t, "answers before the copy has ended", d.times, 0)
	equal(t, "drained before", r.e.Status(0).Drained, false)
	for r.advance() {
	}
	r.step()
	d.answered(t, "drain", nil)
	equal(t, "drained", r.e.Status(0).Drained, true)
	equal(t, "memory in use", r.e.Status(0).MemUsed, int64(0))
	r.ask(engine.Drain, 1, 0).answered(t, "draining the last device", engine.ErrLastDevice)
	r.lose(0, false)
	r.step(engine.Event{Kind: engine.DeviceBack, Device: 0})
	equal(t, "state after a loss", r.e.Status(0).State, engine.Draining)
	rep := r.mustRun(r.submit(g, bind))
	equal(t, "replays", rep.Replays, 0)
	equal(t, "tasks on the drained device", rep.Devices[0].Tasks, 0)
	r.ask(engine.Undrain, 0, 0).answered(t, "undrain", nil)
	equal(t, "state after undrain", r.e.Status(0).State, engine.Healthy)
}

// Telemetry that drained a device does not let in one that a caller has drained.
func TestCoolDeviceStaysDrained(t *testing.T) {
	r := newRig(t, cpus(2), engine.Options{})
	r.ask(engine.Drain, 0, 0).answered(t, "drain", nil)
	heat := func(c float64) {
		for range 4 {
			r.step(engine.Event{Kind: engine.Telemetry, Device: 0, Sample: &engine.Sample{TempC: c, Util: -1, MemUsed: -1, PowerW: -1, MemErrors: -1, Faults: -1}})
		}
	}
	heat(90)
	heat(40)
	equal(t, "state", r.e.Status(0).State, engine.Draining)
	r.ask(engine.Undrain, 0, 0)
	heat(90)
	equal(t, "state when hot", r.e.Status(0).State, engine.Draining)
	equal(t, "drained by request", r.e.Status(0).Drained, false)
	heat(40)
	equal(t, "state when cool", r.e.Status(0).State, engine.Healthy)
}

// A spare that was lost stands by again when it is back.
func TestLostSpareIsASpareAgain(t *testing.T) {
	r := newRig(t, gpus(2, 1<<20), engine.Options{Spares: []machine.DeviceID{1}})
	r.lose(1, false)
	r.step(engine.Event{Kind: engine.DeviceBack, Device: 1})
	equal(t, "state", r.e.Status(1).State, engine.Spare)
	r.ask(engine.Undrain, 1, 0).answered(t, "undrain", nil)
	equal(t, "state", r.e.Status(1).State, engine.Healthy)
}

// A device drained while it is lost, or lost while it drains, is answered at once.
func TestDrainAndLoss(t *testing.T) {
	r := newRig(t, gpus(3, 1<<20), engine.Options{})
	id := r.submit(single(t, job("busy", 10)), engine.RunOptions{})
	r.starts("busy")
	d := r.ask(engine.Drain, 0, 0)
	equal(t, "answers while it works", d.times, 0)
	r.lose(0, false)
	d.answered(t, "drain of a device that is lost", engine.ErrDeviceLost)
	r.lose(1, false)
	r.ask(engine.Drain, 1, 0).answered(t, "drain of a lost device", nil)
	r.ask(engine.HotSwap, 2, 1).answered(t, "swap with a lost device", engine.ErrDeviceLost)
	equal(t, "the device that was not swapped", r.e.Status(2).State, engine.Healthy)
	r.mustRun(id)
}

// The ladder of a broken device starts when a caller asks for it.
func TestReviveAsked(t *testing.T) {
	r := newRig(t, gpus(2, 1<<20), engine.Options{Health: engine.HealthRules{RungTimeout: time.Second}})
	r.ask(engine.Revive, 0, 0).answered(t, "a device that works", nil)
	r.lose(0, false)
	a := r.ask(engine.Revive, 0, 0)
	for range 3 {
		equal(t, "answers on the way", a.times, 0)
		r.step(engine.Event{Kind: engine.RecoverFailed, Device: 0})
	}
	a.answered(t, "no rung helps", engine.ErrDeviceLost)
	equal(t, "state", r.e.Status(0).State, engine.Broken)
	a = r.ask(engine.Revive, 0, 0)
	equal(t, "state", r.e.Status(0).State, engine.Lost)
	r.step(engine.Event{Kind: engine.DeviceBack, Device: 0})
	a.answered(t, "it is back", nil)
	r.lose(0, false)
	for range 3 {
		r.step(engine.Event{Kind: engine.RecoverFailed, Device: 0, Never: true})
	}
	if a = r.ask(engine.Revive, 0, 0); a.times != 1 || a.err == nil {
		t.Errorf("a device that can never be brought back: %d answers, %v", a.times, a.err)
	}
}
