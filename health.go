package weft

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/text"
)

// allRungs is the ladder when none is set.
const allRungs = "standby, restart, reopen"

// Rung is a step of the recovery ladder that a program brings, by a name in Options.Rungs: a
// reset of the machine's own, or word to somebody who can help. It is called with the name of a
// lost device, on a goroutine of its own, and ctx ends when its time is over. After nil the
// device is opened anew and probed; after an error the next rung is tried.
type Rung func(ctx context.Context, device string) error

// parseLadder reads a list of rungs with their timeouts; own are those of the program.
func parseLadder(list string, own map[string]Rung) ([]engine.TimedRung, error) {
	out := []engine.TimedRung{}
	if list == off {
		return out, nil
	}
	for _, item := range listed(cmp.Or(list, allRungs)) {
		name, limit, timed := strings.Cut(item, ":")
		step, err := engine.ParseRung(strings.TrimSpace(name), slices.Sorted(maps.Keys(own))...)
		if err != nil {
			return nil, err
		}
		rung := step.String()
		if n := len(out); n > 0 && out[n-1].Rung == engine.GiveUpDevice {
			return nil, fmt.Errorf("%s follows %s, after which nothing is tried", rung, out[n-1].Rung)
		}
		if timed {
			if step.Timeout, err = text.ParseDuration(strings.TrimSpace(limit)); err != nil {
				return nil, fmt.Errorf("%s: %w", rung, err)
			}
			if step.Timeout < time.Millisecond || step.Timeout > time.Hour {
				return nil, fmt.Errorf("%s: %v is no time for a rung; write one from 1ms to 1h", rung, step.Timeout)
			}
		}
		out = append(out, step)
	}
	const most = 16
	if len(out) > most {
		return nil, fmt.Errorf("%d rungs; %d are enough", len(out), most)
	}
	return out, nil
}

// health returns the thresholds of the health rules. The options are valid.
func (o *Options) health() engine.HealthRules {
	ladder, _ := parseLadder(o.Ladder, o.Rungs)
	return engine.HealthRules{
		MaxFailures: o.MaxFailures, MaxLosses: o.MaxLosses, MaxTemperature: o.MaxTemperature, MaxMemUsed: 1 - cmp.Or(o.MemoryMargin, 0.05),
		PowerBudget: o.PowerBudget, TotalPower: o.TotalPower, MaxUtilisation: o.MaxUtilisation, Ladder: ladder,
		Probe: o.ProbeInterval >= 0, ProbeEvery: max(o.ProbeInterval, 0),
	}
}

// ownRungs are the rungs of the program as the executor takes them.
func (o *Options) ownRungs() map[string]func(context.Context, string) error {
	out := make(map[string]func(context.Context, string) error)
	for name, rung := range o.Rungs {
		out[name] = rung
	}
	return out
}

// checkRungs errs for rungs that cannot be called, or whose names a ladder cannot have.
func (o *Options) checkRungs() (errs []error) {
	for _, name := range slices.Sorted(maps.Keys(o.Rungs)) {
		_, taken := engine.ParseRung(name)
		switch {
		case o.Rungs[name] == nil:
			errs = append(errs, fmt.Errorf("%w: Rungs: %q is nil", ErrOptions, name))
		case taken == nil || name == "" || name == off || strings.ContainsAny(name, ",: "):
			errs = append(errs, fmt.Errorf("%w: Rungs: %q cannot be the name of a rung; take a word that is none of the ladder's", ErrOptions, name))
		}
	}
	return errs
}

// realtime returns what the loop's thread does first, nil for nothing. It errs where the
// machine does not permit what is asked for.
func (o *Options) realtime() (func(), error) {
	if !o.Realtime {
		return nil, nil
	}
	tried := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		tried <- cpu.Realtime()
	}()
	if err := <-tried; err != nil {
		return nil, fmt.Errorf("%w: realtime: this program may not have its threads go before others (%w); give it CAP_SYS_NICE or an RLIMIT_RTPRIO of 1", ErrOptions, err)
	}
	return func() { _ = cpu.Realtime() }, nil
}
