package engine_test

import (
	"testing"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
)

// A device in a process of its own that runs an operation of a run that was given up is
// dropped; tasks of other runs there run again, and none is implicated.
func TestGiveUp(t *testing.T) {
	for _, here := range []bool{false, true} {
		o := engine.Options{Retries: -1}
		if !here {
			o.Processes = own(1, false)
		}
		r := newRig(t, gpus(1, 10*mb), o)
		r.hang["bad"] = true
		cancelled := r.submit(single(t, job("bad", 1)), engine.RunOptions{})
		r.step()
		other := r.submit(single(t, job("other", 1)), engine.RunOptions{})
		r.step(engine.Event{Kind: engine.GiveUp, Run: cancelled}) // it has not failed
		equal(t, "drops of a run that is wanted", len(r.drops), 0)
		r.step(engine.Event{Kind: engine.Cancel, Run: cancelled})
		held, err := r.e.Holding(cancelled)
		is(t, err, engine.ErrCancelled)
		equal(t, "operations held", len(held), 1)
		equal(t, "it has begun", held[0].Begun, true)
		r.step(engine.Event{Kind: engine.GiveUp, Run: cancelled})
		if here {
			equal(t, "drops of a device in the caller", len(r.drops), 0)
			continue
		}
		equalLists(t, "drops", r.drops, []string{"gpu:0"})
		is(t, r.finish(cancelled), engine.ErrCancelled)
		r.back(0, false)
		equal(t, "retries of the other", r.mustRun(other).Retries, 0)
	}
}

// What waits behind another run's task is no reason to give a device up.
func TestGiveUpSparesOthers(t *testing.T) {
	r := newRig(t, gpus(1, 10*mb), engine.Options{Processes: own(1, false)})
	r.hang["long"] = true
	long := r.submit(single(t, job("long", 1)), engine.RunOptions{})
	r.step()
	behind := r.submit(single(t, job("behind", 1)), engine.RunOptions{})
	r.step()
	r.step(engine.Event{Kind: engine.Cancel, Run: behind}, engine.Event{Kind: engine.GiveUp, Run: behind})
	equal(t, "drops", len(r.drops), 0)
	held, _ := r.e.Holding(behind)
	equal(t, "operations held", len(held), 1)
	equal(t, "it has begun", held[0].Begun, false)
	delete(r.hang, "long")
	r.mustRun(long)
	is(t, r.finish(behind), engine.ErrCancelled)
}

// A run whose memory a dropped worker may still write to does not end before the worker
// is gone.
func TestDroppedCopyHoldsRun(t *testing.T) {
	r := newRig(t, gpus(1, 10*mb), engine.Options{Processes: own(1, false), Retries: -1})
	id := r.submit(build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: mb, Output: true})
		b.Add(job("make", 1, writes(x)))
	}), engine.RunOptions{})
	copying := func() *op {
		for _, o := range r.ops {
			if o.a.Kind == engine.Copy && o.started {
				return o
			}
		}
		return nil
	}
	r.until("the result is on its way home", func() bool { return copying() != nil })
	r.held = copying()
	r.step(engine.Event{Kind: engine.Cancel, Run: id}, engine.Event{Kind: engine.GiveUp, Run: id})
	equalLists(t, "drops", r.drops, []string{"gpu:0"})
	if _, over := r.ended[id]; over {
		t.Error("the run ended before its device was quiet")
	}
	held, _ := r.e.Holding(id)
	equal(t, "operations held", len(held), 1)
	is(t, r.finish(id), engine.ErrCancelled) // the rig says that it is quiet now
}
