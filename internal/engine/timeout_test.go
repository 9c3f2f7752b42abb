package engine_test

import (
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
)

// sampled is a cost model whose predictions of tasks stand on measurements.
type sampled struct{ machine.Cost }

func (s sampled) Task(t *graph.Task, on machine.DeviceID) machine.Estimate {
	e := s.Cost.Task(t, on)
	e.Samples = 100
	return e
}

// own says of n devices that they run in processes of their own.
func own(n int, keeps bool) []engine.Process {
	p := make([]engine.Process, n)
	for i := range p {
		p[i] = engine.Process{Own: true, Keeps: keeps}
	}
	return p
}

// A task that hangs on a device in a process of its own is given up on in time, without
// anybody having asked for that; not so a device in the caller's process.
func TestAutomaticTimeout(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		known, warm, here bool
		engine, run, task time.Duration
		millis            float64
		want              time.Duration // 0 for never
	}{
		"short":          {known: true, warm: true, millis: 1, want: 10 * s},
		"long":           {known: true, warm: true, millis: 2000, want: 40 * s},
		"unknown":        {warm: true, millis: 1, want: 120 * s},
		"first launch":   {known: true, millis: 1, want: 120 * s},
		"in the caller":  {known: true, warm: true, here: true, millis: 1},
		"off":            {known: true, warm: true, engine: -1, millis: 1},
		"off in the run": {known: true, warm: true, run: -1, millis: 1},
		"persistent":     {known: true, warm: true, task: graph.NoTimeout, millis: 1},
		"given":          {known: true, warm: true, engine: s, millis: 1, want: s},
		"of the task":    {known: true, warm: true, engine: -1, task: s, millis: 1, want: s},
	} {
		t.Run(name, func(t *testing.T) {
			m := gpus(1, 1<<20)
			o := engine.Options{TaskTimeout: c.engine, Cost: machine.NewRoofline(m)}
			if !c.here {
				o.Processes = own(1, false)
			}
			if c.known {
				o.Cost = sampled{o.Cost}
			}
			r := newRig(t, m, o)
			if c.warm {
				r.mustRun(r.submit(single(t, job("before", 1)), engine.RunOptions{}))
			}
			from := r.now
			k := job("k", c.millis)
			k.Timeout = c.task
			r.hang["k"] = true
			r.submit(single(t, k), engine.RunOptions{Timeout: c.run})
			r.step()
			for len(r.drops) == 0 && r.advance() {
			}
			if c.want == 0 {
				equal(t, "drops", len(r.drops), 0)
				return
			}
			equalLists(t, "drops", r.drops, []string{"gpu:0"})
			equal(t, "timeout", r.now-from, c.want)
		})
	}
}

// While a kernel may be compiled, launches of others on the device are not given up on:
// they may wait for that. From then on they have their own time.
func TestTimeoutSparesCompilation(t *testing.T) {
	m := gpus(1, 1<<20)
	m.Devices[0].Lanes = 2
	r := newRig(t, m, engine.Options{Cost: sampled{machine.NewRoofline(m)}, Processes: own(1, false)})
	r.mustRun(r.submit(single(t, job("before", 1)), engine.RunOptions{}))
	fresh := job("fresh", 30_000)
	fresh.Steps = []graph.Step{{Kernel: &graph.Kernel{Name: "fresh", Impls: anywhere.Impls}}}
	r.hang["known"] = true
	r.submit(single(t, fresh), engine.RunOptions{})
	from := r.now
	r.submit(single(t, job("known", 1)), engine.RunOptions{})
	r.until("dropped", func() bool { return len(r.drops) > 0 })
	equal(t, "time", r.now-from, 30*time.Second+10*time.Second)
}

// What ran beside a task that timed out, or was behind it, is not held to be the cause
// of that, however often it happens, and what a keeper has is kept.
func TestTimeoutBlamesOne(t *testing.T) {
	m := gpus(1, 1<<20)
	m.Devices[0].Lanes = 2
	r := newRig(t, m, engine.Options{Retries: 5, Processes: own(1, true)})
	r.answer = func(dev machine.DeviceID, _ engine.Rung) (engine.Event, bool) {
		return engine.Event{Kind: engine.DeviceBack, Device: dev, Kept: true}, true
	}
	// The first task's result is needed while the second runs.
	innocent := r.submit(build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: 8})
		y := b.Data(graph.Data{Name: "y", Bytes: 8, Output: true})
		b.Add(job("make", 1, writes(x)))
		b.Add(job("use", 7000, reads(x), writes(y)))
	}), engine.RunOptions{})
	r.starts("use")
	bad := job("bad", 1)
	bad.Timeout = time.Second
	r.hang["bad"] = true
	guilty := r.submit(single(t, bad), engine.RunOptions{})
	is(t, r.finish(guilty), engine.ErrTimeout)
	equal(t, "drops", len(r.drops), 6)
	for _, rung := range r.rungs {
		equal(t, "rung", rung, "gpu:0 standby")
	}
	rep := r.mustRun(innocent)
	equal(t, "retries of the other run", rep.Retries, 0)
	equal(t, "tasks of it computed again", rep.Replays, 0)
}

// A task with a short timeout that comes behind one with a long timeout on its lane has
// its own time from when the other has ended.
func TestTimeoutBehindLonger(t *testing.T) {
	m := gpus(1, 1<<20)
	r := newRig(t, m, engine.Options{})
	from := r.now
	long, short := job("long", 5000), job("short", 1)
	long.Timeout, short.Timeout = time.Minute, time.Second
	r.hang["short"] = true
	r.submit(build(t, func(b *graph.Builder) {
		b.Add(long)
		b.Add(short)
	}), engine.RunOptions{})
	r.starts("long")
	r.until("dropped", func() bool { return len(r.drops) > 0 })
	equal(t, "time", r.now-from, 5*time.Second+time.Second)
}
