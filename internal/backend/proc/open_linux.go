package proc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/weft-run/weft/experimental/driver"
)

// A worker that is silent for defaultHang is killed, and so is a child that has not
// answered a request after defaultAnswer. A device opens in a second, and in several on
// a crowded machine.
// maxHost is the memory of a device that uses the host's and names no limit.
const (
	defaultHang   = 10 * time.Second
	defaultAnswer = 15 * time.Second
	defaultEnd    = 2 * time.Second
	maxHost       = 1 << 30
)

// opened is a driver that was opened: what its devices have in common.
type opened struct {
	o      Options
	log    *slog.Logger
	keeper *keeper
	all    []*device // that were found
	guard  *guard    // nil without one
	mu     sync.Mutex
	users  int // devices that are not closed
}

// origin is a device as the keeper found it, which several workers may serve.
type origin struct {
	index  int
	found  found
	keeper *keeper
}

// Open starts the keeper, and a worker for every device it finds.
func (d *procDriver) Open(ctx context.Context, log *slog.Logger) ([]driver.Device, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if d.o.Memory == nil {
		return nil, fmt.Errorf("proc: open %s: no memory to share was given", d.o.Driver)
	}
	v := &opened{o: d.o, log: log}
	if v.o.HangTimeout <= 0 {
		v.o.HangTimeout = defaultHang
	}
	if v.o.Answer <= 0 {
		v.o.Answer = max(defaultAnswer, 2*v.o.HangTimeout)
	}
	if v.o.End <= 0 {
		v.o.End = defaultEnd
	}
	v.keeper = &keeper{o: &v.o, log: log}
	var all []found
	err := retry(ctx, log, func() (err error) {
		all, err = v.keeper.devices(ctx)
		return err
	})
	if err != nil {
		v.keeper.renew()
		if own := (*remoteError)(nil); errors.As(err, &own) && errors.Is(own, driver.ErrUnavailable) {
			return nil, own // the same error as without a process between
		}
		return nil, fmt.Errorf("proc: open %s: %w", d.o.Driver, err)
	}
	var devs []*device
	for i, f := range all {
		n := 1
		if v.o.Parts != nil {
			n = v.o.Parts(f.Info)
		}
		g := &origin{index: i, found: f, keeper: v.keeper}
		for part := range n {
			devs = append(devs, newDevice(v, g, f, part, n))
		}
	}
	v.all = devs
	// Devices open side by side: each takes most of a second.
	v.users = len(devs)
	errs := make([]error, len(devs))
	var wg sync.WaitGroup
	for i, dev := range devs {
		wg.Go(func() {
			errs[i] = retry(ctx, dev.log, func() (err error) {
				dev.w, err = dev.start(ctx)
				return err
			})
		})
	}
	wg.Wait()
	var out []driver.Device
	for i, dev := range devs {
		if errs[i] != nil {
			errs[i] = fmt.Errorf("%s: %w", dev.info.Name, errs[i])
			log.Warn("device left out", "device", dev.info.Name, "err", errs[i])
			v.release()
			continue
		}
		out = append(out, dev)
	}
	if len(devs) == 0 {
		v.keeper.renew()
		var names []string
		for _, f := range all {
			names = append(names, f.Info.Name)
		}
		return nil, fmt.Errorf("%s: %w: none of these is selected: %s", d.o.Driver, driver.ErrUnavailable, strings.Join(names, ", "))
	}
	if len(out) > 0 {
		v.guard = watchMemory(&v.o, devs, log)
	}
	return out, errors.Join(errs...)
}

// release ends the keeper after the last device.
func (v *opened) release() {
	v.mu.Lock()
	v.users--
	last := v.users == 0
	v.mu.Unlock()
	if last {
		if v.guard != nil {
			v.guard.end()
		}
		v.keeper.renew()
	}
}
