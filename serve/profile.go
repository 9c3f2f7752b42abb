package serve

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weft-run/weft/internal/text"
)

// profile is a set of settings that go together. A server keeps no state between requests,
// so nothing is synchronised between devices in any of them; jobs that carry a state choose
// by their parameter strategy.
type profile struct {
	batch   Batch
	runtime map[string]string
	devices int // that it is made for
	// wish are keys of the runtime that hold where the system permits them.
	wish []string
	goal string // what it is to achieve, for people
}

// profiles are those there are, by name.
var profiles = map[string]profile{
	"hft": {
		batch:   Batch{Size: 4, Wait: Duration(time.Microsecond), Deadline: Duration(2 * time.Millisecond), Depth: 1, Queue: 64},
		runtime: map[string]string{"max_devices": "4", "policy": "finish", "pin": "on", "realtime": "on", "health_interval": "1s"},
		devices: 4, wish: []string{"realtime"}, goal: "answers in less than 2 ms",
	},
	"analytics": {
		batch:   Batch{Size: 64, Wait: Duration(2 * time.Millisecond), Deadline: Duration(10 * time.Millisecond), Depth: 4, Queue: 4096},
		runtime: map[string]string{"max_devices": "8", "policy": "hierarchical", "rebalance_interval": "100ms"},
		devices: 8, goal: "answers in less than 10 ms at a high rate",
	},
}

// ProfileNames are the names of profiles.
func ProfileNames() []string { return slices.Sorted(maps.Keys(profiles)) }

// apply sets what a profile says; "" is none.
func (c *Config) apply(name string) error {
	if name == "" {
		return nil
	}
	p, ok := profiles[name]
	if !ok {
		return mistaken("profile", "%w", text.Unknown("profile", name, ProfileNames()))
	}
	c.Batch, c.Runtime = p.batch, maps.Clone(p.runtime)
	return nil
}

// wishes are the keys of the runtime that may be left out where the system does not permit
// them, because the profile set them and not the user.
func (c *Config) wishes() (out []string) {
	p := profiles[c.Profile]
	for _, k := range p.wish {
		if c.Runtime[k] == p.runtime[k] {
			out = append(out, k)
		}
	}
	return out
}

// Shortfall says in a line what a machine with some devices lacks for the profile, "" if it
// lacks nothing.
func (c *Config) Shortfall(devices int) string {
	p, ok := profiles[c.Profile]
	if !ok || devices >= p.devices {
		return ""
	}
	return fmt.Sprintf("profile %s is made for %d devices and this server has %d: it uses what there is; do not count on %s", c.Profile, p.devices, devices, p.goal)
}
