package engine_test

import (
	"testing"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
)

// The caller's memory does not count against the limit of host memory, whether the
// device that computes there is alone or beside others.
func TestHostLimitLeavesOutHomes(t *testing.T) {
	beside := gpus(1, 10*mb)
	beside.Devices = append(cpus(1).Devices, beside.Devices...)
	beside.Links[0].A = 1
	for name, m := range map[string]*machine.Machine{"a cpu": cpus(1), "a cpu beside a gpu": beside} {
		m.HostBytes = mb
		r := newRig(t, m, engine.Options{})
		kept := r.e.NewData("kept", 5*mb, graph.Versioned)
		g := build(t, func(b *graph.Builder) {
			in := b.Data(graph.Data{Name: "in", Bytes: 3 * mb, Input: true})
			res := b.Data(graph.Data{Name: "res", Bytes: 5 * mb, Input: true})
			out := b.Data(graph.Data{Name: "out", Bytes: 2 * mb, Output: true})
			k := job("t", 1, reads(in), reads(res), writes(b.Data(graph.Data{Name: "own", Bytes: mb})), writes(out))
			k.On.Only = []string{"cpu"}
			b.Add(k)
		})
		if err := r.finish(r.submit(g, engine.RunOptions{Bind: []engine.Binding{{Data: 1, Ref: kept}}})); err != nil {
			t.Errorf("%s: 1 MB of 1 MB beside the caller's memory: %v", name, err)
		}
		equal(t, name+": bytes used at the end", r.e.Status(0).MemUsed, 0)
	}
}
