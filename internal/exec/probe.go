package exec

import (
	"errors"
	"fmt"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/probe"
)

// probeTimeout is the time limit of a probe, whatever the limit of tasks; a device that exceeds
// it is taken for lost. It is a million times the usual time of a probe.
const probeTimeout = 30 * time.Second

// probe runs a small graph with a known answer on a device and tells the engine how that ended.
// Its input is another each time, so that an answer left in memory from before is found out. A
// device that has no kernel for it passes.
func (l *loop) probe(d *dev) {
	if l.closing {
		return
	}
	ended := func(l *loop, err error) {
		l.evs = append(l.evs, engine.Event{Kind: engine.Probed, Device: d.id, Err: err})
	}
	if d.check == nil && !d.mute {
		info := &l.x.Machine.Devices[d.id]
		g, err := probe.Graph(info.Name, d.Traits().Probes)
		if d.check, d.mute = g, err != nil || !info.CanRun(g.Task(0).Steps[0].Kernel); d.mute {
			l.log.Debug("a device is not probed: it has no kernel for that", "device", info.Name, "err", err)
		}
	}
	if d.mute {
		ended(l, nil)
		return
	}
	in, out := l.pool.get(probe.Bytes), l.pool.get(probe.Bytes)
	l.seed++
	probe.Fill(in, l.seed)
	clear(out)
	j := &Job{Graph: d.check, probe: true, Memory: func(id graph.DataID) []byte {
		if id == probe.In {
			return in
		}
		return out
	}}
	j.Done = func(_ *engine.Report, err error) {
		l.probing--
		switch {
		case errors.Is(err, ErrHeld):
			ended(l, err)
			return // what it was given is in use
		case err == nil:
			if bad := probe.Check(in, out); bad != nil {
				err = fmt.Errorf("%w: %w", engine.ErrWrongAnswer, bad)
			}
			d.passed = d.passed || err == nil
		case errors.Is(err, engine.ErrOutOfMemory) || errors.Is(err, driver.ErrOutOfMemory):
			err = nil // it has no room, and answers
		case errors.Is(err, driver.ErrKernel) && !d.passed:
			l.log.Debug("a device is not probed: it cannot run the kernel for that", "device", d.Info().Name, "err", err)
			d.mute, err = true, nil
		}
		l.pool.put(in)
		l.pool.put(out)
		ended(l, err)
	}
	l.probing++
	j.id = l.engine.Submit(l.now(), d.check, engine.RunOptions{Probe: true, Retries: -1, Timeout: probeTimeout})
	l.runs[j.id] = j
}
