package engine

import (
	"fmt"
	"strings"
)

// A list of everything the engine keeps, for tests of leaks.

// Left names what the engine keeps, "" for nothing: so it is once all runs have ended,
// all resident data was given back and nothing is in flight. Idle buffers do not count.
func (e *Engine) Left() string {
	runs, resident, spaces, inUse := 0, 0, int64(0), 0
	for _, r := range e.runs {
		if r != nil {
			runs++
		}
	}
	for i := range e.resident {
		if e.resident[i].live {
			resident++
		}
	}
	waiters := 0
	for i := range e.mem.spaces {
		spaces += e.mem.spaces[i].used
		for _, w := range e.mem.spaces[i].line {
			// A device that was let on by one memory keeps its entry on the list of the
			// other for the next time: one at most, however often it waits.
			if w.dev < 0 || e.devs[w.dev].blocked {
				waiters++
			}
		}
	}
	for i := range e.devs {
		inUse += len(e.devs[i].inUse)
	}
	insts := len(e.mem.insts) - len(e.mem.freeInsts)
	for _, list := range e.mem.idle.insts {
		insts -= len(list)
	}
	slots := e.mem.slots.live
	for _, list := range e.mem.idle.insts {
		slots -= len(list) // each is of one piece
	}
	var left []string
	for _, k := range []struct {
		what string
		n    int
	}{
		{"runs", runs}, {"run numbers", len(e.byID)}, {"graphs", len(e.latest)}, {"resident data", resident},
		{"runs in line", len(e.toAdmit) + len(e.recuts)}, {"data asked for", len(e.served)},
		{"tasks", e.tasks.live}, {"tasks queued", e.queuedTasks}, {"tasks ready", e.ready.len() + len(e.leftOuts)},
		{"tasks delayed", len(e.delayed)}, {"tasks that await readers", len(e.behindReaders)},
		{"gangs", len(e.gangs) + e.gangLine.len()}, {"tasks in flight", e.inFlight}, {"operations in flight", e.flying},
		{"values", e.mem.vals.live}, {"data", e.mem.data.live}, {"lists of instances", e.mem.heads.live},
		{"instances", insts}, {"pieces of instances", slots}, {"bytes", int(spaces)}, {"instances that end later", len(e.mem.deferred)},
		{"instances of dropped devices", inUse}, {"those that wait for room", waiters}, {"copies to make again", len(e.homeward)},
		{"failed copies", len(e.taskCopies) + len(e.valueCopies)}, {"tasks tried before", len(e.attempts)},
	} {
		if k.n != 0 {
			left = append(left, fmt.Sprintf("%d %s", k.n, k.what))
		}
	}
	return strings.Join(left, ", ")
}
