//go:build invariants

package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// blind is a policy that is not told which tasks cost the same, so that it tries each device.
type blind struct{ sched.Policy }

func (p blind) Place(v *sched.Situation, out []sched.Placement) []sched.Placement {
	for i := range v.Tasks {
		v.Tasks[i].CostID = 0
	}
	return p.Policy.Place(v, out)
}

// unalike are devices of which no two are alike, one in three in host memory.
func unalike(n int) *machine.Machine {
	m := &machine.Machine{Name: "unalike", HostBPS: 1e10}
	for i := range n {
		d := machine.Device{Name: fmt.Sprintf("cuda:%d", i), Backend: "cuda", Kind: machine.Discrete, MemBytes: 1 << 30}
		d.Rates.Ops[graph.FP32], d.Rates.MemoryBPS = 1e9*float64(1+i*7919%n), 1e8*float64(1+i*104729%n)
		if i%3 == 0 {
			d.Name, d.Backend, d.Kind, d.HostMemory, d.MemBytes = fmt.Sprintf("cpu:%d", i), "cpu", machine.CPU, true, 0
		} else {
			m.Links = append(m.Links, machine.Link{A: machine.Host, B: machine.DeviceID(i), BPS: 1e9 * float64(1+i%5)})
		}
		m.Devices = append(m.Devices, d)
	}
	return m
}

// An engine does the same things, one after another, whether the policy finds devices by what
// tasks are told to have in common or tries each, also when predictions change with what was
// measured.
func TestCommonCostsChangeNoDecision(t *testing.T) {
	const devices, tasks, wide = 150, 600, 40
	var b graph.Builder
	var before []graph.DataID
	for i := range tasks {
		d := b.Data(graph.Data{Bytes: int64(1+i%3) << 16})
		uses := []graph.Use{{Data: d, Access: graph.Write}}
		if i >= wide {
			uses = append(uses, graph.Use{Data: before[i-wide], Access: graph.Read}, graph.Use{Data: before[i-wide/2], Access: graph.Read})
		}
		before = append(before, d)
		b.Add(graph.Task{Steps: []graph.Step{{Kernel: abstract}}, Uses: uses, Work: graph.Work{Ops: float64(1+i%4) * 1e7, Bytes: float64(4-i%4) * 1e6}})
	}
	g := built(t, &b)
	told := func(blindly bool) (did []string) {
		m := unalike(devices)
		policy, err := sched.New("")
		if err != nil {
			t.Fatal(err)
		}
		e := engine.New(engine.Options{Machine: m, Cost: machine.NewHistory(machine.NewRoofline(m), m), Policy: func(p sched.Problem) sched.Policy {
			if blindly {
				return blind{policy(p)}
			}
			return blindless{policy(p)}
		}})
		x := &instant{Engine: e}
		for range 3 {
			x.Submit(x.now, g, engine.RunOptions{})
			for more := true; more; more = len(x.evs) > 0 {
				x.step(false)
				for i := range x.evs {
					x.evs[i].Start -= time.Duration(x.evs[i].Op.Lane) * time.Nanosecond
				}
				for i := range x.acts {
					a := &x.acts[i]
					did = append(did, fmt.Sprint(a.Kind, a.Op, a.Device, a.Task, a.Inst, a.Bytes))
				}
			}
		}
		x.want(t, 3)
		return did
	}
	if got, want := told(false), told(true); !slices.Equal(got, want) {
		t.Errorf("%d actions, %d by trial of each device, and they differ", len(got), len(want))
	}
}

// blindless keeps the abilities of a policy beside Place from an engine, as blind does.
type blindless struct{ sched.Policy }
