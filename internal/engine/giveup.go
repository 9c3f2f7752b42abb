package engine

import (
	"fmt"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// Operations that a failed run has in flight, and giving up on them where a process can
// be killed.

// Held is an operation of a run that has not ended.
type Held struct {
	Device  machine.DeviceID // machine.Host for a copy within host memory
	Graph   *graph.Graph
	Task    graph.TaskID // graph.NoTask for a copy
	Begun   bool         // it runs; otherwise it waits for another operation
	Stopped bool         // the loop was told to end it: if it has not begun, it never will
	Lent    bool         // it may use the caller's memory
}

// Holding returns the operations that a run which has not ended has in flight, and the
// error it will end with if it has failed.
func (e *Engine) Holding(id RunID) (held []Held, err error) {
	s, ok := e.byID[id]
	if !ok {
		return nil, nil
	}
	r := e.runs[s]
	for l := range e.lanes {
		ln := &e.lanes[l]
		for seq := ln.done + 1; seq <= ln.issued; seq++ {
			rec := ln.rec(seq)
			h := Held{Device: ln.info.Device, Graph: r.g, Task: graph.NoTask, Begun: seq == ln.done+1 && e.begun(rec, ln.info.Device)}
			switch {
			case rec.task < 0 && (e.touches(r, rec.src) || e.touches(r, rec.dst)):
				h.Lent = true
			case rec.task >= 0 && e.tasks.at[rec.task].run == s:
				h.Task = graph.TaskID(rec.task - r.tbase)
				h.Lent = e.devs[h.Device].space == hostSpace
				h.Stopped = r.stopped && e.gang(rec.task) == nil
			default:
				continue
			}
			held = append(held, h)
		}
	}
	e.eachDetached(s, func(_ Op, dev machine.DeviceID, gt graph.TaskID) {
		held = append(held, Held{Device: dev, Graph: r.g, Task: gt, Begun: true, Lent: true})
	})
	for i := range e.devs {
		for _, g := range e.devs[i].inUse {
			if e.touches(r, g.inst) {
				held = append(held, Held{Device: machine.DeviceID(i), Graph: r.g, Task: graph.NoTask, Begun: true, Lent: true})
				break
			}
		}
	}
	return held, r.err(e)
}

// touches reports whether an instance is memory that the caller of a run lent it.
func (e *Engine) touches(r *run, i Inst) bool {
	in := &e.mem.insts[i]
	return in.lent && in.data >= 0 && e.mem.data.at[in.data].run == r.slot
}

// begun reports whether the oldest operation of a lane waits for nothing: its inputs are
// there, and the operations before it have ended.
func (e *Engine) begun(rec *opRec, dev machine.DeviceID) bool {
	if rec.task < 0 {
		in := &e.mem.insts[rec.src]
		for s := in.at(rec.p0); s < in.at(rec.p1); s++ {
			if !e.mem.filled(s) {
				return false
			}
		}
		return true
	}
	for _, w := range rec.waits {
		if e.mem.pending(w.Lane, e.lanes[w.Lane].count(w.Seq)) {
			return false
		}
	}
	r, gt := e.taskOf(rec.task)
	for _, p := range r.f.Preds(gt) {
		if e.tasks.at[r.task(graph.TaskID(p))].where != done {
			return false
		}
	}
	there := true
	e.eachRead(r, gt, func(v valueID) {
		for s := e.mem.vals.at[v].slot; s >= 0; s = e.mem.slots.at[s].next {
			if e.mem.insts[e.mem.slots.at[s].inst].space == e.devs[dev].space && !e.mem.filled(s) {
				there = false
			}
		}
	})
	return there
}

// giveUp drops the devices in processes of their own that run an operation of a failed
// run. Tasks of other runs on them are placed anew, and no task is implicated.
func (e *Engine) giveUp(id RunID) {
	s, ok := e.byID[id]
	if !ok || e.runs[s].state != runFailing {
		return
	}
	held, _ := e.Holding(id)
	for _, h := range held {
		if h.Device < 0 || !h.Begun || !e.devs[h.Device].process.Own || !e.working(&e.devs[h.Device]) {
			continue
		}
		what := "a copy"
		if h.Task != graph.NoTask {
			what = fmt.Sprintf("task %q", h.Graph.TaskName(h.Task))
		}
		e.abandonDevice(h.Device, fmt.Errorf("%s of a run that was given up did not end", what))
	}
}
