package weft

import (
	"cmp"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/text"
)

// allRungs is the ladder when none is set.
const allRungs = "standby, restart, reopen"

// parseLadder reads a list of rungs with their timeouts.
func parseLadder(list string) ([]engine.TimedRung, error) {
	out := []engine.TimedRung{}
	if list == off {
		return out, nil
	}
	for _, item := range listed(cmp.Or(list, allRungs)) {
		name, limit, timed := strings.Cut(item, ":")
		rung, err := engine.ParseRung(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		step := engine.TimedRung{Rung: rung}
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
	ladder, _ := parseLadder(o.Ladder)
	return engine.HealthRules{
		MaxFailures: o.MaxFailures, MaxLosses: o.MaxLosses, MaxTempC: o.MaxTemperature, MaxMemUsed: 1 - cmp.Or(o.MemoryMargin, 0.05),
		MaxPowerW: o.PowerBudget, MaxTotalW: o.TotalPower, MaxOthers: o.MaxUtilisation, Ladder: ladder,
	}
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
