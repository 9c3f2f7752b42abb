package machine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weft-run/weft/graph"
)

// defaultDialects lists by backend what a device of a machine file runs that has no "dialects". A
// backend that is not here has them in its machine files.
var defaultDialects = map[string][]graph.Dialect{
	"cpu":    {graph.Go},
	"cuda":   {graph.PTX, graph.CUDAC, graph.Library},
	"vulkan": {graph.SPIRV, graph.GLSL},
	"fake":   {graph.Go, graph.PTX, graph.CUDAC, graph.SPIRV, graph.GLSL, graph.Library},
}

// CanRun reports whether a kernel has an implementation for the device; library
// routines are none for one that must be exact. An abstract kernel, which only
// simulations have, runs on any device that is not Apart.
func (d *Device) CanRun(k *graph.Kernel) bool {
	runs := d.runs()
	for i := range k.Impls {
		if dialect := k.Impls[i].Dialect; dialect == graph.Abstract && !d.Apart || slices.Contains(runs, dialect) {
			return true
		}
	}
	return false
}

// Runs reports whether the device runs implementations in a dialect; see CanRun.
func (d *Device) Runs(dialect graph.Dialect) bool { return slices.Contains(d.runs(), dialect) }

// RoundAlike reports whether two devices give the same bytes for the same kernel that is no library
// routine, apart from what Arch changes.
func RoundAlike(a, b *Device) bool { return a.Backend == b.Backend && a.Rounding == b.Rounding }

// runs returns the dialects whose implementations the device runs.
func (d *Device) runs() []graph.Dialect {
	runs := d.Dialects
	if runs == nil {
		runs = defaultDialects[d.Backend]
	}
	if at := slices.Index(runs, graph.Library); d.Exact && at >= 0 {
		runs = slices.Delete(slices.Clone(runs), at, at+1)
	}
	return runs
}

// Unable says why no device of the machine can run a kernel: what its code is written in,
// and what each backend runs. It is "" if a device can.
func (m *Machine) Unable(k *graph.Kernel) string {
	var runs []string
	for i := range m.Devices {
		d := &m.Devices[i]
		if d.CanRun(k) {
			return ""
		}
		var can []string
		for _, dialect := range d.runs() {
			can = append(can, string(dialect))
		}
		if say := fmt.Sprintf("%s devices run %s", d.Backend, strings.Join(can, ", ")); len(can) > 0 && !slices.Contains(runs, say) {
			runs = append(runs, say)
		}
	}
	var has []string
	for i := range k.Impls {
		if d := string(k.Impls[i].Dialect); !slices.Contains(has, d) {
			has = append(has, d)
		}
	}
	why := fmt.Sprintf("kernel %q has code in %s", k.Name, strings.Join(has, ", "))
	if len(runs) == 0 {
		return why + ", which no device here runs"
	}
	return why + "; " + strings.Join(runs, ", ")
}
