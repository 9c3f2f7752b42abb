package machine

import (
	"testing"

	"github.com/weft-run/weft/graph"
)

// A task takes as many lanes of a team as its widest step has items, of a device that is
// none always one.
func TestWidth(t *testing.T) {
	goes := graph.Impl{Dialect: graph.Go, Entry: "k"}
	halves := graph.Impl{Dialect: graph.Go, Entry: "k", Per: [3]uint32{2, graph.All, 1}}
	step := func(i graph.Impl, x, y, z uint32) graph.Step {
		other := graph.Impl{Dialect: graph.PTX, Entry: "k", Per: [3]uint32{1000, 1000, 1000}}
		return graph.Step{Kernel: &graph.Kernel{Name: "k", Impls: []graph.Impl{other, i}}, Launch: graph.Launch{Grid: [3]uint32{x, y, z}}}
	}
	for _, c := range []struct {
		name         string
		cores, lanes int
		want         int
		steps        []graph.Step
	}{
		{"no grid", 8, 8, 1, []graph.Step{step(goes, 0, 0, 0)}},
		{"one item", 8, 8, 1, []graph.Step{step(goes, 1, 1, 1)}},
		{"some", 8, 8, 3, []graph.Step{step(goes, 3, 1, 1)}},
		{"in two dimensions", 8, 8, 6, []graph.Step{step(goes, 2, 3, 0)}},
		{"more than cores", 8, 8, 8, []graph.Step{step(goes, 3, 3, 1)}},
		{"very many", 8, 8, 8, []graph.Step{step(goes, 1<<31, 1<<31, 1<<31)}},
		{"several for each call", 8, 8, 5, []graph.Step{step(halves, 9, 77, 1)}},
		{"the widest step", 8, 8, 4, []graph.Step{step(goes, 1, 1, 1), step(goes, 4, 1, 1), step(goes, 2, 1, 1)}},
		{"fewer lanes than cores", 8, 4, 2, []graph.Step{step(goes, 3, 1, 1)}},
		{"one lane", 8, 1, 1, []graph.Step{step(goes, 3, 1, 1)}},
	} {
		task := &graph.Task{Steps: c.steps}
		d := Device{Backend: "cpu", ComputeUnits: c.cores, Lanes: c.lanes, Team: true}
		if got := d.Width(task); got != c.want {
			t.Errorf("%s: %d lanes, want %d", c.name, got, c.want)
		}
		part := float64(c.want) / float64(c.lanes)
		if got := d.Part(task); got != part {
			t.Errorf("%s: a part of %v, want %v", c.name, got, part)
		}
		d.Team = false
		if got := d.Width(task); got != 1 || d.Part(task) != 1 {
			t.Errorf("%s: %d lanes and a part of %v of a device that is no team", c.name, got, d.Part(task))
		}
	}
}

// What launches of a team have together is never more than its cores, each has one at
// least, and nothing is left unused that one wants.
func TestTeamSpeed(t *testing.T) {
	const team = 6
	for a := 1; a <= team; a++ {
		for b := 0; b <= team; b++ {
			for singles := range team - 1 {
				running, wide := 1+singles, a+singles
				if b > 0 {
					running, wide = running+1, wide+b
				}
				cores := float64(singles) * TeamSpeed(team, 1, running, wide)
				for _, w := range []int{a, b} {
					if w == 0 {
						continue
					}
					has := float64(w) * TeamSpeed(team, w, running, wide)
					if has < 1-1e-9 || has > float64(w)+1e-9 {
						t.Errorf("widths %d, %d beside %d: one of %d has %v cores", a, b, singles, w, has)
					}
					cores += has
				}
				if want := float64(min(wide, team)); cores < want-1e-9 || cores > want+1e-9 {
					t.Errorf("widths %d, %d beside %d: %v cores are used, want %v", a, b, singles, cores, want)
				}
			}
		}
	}
}

// A task that has a part of a team has as much of its rates.
func TestTeamRoofline(t *testing.T) {
	m := &Machine{Devices: []Device{{Name: "cpu:0", Kind: CPU, Backend: "cpu", HostMemory: true, ComputeUnits: 4, Lanes: 4, Team: true}}}
	m.Devices[0].Rates.Ops[graph.FP32] = 4e9
	cost := NewRoofline(m)
	k := &graph.Kernel{Name: "k", Impls: []graph.Impl{{Dialect: graph.Abstract}}}
	for items, want := range map[uint32]int64{1: 4e6, 2: 2e6, 4: 1e6, 9: 1e6} {
		task := &graph.Task{Steps: []graph.Step{{Kernel: k, Launch: graph.Launch{Grid: [3]uint32{items, 1, 1}}}}, Work: graph.Work{Ops: 4e6}}
		if got := cost.Task(task, 0).Median.Nanoseconds(); got != want {
			t.Errorf("%d items take %d ns, want %d", items, got, want)
		}
	}
	again, err := Decode(Encode(m))
	if err != nil || again.Devices[0].TeamSize() != 4 {
		t.Errorf("written and read again: %+v, %v", again, err)
	}
}
