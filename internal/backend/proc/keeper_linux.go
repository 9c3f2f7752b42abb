package proc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/machine"
)

// keeper is the parent's view of the process that finds the devices of a driver
// and makes their memory. It launches nothing, so faults of kernels do not reach
// it. One that ends is started again when next needed; what it made lives on where
// it is mapped.
type keeper struct {
	o   *Options
	log *slog.Logger

	slabs atomic.Int32 // numbers given to slabs

	mu      sync.Mutex
	c       *child
	born    time.Time // when it was started
	pause   backoff
	not     time.Time // when the next may be started
	failure error     // of the last that was
	found   []found
}

// number returns a number for a slab. It is unique within a driver, since workers may
// map slabs of several devices.
func (k *keeper) number() int32 { return k.slabs.Add(1) }

// ensure returns a keeper that lives; the lock is held. One that ended as soon as it was
// started is replaced only after a pause, until which ensure returns its error.
func (k *keeper) ensure(ctx context.Context) (*child, error) {
	if k.c != nil && k.c.alive() {
		return k.c, nil
	}
	now := time.Now()
	if k.c != nil {
		k.not = now.Add(k.pause.next(now.Sub(k.born)))
		k.failure = k.c.why()
		k.log.Warn("a keeper ended; another is started when it is needed", "err", k.failure)
		k.c = nil
	}
	if now.Before(k.not) {
		return nil, k.failure
	}
	k.born = now
	c, err := spawn(k.o, asKeeper, -1, k.log)
	if err == nil {
		var m *message
		if m, err = c.call(ctx, &message{Kind: askOpen, Driver: k.o.Driver, Config: k.o.Config, Device: -1, Confine: k.o.Confine}, -1); err == nil {
			k.c, k.found = c, m.Found
			return c, nil
		}
		c.finish()
		if remote := (*remoteError)(nil); len(k.o.WorkerCommand) > 0 && ctx.Err() == nil && !errors.As(err, &remote) {
			err = fmt.Errorf("%w; if %s is no worker, its main must begin with weft.Worker", err, k.o.WorkerCommand[0])
		}
	}
	k.not, k.failure = time.Now().Add(k.pause.next(0)), err
	return nil, err
}

// devices starts the keeper and returns what it found.
func (k *keeper) devices(ctx context.Context) ([]found, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, err := k.ensure(ctx); err != nil {
		return nil, err
	}
	return k.found, nil
}

// maxRound is by how much a slab may be larger than asked for: devices round up to
// pages of at most 2 MiB, some to larger ones.
const maxRound = 1 << 30

// slab takes memory of a device. The descriptor is the caller's.
func (k *keeper) slab(ctx context.Context, device int, n int32, bytes int64) (fd int, size int64, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var c *child
	var m *message
	for range 2 { // one that has just ended is replaced
		if c, err = k.ensure(ctx); err != nil {
			return -1, 0, err
		}
		m, fd, err = c.callFD(ctx, &message{Kind: askMake, Device: device, Slab: n, Bytes: bytes}, -1)
		if own := (*remoteError)(nil); err == nil || errors.As(err, &own) {
			break
		}
	}
	if err != nil {
		return -1, 0, err
	}
	if fd < 0 || m.Bytes < bytes || m.Bytes > bytes+maxRound {
		closeFD(fd)
		c.kill(errGarbage)
		return -1, 0, fmt.Errorf("%w: %d bytes of device memory for %d", errGarbage, m.Bytes, bytes)
	}
	return fd, m.Bytes, nil
}

// drop gives back a slab that no worker has mapped.
func (k *keeper) drop(ctx context.Context, device int, n int32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.c != nil && k.c.alive() {
		if _, err := k.c.call(ctx, &message{Kind: askDrop, Device: device, Slab: n}, -1); err != nil {
			k.log.Warn("device memory was not given back", "err", err)
		}
	}
}

// renew ends the keeper, and with it what only it holds.
func (k *keeper) renew() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.c != nil {
		k.c.finish()
		k.c = nil
	}
}

// keep is a keeper's life.
func keep(makers map[string]Maker) error {
	c, err := connOn(controlFD)
	if err != nil {
		return err
	}
	log := slog.New(&sender{c: c})
	var devs []driver.Device
	type key struct {
		device int
		slab   int32
	}
	made := make(map[key]int)
	buf := make([]byte, maxMessage)
	for {
		m, _, err := c.receive(buf)
		if err != nil {
			return err
		}
		out, fd := &message{Kind: answer, ID: m.ID}, -1
		switch m.Kind {
		case askOpen:
			if devs, err = openInner(makers, m, log); err != nil {
				break
			}
			for _, d := range devs {
				f := describe(d)
				f.connect(d, devs)
				out.Found = append(out.Found, f)
			}
			err = m.shed(devs, log)
		case askMake:
			k := key{m.Device, m.Slab}
			var s driver.SlabMaker
			if s, err = slabMaker(devs, m.Device); err != nil {
				break
			}
			if fd, out.Bytes, err = s.MakeSlab(m.Bytes); err == nil {
				made[k] = fd
			}
		case askDrop:
			k := key{m.Device, m.Slab}
			if old, ok := made[k]; ok {
				var s driver.SlabMaker
				if s, err = slabMaker(devs, k.device); err == nil {
					err = s.DropSlab(old)
				}
				_ = unix.Close(old)
				delete(made, k)
			}
		default:
			err = fmt.Errorf("%w: a keeper does not know %q", errGarbage, m.Kind)
		}
		out.fail(err)
		if err := c.send(out, fd); err != nil {
			return err
		}
	}
}

func slabMaker(devs []driver.Device, n int) (driver.SlabMaker, error) {
	if n < 0 || n >= len(devs) {
		return nil, fmt.Errorf("%w: device %d of %d", errGarbage, n, len(devs))
	}
	s, ok := devs[n].(driver.SlabMaker)
	if !ok {
		return nil, fmt.Errorf("%s makes no slabs", devs[n].Info().Name)
	}
	return s, nil
}

// openInner opens a child's own devices: all of them, or one.
func openInner(makers map[string]Maker, m *message, log *slog.Logger) ([]driver.Device, error) {
	mk := makers[m.Driver]
	if mk == nil {
		return nil, fmt.Errorf("%w: the worker knows no driver %q", driver.ErrUnavailable, m.Driver)
	}
	d, err := mk(m.Config, m.Device)
	if err != nil {
		return nil, err
	}
	devs, err := d.Open(context.Background(), log)
	if err != nil && len(devs) == 0 {
		return nil, err
	}
	if m.Device < 0 || len(devs) == 1 {
		return devs, nil
	}
	var one []driver.Device
	for i, dev := range devs {
		if i == m.Device {
			one = append(one, dev)
		} else {
			_ = dev.Close()
		}
	}
	if one == nil {
		return nil, fmt.Errorf("%w: device %d is no longer there", driver.ErrUnavailable, m.Device)
	}
	return one, nil
}

func describe(d driver.Device) found {
	_, slabs := d.(driver.SlabMaker)
	_, tele := d.(driver.Telemeter)
	_, stops := d.(driver.Stopper)
	t := d.Traits()
	f := found{Info: d.Info(), Slabs: slabs, Tele: tele, Stops: stops, InProcess: t.InProcess, Peak: t.MemoryPeak, Probes: t.Probes}
	if host := t.HostLink; host.BPS > 0 {
		f.Host = &host
	}
	return f
}

// connect notes how a device is connected to others.
func (f *found) connect(d driver.Device, all []driver.Device) {
	p, ok := d.(driver.PeerCopier)
	if !ok {
		return
	}
	f.Peers = make(map[int]machine.Link)
	for i, other := range all {
		if other == d {
			continue
		}
		if link, err := p.LinkTo(other); err == nil {
			f.Peers[i] = link
		}
	}
}

// sender is a slog.Handler that has the parent log.
type sender struct {
	c     *conn
	attrs []string
	group string
}

func (s *sender) Enabled(context.Context, slog.Level) bool { return true }

func (s *sender) Handle(_ context.Context, r slog.Record) error {
	m := &message{Kind: tellLog, Level: r.Level, Text: r.Message, Attrs: append([]string(nil), s.attrs...)}
	r.Attrs(func(a slog.Attr) bool {
		m.Attrs = append(m.Attrs, s.group+a.Key, a.Value.Resolve().String())
		return true
	})
	return s.c.send(m, -1)
}

func (s *sender) WithAttrs(attrs []slog.Attr) slog.Handler {
	t := *s
	t.attrs = append([]string(nil), s.attrs...)
	for _, a := range attrs {
		t.attrs = append(t.attrs, s.group+a.Key, a.Value.Resolve().String())
	}
	return &t
}

func (s *sender) WithGroup(name string) slog.Handler {
	t := *s
	t.group = strings.TrimPrefix(s.group+name+".", ".")
	return &t
}
