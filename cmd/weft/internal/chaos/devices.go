package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/arena"
	"github.com/weft-run/weft/internal/backend/all"
	"github.com/weft-run/weft/internal/backend/proc"
	"github.com/weft-run/weft/machine"
)

// The backends whose devices only a rig has in workers. Those of others are in workers in any program.
const (
	cores    = "cpu"
	scripted = "fake"
)

// picked is the content of a list of devices.
type picked struct {
	counts map[string]int    // of cores and scripted devices: how many
	gpus   []string          // the items that name others, as cuda:0/2
	sel    machine.Selection // what gpus select
	parts  int               // the most that one of them is divided into
}

// pick reads a list of devices.
func pick(devices string) (p picked, err error) {
	sel, err := machine.ParseSelection(devices)
	if err != nil {
		return p, fmt.Errorf("%w: %w", ErrDevices, err)
	}
	if len(sel.Backends()) == 0 {
		return p, fmt.Errorf("%w: none are named; write cpu/2, fake/2 or cuda", ErrDevices)
	}
	p.counts = make(map[string]int)
	for item := range strings.SplitSeq(devices, ",") {
		item = strings.TrimSpace(item)
		one, err := machine.ParseSelection(item)
		if err != nil {
			return p, fmt.Errorf("%w: %w", ErrDevices, err)
		}
		for _, name := range one.Backends() { // which is one
			switch {
			case name == cores || name == scripted:
				p.counts[name] = sel.Parts(&machine.Device{Name: name + ":0", Backend: name})
				if p.counts[name] == 0 {
					return p, fmt.Errorf("%w %q: write how many there are to be, as in %s/2", ErrDevices, devices, name)
				}
			case slices.Contains(all.Names(), name):
				p.gpus = append(p.gpus, item)
				whole, _, _ := strings.Cut(item, "/")
				p.parts = max(p.parts, one.Parts(&machine.Device{Name: whole, Backend: name}), 1)
			default:
				return p, fmt.Errorf("%w %q: no backend %q; there is %s, %s", ErrDevices, devices, name, strings.Join(all.Names(), ", "), scripted)
			}
		}
	}
	p.sel, err = machine.ParseSelection(strings.Join(p.gpus, ","))
	return p, err
}

// simulated returns how many devices of each backend there are, which of GPUs only those know that have them.
func (p *picked) simulated(devices string) (map[string]int, error) {
	if len(p.gpus) > 0 {
		return nil, fmt.Errorf("%w %q: only cpu and fake devices are simulated; write cpu/2 or fake/2", ErrDevices, devices)
	}
	return p.counts, nil
}

// drivers returns the drivers of the devices, each of which is in a worker, with memory to share.
func (p *picked) drivers(o *weft.Options, w Workers, memory *arena.Arena) (list []driver.Driver) {
	for _, name := range slices.Sorted(maps.Keys(p.counts)) {
		config, again := all.Cores{Parts: p.counts[name], Cores: p.counts[name]}.Config(), []byte(nil)
		if name == scripted {
			config = fmt.Appendf(nil, "devices %d\n%s", p.counts[name], w.Script)
			again = fmt.Appendf(nil, "devices %d\n%s", p.counts[name], w.Again)
		}
		list = append(list, proc.New(proc.Options{
			Workers: proc.Workers{Memory: memory, HangTimeout: o.HangTimeout, Standby: o.Standby, WorkerCommand: strings.Fields(o.WorkerCommand)},
			Driver:  name, Config: config, Again: again, MemBytes: w.MemBytes,
		}))
	}
	if len(p.gpus) > 0 {
		list = append(list, all.Drivers(all.Options{
			Workers: proc.Workers{Memory: memory, HangTimeout: o.HangTimeout, Standby: o.Standby, WorkerCommand: strings.Fields(o.WorkerCommand)},
			Select:  p.sel, MemBytes: w.MemBytes * int64(p.parts), Streams: o.Streams,
			Validation: o.Validation,
		})...)
	}
	return list
}

// names is the list of devices once the drivers have as many as it says.
func (p *picked) names() string {
	return strings.Join(slices.Concat(slices.Sorted(maps.Keys(p.counts)), p.gpus), ",")
}

// Open opens the devices that o.Devices names, each in a worker of its own: cpu/3 is three cores, fake/3
// three scripted devices, and GPUs are named as in any program: vulkan, cuda:0/2. GPUs alone, with the memory
// they have, are opened as any program opens them. Of others nothing is measured and nothing is kept.
func Open(ctx context.Context, o weft.Options, w Workers) (_ *Rig, err error) {
	p, err := pick(o.Devices)
	if err != nil {
		return nil, err
	}
	if o.Ladder == "" {
		o.Ladder = ladder
	}
	r := &Rig{}
	if o.Drivers = nil; len(p.counts) == 0 && w.MemBytes == 0 {
		if r.Runtime, err = weft.Open(ctx, o); err != nil {
			return nil, err
		}
		return r, nil
	}
	if r.memory, err = arena.Open(0); err != nil {
		return nil, err
	}
	o.Drivers, o.Devices, o.NoCalibrate, o.CacheDir = p.drivers(&o, w, r.memory), p.names(), true, "off"
	if r.Runtime, err = weft.Open(ctx, o); err != nil {
		return nil, errors.Join(err, r.memory.Close())
	}
	return r, nil
}
