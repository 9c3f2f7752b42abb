package sched

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// bestFinish is the earliest finish of t over all devices, by trying each.
// It shares no code with the policy.
func bestFinish(v *Situation, t *Ready, cost machine.Cost) (finish time.Duration, ok bool) {
	for i, dev := range v.Devices {
		d := machine.DeviceID(i)
		if !may(v, t, d) {
			continue
		}
		at := finishOn(v, t, cost, d, dev)
		if !ok || at < finish {
			finish, ok = at, true
		}
	}
	return finish, ok
}

func finishOn(v *Situation, t *Ready, cost machine.Cost, d machine.DeviceID, dev Device) time.Duration {
	in := func(d machine.DeviceID) machine.DeviceID {
		if d >= 0 && v.Devices[d].HostMemory {
			return machine.Host
		}
		return d
	}
	cheapest := make(map[int32]time.Duration)
	there := make(map[int32]int64)
	for _, c := range t.Inputs {
		if c.At == d {
			there[c.Value] = c.Bytes
		}
		took := cost.Copy(c.Bytes, in(c.At), in(d)).Median
		if old, seen := cheapest[c.Value]; !seen || took < old {
			cheapest[c.Value] = took
		}
	}
	at := max(v.Now, t.InputsAt, dev.FreeAt) + time.Duration(float64(t.Cost[dev.Class])*dev.Slow)
	for _, took := range cheapest {
		at += took
	}
	short := t.Need - dev.FreeBytes
	for _, bytes := range there {
		short -= bytes
	}
	if short > 0 && !dev.HostMemory {
		both := cost.Copy(1<<24, d, machine.Host).Median + cost.Copy(1<<24, machine.Host, d).Median
		at += time.Duration(float64(both) * (float64(short) / (1 << 24)))
	}
	return at
}

// TestFinishIsEarliest compares the policy's shortcut (winner trees, holders)
// with trying every device, over rounds in which devices change.
func TestFinishIsEarliest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		r := rand.New(rand.NewPCG(seed, 3))
		n := 1 + r.IntN(20)
		cost := uniform()
		p := newFinish(Problem{Machine: bare(n), Cost: cost})
		v := randomView(r, n, 1)
		v.crowd(r)
		for range 60 {
			v.Tasks[0] = randomTask(r, v, 0)
			task := &v.Tasks[0]
			before := v.clone()
			placed := p.Place(v, nil)
			want, ok := bestFinish(before, task, cost)
			if ok != (len(placed) == 1) {
				t.Fatalf("placed %v, possible %v", placed, ok)
			}
			if ok {
				d := placed[0].Device
				got := finishOn(before, task, cost, d, before.Devices[d])
				slack := time.Duration(0)
				if d == task.Hint {
					slack = time.Duration(0.1 * float64(task.Cost[before.Devices[d].Class]) * before.Devices[d].Slow)
				}
				if got > want+slack {
					t.Fatalf("device %d finishes at %v, another at %v", d, got, want)
				}
				if h := task.Hint; h >= 0 && d != h && may(before, task, h) {
					runs := float64(task.Cost[before.Devices[h].Class]) * before.Devices[h].Slow
					if at := finishOn(before, task, cost, h, before.Devices[h]); float64(at-want) < 0.0999*runs {
						t.Fatalf("hint %d finishes at %v and lost to %v", h, at, want)
					}
				}
			}
			v.Now += time.Duration(r.IntN(100)) * time.Microsecond
			v.Dirty = v.Dirty[:0]
			if r.IntN(3) == 0 {
				d := r.IntN(n)
				old := v.Devices[d]
				v.Devices[d] = randomView(r, 1, 0).Devices[0]
				v.Devices[d].setClass(v.Devices[d].Class % v.Classes)
				v.Devices[d].Crowd = old.Crowd
				v.Devices[d].Slow = []float64{1, old.Slow, 1 + 2*r.Float64()}[r.IntN(3)]
				if r.IntN(4) > 0 {
					v.Devices[d].setClass(old.Class)
				}
				v.Dirty = append(v.Dirty, machine.DeviceID(d))
			}
			if r.IntN(10) == 0 {
				cost.epoch++
				cost.perNS = int64(1 + r.IntN(40))
			}
		}
	})
}

// TestHint pins where the hint stops winning: 10 % of the task's run time.
func TestHint(t *testing.T) {
	for _, c := range []struct {
		freeAt time.Duration
		want   machine.DeviceID
	}{{0, 1}, {100 * time.Microsecond, 1}, {101 * time.Microsecond, 0}} {
		v := &Situation{Classes: 1, Devices: []Device{{Accepts: true, Slow: 1}, {Accepts: true, Slow: 1, FreeAt: c.freeAt}},
			Tasks: []Ready{{Cost: []time.Duration{time.Millisecond}, Hint: 1, Near: -1}}}
		got := newFinish(Problem{Machine: bare(2), Cost: uniform()}).Place(v, nil)
		if got[0].Device != c.want {
			t.Errorf("hint free at %v: placed on %d, want %d", c.freeAt, got[0].Device, c.want)
		}
	}
}

// TestManyCopies checks that a value on every device of a large machine does
// not keep a task from the device that holds its other input.
func TestManyCopies(t *testing.T) {
	v, cost := wide(1024, 0)
	task := Ready{Cost: []time.Duration{time.Millisecond, time.Millisecond}, Hint: -1, Near: -1}
	task.Inputs = append(task.Inputs, Input{Value: 0, Bytes: 1 << 30, At: 777})
	for d := range v.Devices {
		task.Inputs = append(task.Inputs, Input{Value: 1, Bytes: 1 << 20, At: machine.DeviceID(d)})
	}
	v.Tasks = []Ready{task}
	if got := newFinish(Problem{Machine: bare(1024), Cost: cost}).Place(v, nil); got[0].Device != 777 {
		t.Errorf("placed on %d, want 777", got[0].Device)
	}
}

// wide is a machine of two classes with tasks that read two values each.
func wide(devices, tasks int) (*Situation, *links) {
	r := rand.New(rand.NewPCG(1, 1))
	v := &Situation{Classes: 2}
	for d := range devices {
		v.Devices = append(v.Devices, Device{Class: int32(d % 2), Accepts: true, Slow: 1, CapBytes: 8 << 30, FreeBytes: 8 << 30, Score: 80})
	}
	// As in the engine, tasks of a shape share their costs and all inputs lie
	// in one slice.
	shapes := make([][]time.Duration, 16)
	for k := range shapes {
		shapes[k] = []time.Duration{time.Duration(50+r.IntN(100)) * time.Microsecond, time.Duration(80+r.IntN(100)) * time.Microsecond}
	}
	inputs := make([]Input, 2*tasks)
	for i := range inputs {
		inputs[i] = Input{Value: int32(i), Bytes: 64 << 10, At: machine.DeviceID(r.IntN(devices))}
	}
	for i := range tasks {
		v.Tasks = append(v.Tasks, Ready{Task: graph.TaskID(i), Kernel: kernels[0], Cost: shapes[r.IntN(len(shapes))],
			Need: 1 << 20, Inputs: inputs[2*i : 2*i+2], Hint: -1, Near: -1})
	}
	return v, uniform()
}

func TestFinishDoesNotAllocate(t *testing.T) {
	v, cost := wide(8, 1000)
	p := newFinish(Problem{Machine: bare(8), Cost: cost})
	out := p.Place(v, make([]Placement, 0, len(v.Tasks)))
	v.Dirty = []machine.DeviceID{0, 3}
	if n := testing.AllocsPerRun(10, func() { out = p.Place(v, out[:0]) }); n != 0 {
		t.Errorf("%v allocations for a round", n)
	}
	if len(out) != len(v.Tasks) {
		t.Fatalf("%d of %d placed", len(out), len(v.Tasks))
	}
}

func BenchmarkPlace(b *testing.B) {
	for _, name := range Names() {
		for _, size := range []struct {
			label   string
			devices int
		}{{"8", 8}, {"1024", 1024}} {
			b.Run(name+"/devices="+size.label, func(b *testing.B) {
				v, cost := wide(size.devices, 10_000)
				p := Policies()[name](Problem{Machine: bare(size.devices), Cost: cost})
				fresh := append([]Device(nil), v.Devices...)
				for d := range v.Devices {
					v.Dirty = append(v.Dirty, machine.DeviceID(d))
				}
				var out []Placement
				b.ReportAllocs()
				for b.Loop() {
					copy(v.Devices, fresh)
					if out = p.Place(v, out[:0]); len(out) != len(v.Tasks) {
						b.Fatal("not all placed")
					}
				}
			})
		}
	}
}

// A task whose last input is still being made stays behind its maker when that
// costs nothing, and leaves it when another device is clearly sooner done.
func TestFinishStaysNear(t *testing.T) {
	for _, c := range []struct {
		name string
		free time.Duration // of the maker
		want machine.DeviceID
	}{
		{"a tie", 5 * time.Millisecond, 1},
		{"within a hand-over", 5*time.Millisecond + handOver, 1},
		{"later than that", 5*time.Millisecond + handOver + 1, 0},
	} {
		m := &machine.Machine{Devices: make([]machine.Device, 2)}
		v := &Situation{Classes: 1, Devices: []Device{{Accepts: true, Slow: 1, CapBytes: 1}, {Accepts: true, Slow: 1, CapBytes: 1, FreeAt: c.free}}}
		v.Tasks = []Ready{{Cost: []time.Duration{time.Millisecond}, InputsAt: 5 * time.Millisecond, Near: 1, Hint: -1}}
		p := newFinish(Problem{Machine: m, Cost: machine.NewRoofline(m)})
		got := p.Place(v, nil)
		if len(got) != 1 || got[0].Device != c.want {
			t.Errorf("%s: placed %v, want device %d", c.name, got, c.want)
		}
	}
}

// TestEvictionByTheByte: every byte that a device lacks is copied to the host and back,
// on a link of a byte per nanosecond.
func TestEvictionByTheByte(t *testing.T) {
	const free = 1 << 30
	m := newEstimator(Problem{Machine: bare(1), Cost: &links{perNS: 1}})
	m.begin()
	v := &Situation{Devices: []Device{{FreeBytes: free}}}
	for _, short := range []int64{-1, 0, 1, 2, 1000} {
		task := &Ready{Need: free + short}
		if got, want := m.transfer(v, task, 0), time.Duration(2*max(short, 0)); got != want {
			t.Errorf("%d bytes short: %v, want %v", short, got, want)
		}
		// What the task reads is there and stays, however often it is listed.
		task.Inputs = []Input{{Value: 7, Bytes: 1, At: 0}, {Value: 7, Bytes: 1, At: 0}}
		if got, want := m.transfer(v, task, 0), time.Duration(2*max(short-1, 0)); got != want {
			t.Errorf("%d bytes short with one of them there: %v, want %v", short, got, want)
		}
	}
}

// TestFinishCountsEviction: a task goes to the device that has room for it, where what
// others would have to move out and fetch again takes longer than waiting for it; and
// what the task finds there need not be moved.
func TestFinishCountsEviction(t *testing.T) {
	m, _ := machine.Named("3x5070")
	const gib = 1 << 30
	for _, c := range []struct {
		name   string
		free   [3]int64
		busy   [3]time.Duration
		inputs []Input
		want   machine.DeviceID
	}{
		{"room everywhere", [3]int64{4 * gib, 4 * gib, 4 * gib}, [3]time.Duration{0, 5e6, 5e6}, nil, 0},
		{"none on the one that is free first", [3]int64{0, 0, 4 * gib}, [3]time.Duration{0, 5e6, 6e6}, nil, 2},
		{"none, but waiting takes longer", [3]int64{0, 0, 4 * gib}, [3]time.Duration{0, 5e8, 6e8}, nil, 0},
		{"what it needs is there", [3]int64{gib, 4 * gib, 4 * gib}, [3]time.Duration{0, 5e6, 5e6}, []Input{{Bytes: gib, At: 0}}, 0},
	} {
		p := newFinish(Problem{Machine: m, Cost: machine.NewRoofline(m)}).(*finish)
		v := &Situation{Classes: 1}
		for d := range 3 {
			v.Devices = append(v.Devices, Device{Accepts: true, Slow: 1, FreeBytes: c.free[d], CapBytes: 8 * gib, FreeAt: c.busy[d]})
		}
		v.Tasks = []Ready{{Cost: []time.Duration{1e6}, Need: 2 * gib, Near: -1, Hint: -1, Inputs: c.inputs}}
		if out := p.Place(v, nil); len(out) != 1 || out[0].Device != c.want {
			t.Errorf("%s: placed %+v, want device %d", c.name, out, c.want)
		}
	}
}
