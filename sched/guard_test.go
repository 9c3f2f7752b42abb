package sched

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// scripted is a policy that does as a test says.
type scripted struct {
	place func(v *Situation, out []Placement) []Placement
	steal func() machine.DeviceID
}

func (s *scripted) Place(v *Situation, out []Placement) []Placement { return s.place(v, out) }
func (s *scripted) Observe(Outcome)                                 { panic("observed") }
func (s *scripted) Explain(*Situation, int) Explanation             { panic("explained") }

// thief also steals.
type thief struct{ scripted }

func (t *thief) Steal(*Situation, machine.DeviceID) machine.DeviceID { return t.steal() }

// three is a situation of three tasks for two devices, of which the first takes no work.
func three() (*Situation, Problem) {
	m := &machine.Machine{Name: "two", Devices: []machine.Device{{Name: "cpu:0", HostMemory: true}, {Name: "cpu:1", HostMemory: true}}}
	v := &Situation{Classes: 1, Devices: []Device{
		{HostMemory: true, CapBytes: 1 << 40, Slow: 1}, {Accepts: true, HostMemory: true, CapBytes: 1 << 40, Slow: 1},
	}}
	for i := range 3 {
		v.Tasks = append(v.Tasks, Ready{Task: graph.TaskID(i), Cost: []time.Duration{time.Millisecond}, Near: -1, Hint: -1})
	}
	return v, Problem{Machine: m, Cost: machine.NewRoofline(m)}
}

// Whatever a policy does, each task is placed at most once, where it can run, and the
// first mistake is told.
func TestGuard(t *testing.T) {
	for _, c := range []struct {
		name  string
		place func(v *Situation, out []Placement) []Placement
		want  string // devices of the tasks, "-" for one left out
		warns string
	}{
		{"right", func(v *Situation, out []Placement) []Placement {
			return append(out, Placement{Task: 2, Device: 1}, Placement{Task: 0, Device: 1})
		}, "1 - 1", ""},
		{"right, and counted", func(v *Situation, out []Placement) []Placement {
			return append(out, Placement{Task: 2, Device: 1, Finish: v.Assign(2, 1, 0, time.Millisecond)})
		}, "- - 1", ""},
		{"devices changed", func(v *Situation, out []Placement) []Placement {
			v.Devices[0] = Device{Accepts: true, CapBytes: 1, Queued: 7}
			v.Tasks = nil
			return append(out, Placement{Task: 2, Device: 0})
		}, "- - 1", "device 0 of 2"},
		{"a panic", func(*Situation, []Placement) []Placement { panic("ouch") }, "1 1 1", "panicked: ouch"},
		{"a task that is not there", func(v *Situation, out []Placement) []Placement {
			return append(out, Placement{Task: 3, Device: 1}, Placement{Task: -1, Device: 1}, Placement{Task: 1, Device: 1})
		}, "- 1 -", "task 3 of 3"},
		{"a task twice", func(v *Situation, out []Placement) []Placement {
			return append(out, Placement{Task: 1, Device: 1}, Placement{Task: 1, Device: 1})
		}, "- 1 -", "placed already"},
		{"devices that take no work or are not there", func(v *Situation, out []Placement) []Placement {
			return append(out, Placement{Task: 0, Device: 0}, Placement{Task: 1, Device: 7}, Placement{Task: 2, Device: -1})
		}, "1 1 1", "device 0 of 2"},
		{"what was there before", func(*Situation, []Placement) []Placement { return nil }, "- - -", ""},
	} {
		v, p := three()
		var told []string
		g := Guard(func(Problem) Policy { return &scripted{place: c.place} }, func(err error) { told = append(told, err.Error()) })(p)
		if _, ok := g.(Stealer); ok {
			t.Errorf("%s: the guard of a policy that does not steal does", c.name)
		}
		got := []string{"-", "-", "-"}
		made := g.Place(v, nil)
		if v.Devices[1].Queued != int32(len(made)) || v.Devices[0].Queued != 0 || len(made) > 0 && v.Devices[1].FreeAt < time.Millisecond {
			t.Errorf("%s: %d tasks placed, %+v", c.name, len(made), v.Devices)
		}
		for _, p := range made {
			if got[p.Task] != "-" {
				t.Errorf("%s: task %d is placed twice", c.name, p.Task)
			}
			got[p.Task] = string(rune('0' + p.Device))
		}
		g.Place(v, nil) // the same mistake is not told again
		if strings.Join(got, " ") != c.want || c.warns == "" && len(told) > 0 || c.warns != "" && (len(told) != 1 || !strings.Contains(told[0], c.warns)) {
			t.Errorf("%s: placed %v, told %q; want %s, %q", c.name, got, told, c.want, c.warns)
		}
	}
}

// Panics of the other methods are told, and a factory that makes nothing gives the default.
func TestGuardMethods(t *testing.T) {
	v, p := three()
	var told []error
	warn := func(err error) { told = append(told, err) }
	bad := &thief{scripted{steal: func() machine.DeviceID { return 1 }}}
	g := Guard(func(Problem) Policy { return bad }, warn)(p).(*guardedStealer)
	if got := g.Steal(v, 0); got != 1 || len(told) != 0 {
		t.Errorf("steals from %d, told %v", got, told)
	}
	if g.Steal(v, 1) != -1 || len(told) != 1 {
		t.Errorf("a device steals from itself: told %v", told)
	}
	for _, from := range []machine.DeviceID{-2, 2, 3} {
		bad.steal = func() machine.DeviceID { return from }
		if got := g.Steal(v, 0); got != -1 {
			t.Errorf("steals from %d, which is not there", got)
		}
	}
	g.Observe(Outcome{})
	if ex := g.Explain(v, 0); ex.Chosen != -1 {
		t.Errorf("explained %+v", ex)
	}
	bad.steal = func() machine.DeviceID { panic(errors.New("ouch")) }
	if g.Steal(v, 0) != -1 || len(told) != 1 {
		t.Errorf("told %v", told)
	}
	for _, f := range []Factory{func(Problem) Policy { return nil }, func(Problem) Policy { panic("no") }} {
		told = nil
		if got := Guard(f, warn)(p).Place(v, nil); len(got) != 3 || len(told) != 1 {
			t.Errorf("placed %v, told %v", got, told)
		}
	}
}

// planned is a policy that plans as a test says.
type planned struct {
	scripted
	plan   Plan
	forgot int
}

func (p *planned) Plan(*Run) Plan { return p.plan }
func (p *planned) Forget(int32)   { p.forgot++ }

// A plan is passed on if every task has a turn of its own.
func TestGuardPlan(t *testing.T) {
	m, _ := planning("8xh100")
	w := runOf(m, chainBeside(t, 1, 2, 67e9, 1<<10))
	n := len(w.Flow.Rows) - 1
	good := make([]int32, n)
	for i := range good {
		good[i] = int32(n - 1 - i)
	}
	for name, c := range map[string]struct {
		turns []int32
		ok    bool
	}{
		"right": {good, true}, "none": {nil, true}, "too few": {good[1:], false}, "twice": {make([]int32, n), false},
		"beyond": {append([]int32{int32(n)}, good[1:]...), false}, "below": {append([]int32{-1}, good[1:]...), false},
	} {
		p := &planned{plan: Plan{Turns: c.turns}}
		told := 0
		g := Guard(func(Problem) Policy { return p }, func(error) { told++ })(Problem{Machine: m, Cost: machine.NewRoofline(m)}).(Planner)
		got := g.Plan(w)
		if c.ok != (told == 0) || c.ok && len(got.Turns) != len(c.turns) || !c.ok && (got.Turns != nil || p.forgot != 1) {
			t.Errorf("%s: %v, told %d times, forgot %d times", name, got.Turns, told, p.forgot)
		}
	}
}

// A partition that leaves items out, repeats them or passes boundaries is refused.
func TestCheckPartition(t *testing.T) {
	shares := []Share{{Rate: 1}, {Device: 1, Rate: 1}}
	p := Items{Extent: 100, Align: 8}
	for _, c := range []struct {
		ranges []Range
		ok     bool
	}{
		{[]Range{{0, 48}, {48, 100}}, true}, {[]Range{{0, 0}, {0, 100}}, true}, {[]Range{{0, 100}, {7, 7}}, true},
		{[]Range{{0, 100}}, false}, {nil, false}, {[]Range{{0, 50}, {50, 100}}, false}, {[]Range{{0, 48}, {56, 100}}, false},
		{[]Range{{0, 56}, {48, 100}}, false}, {[]Range{{0, 48}, {48, 96}}, false}, {[]Range{{0, 48}, {48, 104}}, false},
		{[]Range{{8, 0}, {0, 100}}, false}, {[]Range{{48, 100}, {0, 48}}, false},
	} {
		if err := CheckPartition(p, shares, Partition{Ranges: c.ranges}); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrItems) {
			t.Errorf("%v: %v", c.ranges, err)
		}
	}
}
