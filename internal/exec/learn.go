package exec

import (
	"cmp"
	"context"

	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
)

// learn fills in the rates of the devices, from the cache or by measuring them,
// before the engine takes over.
func (x *Executor) learn(ctx context.Context, l *loop, c *Config) {
	x.cache = newCache(c.CacheDir, x.Machine, c.Log)
	if c.Calibrate {
		if !x.cache.recall(x.Machine, calibrations) {
			c.Engine.Begun = make([]uint32, len(l.lanes))
			steady := calibrate(ctx, x.Machine, l.devs, l.host, l.board, c.Engine.Begun, cmp.Or(c.HangAfter, probeHang), c.Log)
			if x.cache != nil {
				kind := estimates
				if steady {
					kind = calibrations
				}
				x.cache.write(kind, encodeCalibration(x.Machine, x.cache.key))
			}
			for _, d := range l.devs {
				if d.lost {
					l.discard(d, errGivenUp)
					l.evs = append(l.evs, engine.Event{Kind: engine.DeviceLost, Device: d.id})
				}
			}
		}
	}
	x.cost = machine.NewHistory(machine.NewRoofline(x.Machine), x.Machine)
	if b := x.cache.read(histories); b != nil {
		if err := x.cost.Load(b); err != nil {
			x.cache.bad(histories, err)
		}
	}
	x.loaded = x.cost.Observed()
	x.tune()
	c.Engine.Machine, c.Engine.Cost = x.Machine, x.cost
}

// remember keeps what was learned for the next time. What no longer holds is
// measured again then.
func (x *Executor) remember() {
	if x.cost.Observed() > x.loaded {
		x.cache.write(histories, x.cost.Save())
	}
	if x.cost.Changed() {
		x.cache.remove(calibrations)
	}
}
