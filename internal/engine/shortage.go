package engine

import (
	"fmt"
	"slices"

	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/machine"
)

// Waiting for memory. A device whose next task finds no room is on the wait list of each
// memory that could give it some: its own, and host memory, into which values are
// spilled. A value that is to be copied into host memory waits there too. Code that makes
// room in a memory wakes its list (roomIn). When nothing is in flight and something still
// waits, relieve increases the effort step by step; only if no step helps does a run
// fail.

// effort says how far the engine goes to find room. Each step includes those before it.
type effort uint8

const (
	usual     effort = iota // evict and spill
	tryBehind               // try the tasks behind the first of a queue as well
	compact                 // give up buffers that a task uses in part, unused parts of buffers, and second copies in host memory
	failRun                 // fail the run of the next task that finds no room
)

// shortage is the state of a lack of memory.
type shortage struct {
	effort   effort
	refused  int64     // bytes of the last copy into host memory that found no room, 0 for none
	homeward []valueID // values to bring home or commit again in this step
}

// waitsOn is the set of wait lists that a device is on.
type waitsOn uint8

const (
	onOwn  waitsOn = 1 << iota // that of its own memory
	onHost                     // that of host memory
)

// block has a device wait until there is room in a memory its next task needs.
func (e *Engine) block(dev machine.DeviceID) {
	d := &e.devs[dev]
	d.blocked = true
	if d.space != 0 && d.waits&onOwn == 0 {
		d.waits |= onOwn
		e.mem.await(d.space, waiter{dev: dev})
	}
	if e.mem.spaces[0].cap > 0 && d.waits&onHost == 0 {
		d.waits |= onHost
		e.mem.await(hostSpace, waiter{dev: dev})
	}
}

// roomIn lets the devices and values on the wait list of a memory try again.
func (e *Engine) roomIn(space spaceID) {
	bit := onOwn
	if space == hostSpace {
		bit = onHost
	}
	for _, w := range e.mem.takeLine(space) {
		switch {
		case w.dev >= 0:
			e.devs[w.dev].waits &^= bit
			e.unblock(w.dev)
		case e.runOf(w.run) != nil:
			e.mem.vals.at[w.val].on(getsRoom)
			e.homeward = append(e.homeward, w.val)
		}
	}
}

// unblock has issueAll look again at a device that waited for memory.
func (e *Engine) unblock(dev machine.DeviceID) {
	if d := &e.devs[dev]; d.blocked {
		d.blocked = false
		e.revisit(dev)
	}
}

// wakeHolders wakes the wait lists of the memories that hold a value, after another copy
// of it was completed: theirs can be evicted.
func (e *Engine) wakeHolders(v valueID) {
	for s := e.mem.vals.at[v].slot; s >= 0; s = e.mem.slots.at[s].next {
		e.roomIn(e.mem.insts[e.mem.slots.at[s].inst].space)
	}
}

// lacksHost takes in that a value could not be copied into host memory for lack of room.
func (e *Engine) lacksHost(v valueID) {
	val := &e.mem.vals.at[v]
	e.refused = val.bytes
	if e.effort >= compact && e.flying == 0 && len(e.detached) == 0 {
		e.squeeze(0)
	}
	if val.run < 0 || val.has(awaitsRoom) {
		return // serve asks for the data of callers again in every step
	}
	if r := e.runs[val.run]; e.lastResort() && r.state == runActive && val.owed() {
		e.effort = usual
		e.fail(r, fmt.Errorf("%s: %w", e.describe(v), e.outOfMemory(0, val.bytes)))
		return
	}
	val.on(lacksRoom)
	e.mem.await(hostSpace, waiter{dev: -1, val: v, run: ticket{e.runs[val.run].id, val.run}})
}

// owes reports whether an output waits for room in host memory.
func (e *Engine) owes() bool {
	return slices.ContainsFunc(e.mem.spaces[hostSpace].line, func(w waiter) bool {
		if w.dev >= 0 {
			return false
		}
		r := e.runOf(w.run)
		return r != nil && r.state == runActive && e.mem.vals.at[w.val].owed()
	})
}

// relieve is called when nothing is in flight and nothing was issued, so that no
// operation will make room. It lets everything that waits for memory try again with more
// effort, and reports whether the step goes on. A launch that a patient device is at work on
// is waited for first.
func (e *Engine) relieve() bool {
	waits := e.gangWaits || e.refused > 0 && len(e.served)+len(e.recuts) > 0 || e.owes()
	for i := range e.devs {
		d := &e.devs[i]
		if d.state == Lost && d.health.deadline > 0 || d.state == Suspect && d.process.Own && !d.blocked || d.shortfall.until > 0 {
			return false // it may come back, or get its capacity back
		}
		waits = waits || d.blocked
	}
	if e.giveUpProbes() {
		return true
	}
	if !waits || len(e.delayed) > 0 || e.effort == failRun || e.patientWorks() {
		e.effort = usual
		return false
	}
	e.effort++
	e.refused = 0
	if e.effort == compact && len(e.detached) == 0 {
		e.endDoubles()
		e.vacateForHomes()
	}
	for s := range e.mem.spaces {
		e.roomIn(spaceID(s))
	}
	for i := range e.devs {
		e.unblock(machine.DeviceID(i))
	}
	if e.gangWaits {
		e.gangWaits, e.offerAgain = false, true
	}
	if len(e.mem.deferred) > 0 {
		e.mem.freeDeferred()
	}
	return true
}

// giveUpProbes fails the probes that find no room while a launch on a patient device is at work, and
// reports whether there were any. The launch may wait for the devices that they are of.
func (e *Engine) giveUpProbes() (found bool) {
	for i := range e.devs {
		d := &e.devs[i]
		if !d.blocked || d.queue.len() == 0 {
			continue
		}
		r, gt := e.taskOf(d.queue.next().task)
		if !r.o.Probe || r.state != runActive || !e.patientWorks() {
			continue
		}
		e.fail(r, e.taskErr(r, gt, machine.DeviceID(i), e.outOfMemory(d.space, e.largest(r, gt))))
		e.unblock(machine.DeviceID(i))
		found = true
	}
	return found
}

// lastResort reports whether a run without room is to fail.
func (e *Engine) lastResort() bool { return e.effort == failRun && e.flying == 0 }

// outOfMemory returns the error that bytes are needed in a memory, with its capacity and
// free bytes.
func (e *Engine) outOfMemory(space spaceID, bytes int64) error {
	sp := &e.mem.spaces[space]
	of := "host memory"
	if space != 0 {
		of = "the memory of " + e.m.Devices[sp.dev].Name
	}
	return fmt.Errorf("%w: %s more are needed in %s, of whose %s %s are free", e.fullOf(space),
		text.FormatSize(bytes), of, text.FormatSize(sp.cap), text.FormatSize(max(sp.cap-sp.used, 0)))
}
