package pool

import (
	"context"
	"time"

	"github.com/weft-run/weft/task/internal/gate"
)

// unlock does what the gate asks for and releases the lock in between: states of tasks are
// changed, and watches begun and ended, under it, in the order they are asked for; tasks are
// queued and started, and groups cancelled, without it. w is the task
// that the caller runs, nil if that is none.
func (p *Pool) unlock(acts []gate.Action, w *Task) {
	urgent, idle := p.gate.Lined()
	p.urgent.Store(int32(urgent))
	p.idle.Store(int32(idle))
	for _, a := range acts {
		p.locked(a)
	}
	p.mu.Unlock()
	for _, a := range acts {
		switch a.Kind {
		case gate.Queue:
			p.push(a.Task.Owner.(*Task), w)
		case gate.Offer:
			p.wake()
		case gate.Start:
			go p.visit(a.Task.Owner.(*Task))
		case gate.Skip:
			t := a.Task.Owner.(*Task)
			t.settle(t.rules.firstError)
		}
	}
}

// locked does the part of an action that needs the lock.
func (p *Pool) locked(a gate.Action) {
	switch a.Kind {
	case gate.Watch:
		a.Scope.Owner.(*Scope).watch()
		return
	case gate.Unwatch:
		if s := a.Scope.Owner.(*Scope); s.group == nil || s.group.scope != s {
			s.stopWatch()
		}
		return
	}
	t := a.Task.Owner.(*Task)
	switch a.Kind {
	case gate.Queue:
		t.rules.after = nil
		t.state.Store(queued)
	case gate.Start:
		t.rules.after = nil
		t.state.Store(running)
	case gate.Continue:
		close(t.rules.back)
		t.rules.back = nil
	case gate.Pause:
		p.pause(t)
	case gate.Skip:
		t.skip(a.Cause)
		t.rules.after = nil
		if t.rules.retry != nil && t.rules.timer != nil {
			t.rules.timer.Stop()
		}
	}
}

// skip ends a task that is not run, under the lock: a successor that the gate skips because
// of it needs its error.
func (t *Task) skip(cause *gate.Task) {
	var err error
	if cause != nil {
		err = t.body.Blame(cause.Owner.(*Task))
	} else {
		err = context.Cause(t.scope.ctx)
	}
	t.rules.firstError = t.note(err)
	t.publish(err)
}

// maxPause bounds the pause between tries, which doubles with each.
const maxPause = time.Minute

// pause lets a task be tried again after its pause.
func (p *Pool) pause(t *Task) {
	d := t.rules.pause
	t.rules.pause = min(2*d, maxPause)
	t.rules.timer = time.AfterFunc(d, func() {
		p.mu.Lock()
		p.unlock(p.gate.Again(&t.rules.gate, nil), nil)
	})
}

// watch has the gate told when the context of the scope ends.
func (s *Scope) watch() {
	if s.done != nil && s.stop == nil {
		p := s.pool
		s.stop = context.AfterFunc(s.ctx, func() {
			p.mu.Lock()
			p.unlock(p.gate.Cancel(&s.gate, nil), nil)
		})
	}
}

func (s *Scope) stopWatch() {
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
}

// unwatch ends the watch of a scope that has no tasks any more.
func (s *Scope) unwatch() {
	s.pool.mu.Lock()
	s.stopWatch()
	s.pool.mu.Unlock()
}
