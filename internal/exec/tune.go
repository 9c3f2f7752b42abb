package exec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weft-run/weft/experimental/driver"
)

// Devices that have several implementations or launch shapes of a kernel measure them. The
// decisions are kept with the calibration of the devices, under the same key, so that the
// kernels are measured again with another driver version or power limit.

// errTuning is wrapped by errors in a file of decisions.
var errTuning = errors.New("bad tuning file")

// tuningVersion is raised when saved decisions change their meaning.
const tuningVersion = 1

// tunings is the kind of file.
const tunings = "tuning"

// tuning has the decisions of devices, in the form of files.
type tuning struct {
	Version int                       `json:"version"`
	Key     string                    `json:"key"`
	Devices map[string][]driver.Tuned `json:"devices"` // by name
}

// Tuning returns what each device has decided, by device.
func (x *Executor) Tuning() [][]driver.Tuned {
	out := make([][]driver.Tuned, len(x.devs))
	for i, d := range x.devs {
		if t, ok := d.(driver.Tuner); ok {
			out[i] = t.Tuning()
		}
	}
	return out
}

// tune hands devices what they decided in an earlier run, or others that are alike: one
// that never ran a kernel need not try what its twin has.
func (x *Executor) tune() {
	b := x.cache.read(tunings)
	if b == nil {
		return
	}
	t, err := decodeTuning(b, x.cache.key)
	if err != nil {
		x.cache.bad(tunings, err)
		return
	}
	devices := x.Machine.Devices
	for i, d := range x.devs {
		tuner, ok := d.(driver.Tuner)
		if !ok {
			continue
		}
		known := make(driver.Decisions)
		for j := range devices {
			if devices[j].Identity() == devices[i].Identity() {
				known.Take(t.Devices[devices[j].Name]...)
			}
		}
		if known.Take(t.Devices[devices[i].Name]...); len(known) > 0 {
			tuner.Tune(known.List())
		}
	}
}

// keepTuning saves what devices decided, before they close. Of a device that is lost, or does not
// answer until late, what was known before stays. It returns the requests, of which those that were
// late are under way still.
func (x *Executor) keepTuning(devs []*dev, late <-chan time.Time) *sync.WaitGroup {
	asked := new(sync.WaitGroup)
	if x.cache == nil {
		return asked
	}
	before := x.cache.read(tunings)
	t, err := decodeTuning(before, x.cache.key)
	if err != nil {
		t = tuning{Version: tuningVersion, Key: x.cache.key, Devices: make(map[string][]driver.Tuned)}
	}
	tells := make([]chan []driver.Tuned, len(devs))
	for i, d := range devs {
		tells[i] = make(chan []driver.Tuned, 1)
		if tuner, ok := d.Device.(driver.Tuner); ok && !d.away.Load() {
			asked.Go(func() { tells[i] <- tuner.Tuning() })
		} else {
			tells[i] <- nil
		}
	}
	for i, tell := range tells {
		var now []driver.Tuned
		select {
		case now = <-tell: // also where it is late for others
		default:
			select {
			case now = <-tell:
			case <-late:
				late = time.After(0) // for those after it
			}
		}
		if len(now) > 0 {
			t.Devices[x.Machine.Devices[i].Name] = now
		}
	}
	if len(t.Devices) == 0 {
		return asked
	}
	b, err := json.MarshalIndent(t, "", " ")
	if err != nil {
		panic(err) // names and finite numbers
	}
	if b = append(b, '\n'); !bytes.Equal(b, before) {
		x.cache.write(tunings, b)
	}
	return asked
}

// decodeTuning reads a file of decisions made for a key.
func decodeTuning(src []byte, key string) (tuning, error) {
	var t tuning
	if err := json.Unmarshal(src, &t); err != nil {
		return t, fmt.Errorf("%w: %w", errTuning, err)
	}
	if t.Version != tuningVersion || t.Key != key || t.Devices == nil {
		return t, fmt.Errorf("%w: version %d, and this weft reads %d, or for other devices", errTuning, t.Version, tuningVersion)
	}
	return t, nil
}
