package verify

import (
	"slices"

	"github.com/weft-run/weft/machine"
)

// Case is one task that is checked: its executions so far. The zero Case has none. Next
// decides how it goes on.
type Case struct {
	ran    []execution
	failed []machine.DeviceID
}

// execution is one of the executions: where it was, and with which of those before it agrees.
type execution struct {
	device machine.DeviceID
	agrees []bool
}

// Do is the kind of the next step of a case.
type Do uint8

const (
	Execute   Do = iota // the task, on one of Only; if that is empty, wherever a task may run that is not checked
	Reference           // its Go functions in this process: it counts as a device
	Settle              // Right has the result, and all of Wrong have wrong ones
	Await               // another device can execute it once it is back
	Pass                // no other device can execute it: Right has the only result
	GiveUp              // no two agree, and nothing is left that could decide
)

// Next is the next step of a case.
type Next struct {
	Do    Do
	Only  []machine.DeviceID
	Right int   // of the executions, by number
	Wrong []int // likewise
}

// World is the state of the devices that the decisions of a case depend on.
type World struct {
	// Able are the devices that take work and can execute the task. Coming are devices that
	// can execute it but are being brought back or are suspect, which ends in some time.
	Able, Coming []machine.DeviceID
	// Comparable and Alike are the functions of these names for two devices. Reference says
	// that Go functions of this process can execute the task, which compares as a device
	// machine.Host does.
	Comparable, Alike func(a, b machine.DeviceID) bool
	Reference         bool
}

// Next decides the next step of a case. Two equal results from different devices are taken to
// be right. The first execution goes, waits and fails as the task would if it were not
// checked. The second one is on a device of the same kind where there is one. When no two
// results agree, another device decides, or this process when there is none. Before a result
// is used that no other agrees with, Next waits for devices that are coming back, since the
// device that computed it may be the wrong one. A device on which an execution failed after
// the first does not decide.
func (c *Case) Next(w World) Next {
	if len(c.ran) == 0 {
		return Next{Do: Execute}
	}
	if right, ok := c.agreed(); ok {
		return Next{Do: Settle, Right: right, Wrong: c.wrong(right)}
	}
	not := func(d machine.DeviceID) bool { return !c.compares(w, d) }
	others := slices.DeleteFunc(slices.Clone(w.Able), not)
	coming := slices.ContainsFunc(w.Coming, func(d machine.DeviceID) bool { return c.compares(w, d) })
	alike := slices.DeleteFunc(slices.Clone(others), func(d machine.DeviceID) bool { return !w.Alike(c.ran[0].device, d) })
	switch {
	case len(alike) > 0:
		return Next{Do: Execute, Only: alike}
	case len(others) > 0:
		return Next{Do: Execute, Only: others}
	case len(c.ran) > 1 && w.Reference && c.compares(w, machine.Host):
		return Next{Do: Reference}
	case coming:
		return Next{Do: Await}
	case len(c.ran) == 1:
		return Next{Do: Pass}
	}
	return Next{Do: GiveUp}
}

// compares reports whether a device that has not tried to execute the task could be compared
// with one that has executed it.
func (c *Case) compares(w World, d machine.DeviceID) bool {
	if slices.Contains(c.failed, d) {
		return false
	}
	with := false
	for i := range c.ran {
		if c.ran[i].device == d {
			return false
		}
		with = with || w.Comparable(c.ran[i].device, d)
	}
	return with
}

// Ran records execution n. agrees[i] says whether its results are comparable with those of execution i < n
// and equal.
func (c *Case) Ran(on machine.DeviceID, agrees []bool) {
	c.ran = append(c.ran, execution{on, agrees})
}

// Failed takes in that an execution after the first failed, on some devices: the task has a
// result, and these have nothing to say about it.
func (c *Case) Failed(on ...machine.DeviceID) { c.failed = append(c.failed, on...) }

// agreed returns the first execution that another agrees with.
func (c *Case) agreed() (int, bool) {
	for i := range c.ran {
		for _, e := range c.ran[i+1:] {
			if e.agrees[i] {
				return i, true
			}
		}
	}
	return 0, false
}

// wrong returns the executions that agree neither with the one that is right nor with one that
// agrees with it.
func (c *Case) wrong(right int) (out []int) {
	agree := func(i, j int) bool { return i == j || c.ran[max(i, j)].agrees[min(i, j)] }
	for k := range c.ran {
		if !slices.ContainsFunc(c.indices(), func(i int) bool { return agree(right, i) && agree(i, k) }) {
			out = append(out, k)
		}
	}
	return out
}

func (c *Case) indices() []int {
	out := make([]int, len(c.ran))
	for i := range out {
		out[i] = i
	}
	return out
}
