package machine

import (
	"slices"

	"github.com/weft-run/weft/graph"
)

// TeamSize returns the number of lanes that work on kernels together, 0 for a device that
// runs every kernel on one lane.
func (d *Device) TeamSize() int {
	if !d.Team || d.Lanes < 2 {
		return 0
	}
	return d.Lanes
}

// Width returns the number of a device's lanes that a task takes while it runs: on a team, as
// many as its widest step has items, and at most all of them; elsewhere one.
func (d *Device) Width(t *graph.Task) int {
	team := d.TeamSize()
	if team == 0 {
		return 1
	}
	items := 1
	for i := range t.Steps {
		items = max(items, d.items(&t.Steps[i], team))
	}
	cores := max(d.ComputeUnits, team) // more than lanes where these are limited
	return min((min(items, cores)*team+cores-1)/cores, team)
}

// items returns the number of items of a step on the device, at least 1. Counting ends
// where there are enough for all cores.
func (d *Device) items(s *graph.Step, team int) int {
	if g := &s.Launch.Grid; s.Kernel == nil || g[0] <= 1 && g[1] <= 1 && g[2] <= 1 {
		return 1
	}
	l := s.Launch
	runs := d.runs()
	for i := range s.Kernel.Impls {
		if impl := &s.Kernel.Impls[i]; impl.Dialect == graph.Abstract || slices.Contains(runs, impl.Dialect) {
			l = impl.Shape(l)
			break
		}
	}
	enough, n := max(d.ComputeUnits, team), 1
	for _, g := range l.Grid {
		n *= min(max(int(g), 1), enough)
		n = min(n, enough)
	}
	return n
}

// Part returns the part of the device that a task takes while it runs, 1 where any task
// takes all of it: a device that is full of such tasks needs Part times as long for each as
// the task takes.
func (d *Device) Part(t *graph.Task) float64 {
	if team := d.TeamSize(); team > 0 {
		return float64(d.Width(t)) / float64(team)
	}
	return 1
}

// TeamSpeed returns the fraction of its speed at which a launch of some width runs on a
// team while running launches, itself included, take wide lanes together. Each has a core
// of its own, those left are divided among the launches that want more than one.
func TeamSpeed(team, width, running, wide int) float64 {
	free, wanted := team-running, wide-running
	if wanted <= free || width <= 1 {
		return 1
	}
	more := float64(float64(width-1) * float64(max(free, 0)) / float64(wanted))
	return (1 + more) / float64(width)
}
