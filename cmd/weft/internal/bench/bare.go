package bench

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/arena"
	"github.com/weft-run/weft/internal/backend/all"
	"github.com/weft-run/weft/machine"
)

// bare drives devices by their contract, without a runtime around them, one lane at a
// time.
type bare struct {
	devs  []driver.Device
	mem   *arena.Arena // that devices in workers share, or nil
	board *driver.Board
	wake  chan struct{}
	lanes [][]driver.Lane // of each device: compute, in, out
	seq   []uint32        // of each lane
}

// openBare opens the devices of a machine, which Options.Devices selected, in workers
// where a runtime would. The
// caller closes it, also after an error.
func openBare(ctx context.Context, devices string, m *machine.Machine) (*bare, error) {
	b := &bare{wake: make(chan struct{}, 1)}
	sel, err := machine.ParseSelection(devices)
	if err != nil {
		return b, err
	}
	o := all.Options{Select: sel, Funcs: memoryFuncs()}
	if o.Apart() {
		if b.mem, err = arena.Open(0); err != nil {
			return b, err
		}
		o.Memory = b.mem
	}
	log := slog.New(slog.DiscardHandler) // opening the runtime has logged it
	for _, d := range all.Drivers(o) {
		found, err := d.Open(ctx, log)
		for _, dev := range found {
			if _, ok := m.Lookup(dev.Info().Name); ok {
				b.devs = append(b.devs, dev)
			} else if err := dev.Close(); err != nil {
				return b, err
			}
		}
		if err != nil && !errors.Is(err, driver.ErrUnavailable) {
			return b, err
		}
	}
	return b, b.attach()
}

// close closes the devices, then the memory that they share.
func (b *bare) close() (err error) {
	for _, d := range b.devs {
		err = errors.Join(err, d.Close())
	}
	if b.mem != nil {
		err = errors.Join(err, b.mem.Close())
	}
	return err
}

// attach gives every device its lanes on one board.
func (b *bare) attach() (err error) {
	own := make([][]driver.Lane, len(b.devs)) // further lanes of devices in workers
	var shared driver.SharedMemory
	give := func(n int) (lanes []driver.Lane) {
		for range n {
			lanes = append(lanes, driver.Lane(len(b.seq)))
			b.seq = append(b.seq, 0)
		}
		return lanes
	}
	for i, d := range b.devs {
		b.lanes = append(b.lanes, give(max(d.Info().Lanes, 1)+2))
		if t := d.Traits(); t.Shared != nil {
			own[i], shared = give(t.OwnLanes), t.Shared
		}
	}
	b.board = driver.NewBoard(len(b.seq))
	if shared != nil {
		if b.board, err = shared.Board(len(b.seq)); err != nil {
			return err
		}
	}
	for i, d := range b.devs {
		d.Attach(b.board, slices.Concat(b.lanes[i], own[i]), func() {
			select {
			case b.wake <- struct{}{}:
			default:
			}
		})
	}
	return nil
}

// do has a device perform operations one after another and returns the time from
// submitting them until the last completion is seen.
func (b *bare) do(ctx context.Context, device, lane int, ops ...driver.Op) (time.Duration, error) {
	if lane < 0 {
		lane += len(b.lanes[device])
	}
	for i := range ops {
		op := &ops[i]
		op.Lane = b.lanes[device][lane]
		b.seq[op.Lane]++
		op.Seq = b.seq[op.Lane]
	}
	began := time.Now()
	if err := b.devs[device].Submit(ops); err != nil {
		return 0, err
	}
	var failed error
	done := make([]driver.Completion, len(ops))
	for left := len(ops); left > 0; {
		n := b.devs[device].Completions(done)
		for _, c := range done[:n] {
			if failed == nil {
				failed = c.Err
			}
		}
		if left -= n; n > 0 {
			continue
		}
		select {
		case <-b.wake:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return time.Since(began), failed
}

// Lanes counted from a device's last one: for copies out of it and into it.
const laneOut, laneIn = -1, -2

// Buffers of a trial.
const bufA, bufB, bufC driver.Buffer = 0, 1, 2

// buffers makes the buffers of a trial on a device, each as large as host, and copies
// host into them, so that nothing is paged in while it is timed.
func (b *bare) buffers(ctx context.Context, device int, host []byte) (free func() error, err error) {
	var alloc, end []driver.Op
	for _, buf := range []driver.Buffer{bufA, bufB, bufC} {
		alloc = append(alloc, driver.Op{Kind: driver.Alloc, Buf: buf, Bytes: int64(len(host))})
		end = append(end, driver.Op{Kind: driver.Free, Buf: buf})
	}
	if err := b.devs[device].Submit(alloc); err != nil {
		return nil, err
	}
	free = func() error { return b.devs[device].Submit(end) }
	for _, buf := range []driver.Buffer{bufA, bufB, bufC} {
		if _, err := b.do(ctx, device, laneIn, driver.Op{Kind: driver.Copy, Bytes: int64(len(host)), Src: driver.NoBuffer, HostSrc: host, Dst: buf}); err != nil {
			return nil, errors.Join(err, free())
		}
	}
	return free, nil
}
