package fake

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// device is one fake device. Its lanes are goroutines; one lock guards everything
// they share. It is not meant to be fast.
type device struct {
	driver *Driver
	info   machine.Device
	board  *driver.Board
	wake   func()
	lanes  []*lane
	ended  sync.WaitGroup
	closed chan struct{} // closed with the device

	mu       sync.Mutex
	cond     sync.Cond // a lane got something, an operation ended, or the device closes
	buffers  map[driver.Buffer]buffer
	slabs    map[int32][]byte
	used     int64 // bytes of buffers that are not in slabs
	limit    int64
	rules    []Rule
	gauges   driver.Telemetry
	scripted map[string]bool // the gauges the script has set
	mapped   [][]byte
	ranks    map[uint64]*rank // of communicators, by number
	given    int64            // copies and launches taken, ever
	flight   int              // those of them that have not ended
	done     []driver.Completion
	gone     bool          // the device is lost
	lost     chan struct{} // closed when it is
	released chan struct{} // closed when what hangs goes on
}

// buffer is memory of the device's own, or a place in a slab.
type buffer struct {
	mem  []byte
	slab int32 // 0: none
}

// lane is an in-order queue.
type lane struct {
	id    driver.Lane
	queue []*op
}

// op is an operation with memory of its own for what driver.Op borrows.
type op struct {
	driver.Op
	n    int64         // the script's number
	lost chan struct{} // the device's, when the operation was given
}

func newDevice(drv *Driver, i int) *device {
	d := &device{
		driver: drv, closed: make(chan struct{}), buffers: make(map[driver.Buffer]buffer), slabs: make(map[int32][]byte),
		limit: drv.o.MemBytes, scripted: make(map[string]bool), lost: make(chan struct{}), released: make(chan struct{}),
		gauges: driver.Telemetry{Util: -1, TempC: -1, PowerW: -1, ClockMHz: -1},
		info: machine.Device{
			Name: fmt.Sprintf("fake:%d", i), Model: "scripted device", Kind: machine.Discrete, Backend: "fake",
			Dialects: []graph.Dialect{graph.Go, graph.PTX, graph.CUDAC, graph.SPIRV, graph.GLSL, graph.Library},
			Joins:    drv.o.Joins, UUID: fmt.Sprintf("fake-%d", i), MemBytes: drv.o.MemBytes, ComputeUnits: 1, Lanes: drv.o.Lanes,
		},
	}
	d.cond.L = &d.mu
	d.follow(drv.o.Script)
	return d
}

func (d *device) Info() machine.Device { return d.info }

// follow takes rules in that are for this device. Those without a condition
// apply now.
func (d *device) follow(s Script) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range s {
		if r.Device != AllDevices && fmt.Sprintf("fake:%d", r.Device) != d.info.Name {
			continue
		}
		switch r.Do {
		case Release:
			close(d.released)
			d.released = make(chan struct{})
		case Limit:
			d.limit = r.Bytes
		case Set:
			d.set(r.Name, r.Value)
		case Lose:
			if r.At.Kind == Now {
				d.lose()
				continue
			}
			d.rules = append(d.rules, r)
		default:
			d.rules = append(d.rules, r)
		}
	}
}

func (d *device) set(gauge string, v float64) {
	d.scripted[gauge] = true
	switch gauge {
	case "util":
		d.gauges.Util = v
	case "memory":
		d.gauges.MemUsed = v
	case "temp":
		d.gauges.TempC = v
	case "power":
		d.gauges.PowerW = v
	case "clock":
		d.gauges.ClockMHz = v
	case "errors":
		d.gauges.MemErrors = int64(v)
	case "faults":
		d.gauges.Faults = int64(v)
	}
}

// lose makes the device lost; the lock is held. What is in flight notices by
// the channel. Stir takes the board's lock inside ours, which is safe because
// nothing that sleeps on the board takes ours.
func (d *device) lose() {
	if d.gone {
		return
	}
	d.gone = true
	d.ranks = nil // what waits in one notices by the channel
	close(d.lost)
	if d.board != nil {
		d.board.Stir()
	}
}

func (d *device) Attach(b *driver.Board, lanes []driver.Lane, wake func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.board, d.wake = b, wake
	for _, id := range lanes {
		l := &lane{id: id}
		d.lanes = append(d.lanes, l)
		d.ended.Add(1)
		go d.run(l)
	}
}

func (d *device) Submit(batch []driver.Op) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.isClosed() {
		return fmt.Errorf("fake: submit to %s: %w", d.info.Name, driver.ErrClosed)
	}
	if d.gone {
		return fmt.Errorf("fake: submit to %s: %w", d.info.Name, driver.ErrDeviceLost)
	}
	for i := range batch {
		switch in := &batch[i]; in.Kind {
		case driver.Alloc:
			d.alloc(in)
		case driver.Free:
			d.free(in.Buf, in.Secret)
		default:
			d.given++
			o := &op{Op: *in, n: d.given, lost: d.lost}
			o.Waits = slices.Clone(in.Waits)
			o.Args = slices.Clone(in.Args)
			l := d.lane(in.Lane)
			l.queue = append(l.queue, o)
			d.flight++
		}
	}
	d.cond.Broadcast()
	return nil
}

func (d *device) lane(id driver.Lane) *lane {
	for _, l := range d.lanes {
		if l.id == id {
			return l
		}
	}
	panic(fmt.Sprintf("fake: lane %d is not one of %s", id, d.info.Name))
}

// alloc makes a buffer; one that cannot be made stays absent, which fails what
// uses it.
func (d *device) alloc(in *driver.Op) {
	if in.Slab != 0 {
		if mem := d.slabs[in.Slab]; in.Bytes > 0 && inside(in.SlabOff, in.Bytes, mem) {
			d.buffers[in.Buf] = buffer{mem[in.SlabOff : in.SlabOff+in.Bytes], in.Slab}
		}
		return
	}
	if in.Bytes <= 0 || in.Bytes > min(d.limit, d.info.MemBytes)-d.used {
		return
	}
	d.buffers[in.Buf] = buffer{mem: make([]byte, in.Bytes)}
	d.used += in.Bytes
}

func (d *device) free(b driver.Buffer, secret bool) {
	buf := d.buffers[b]
	if buf.slab == 0 {
		d.used -= int64(len(buf.mem))
	}
	if secret {
		clear(buf.mem)
	}
	delete(d.buffers, b)
}

// inside reports whether n bytes from off on lie in mem.
func inside(off, n int64, mem []byte) bool {
	size := int64(len(mem))
	return off >= 0 && n >= 0 && off <= size && n <= size-off
}

func (d *device) Completions(dst []driver.Completion) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := copy(dst, d.done)
	d.done = d.done[:copy(d.done, d.done[n:])]
	return n
}

// Close ends what hangs or waits, and waits for functions that run.
func (d *device) Close() error {
	d.mu.Lock()
	if d.isClosed() {
		d.mu.Unlock()
		return nil
	}
	close(d.closed)
	for _, r := range d.ranks {
		r.leave()
	}
	d.cond.Broadcast()
	d.mu.Unlock()
	if d.board != nil {
		d.board.Stir()
	}
	d.ended.Wait()
	d.mu.Lock()
	clear(d.buffers)
	d.unmapAll()
	d.mu.Unlock()
	d.driver.forget(d)
	return nil
}

func (d *device) isClosed() bool {
	select {
	case <-d.closed:
		return true
	default:
		return false
	}
}

// Telemetry returns what the script has set; of the rest, only the memory in
// use and the counters are known.
func (d *device) Telemetry() (driver.Telemetry, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gone {
		return driver.Telemetry{}, fmt.Errorf("fake: telemetry of %s: %w", d.info.Name, driver.ErrDeviceLost)
	}
	t := d.gauges
	t.MemBytes = d.info.MemBytes
	if !d.scripted["memory"] {
		t.MemUsed = float64(d.used) / float64(d.info.MemBytes)
	}
	return t, nil
}

// Revive ends as the script says for the rung: without a rule, well and with
// empty memory. Operations that were in flight end before it, so that none of them is
// taken for one of the revived device.
func (d *device) Revive(ctx context.Context, rung driver.Rung) (kept bool, err error) {
	defer context.AfterFunc(ctx, func() {
		d.mu.Lock() // or the loop below could miss it
		defer d.mu.Unlock()
		d.cond.Broadcast()
	})()
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.gone && d.flight > 0 && !d.isClosed() && ctx.Err() == nil {
		d.cond.Wait()
	}
	if err := context.Cause(ctx); err != nil {
		return false, fmt.Errorf("fake: revive %s: %w", d.info.Name, err)
	}
	if d.isClosed() {
		return false, fmt.Errorf("fake: revive %s: %w", d.info.Name, driver.ErrClosed)
	}
	if !d.gone {
		return false, fmt.Errorf("fake: revive %s: it is not lost", d.info.Name)
	}
	end := Empty
	for i := range d.rules {
		if r := &d.rules[i]; r.Do == Revive && r.Rung == rung {
			end = r.End
			d.spend(i)
			break
		}
	}
	if end == Fails {
		return false, fmt.Errorf("fake: revive %s by %s: %w", d.info.Name, nameOf(rungs, int(rung)), driver.ErrDeviceLost)
	}
	if end == Empty {
		clear(d.buffers)
		d.used = 0
	}
	d.gone, d.lost = false, make(chan struct{})
	return end == Kept, nil
}

// Traits say whether the script lets any rung keep what buffers hold.
func (d *device) Traits() driver.Traits {
	d.mu.Lock()
	defer d.mu.Unlock()
	return driver.Traits{InProcess: true, Keeps: slices.ContainsFunc(d.rules, func(r Rule) bool { return r.Do == Revive && r.End == Kept })}
}

// Drop loses the device.
func (d *device) Drop(error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lose()
}

// LinkTo knows of no link.
func (d *device) LinkTo(driver.Device) (machine.Link, error) {
	return machine.Link{}, fmt.Errorf("fake: links of %s: %w", d.info.Name, driver.ErrUnavailable)
}

// CanCopyFrom reports whether the options let devices copy from one another.
func (d *device) CanCopyFrom(other driver.Device) bool {
	peer, ok := other.(*device)
	return ok && d.driver.o.Peer && peer.driver.o.Peer
}

// MapHost notes that memory was prepared; it changes nothing about copies.
func (d *device) MapHost(mem []byte) error {
	if len(mem) == 0 {
		return fmt.Errorf("fake: map host memory for %s: it is empty", d.info.Name)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mappedAt(mem) >= 0 {
		return fmt.Errorf("fake: map host memory for %s: it is mapped already", d.info.Name)
	}
	d.mapped = append(d.mapped, mem)
	return nil
}

// UnmapHost undoes MapHost of the same memory.
func (d *device) UnmapHost(mem []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := d.mappedAt(mem)
	if i < 0 {
		return fmt.Errorf("fake: unmap host memory for %s: it is not mapped", d.info.Name)
	}
	d.mapped = slices.Delete(d.mapped, i, i+1)
	return nil
}

// mappedAt returns the place of mapped memory, or -1.
func (d *device) mappedAt(mem []byte) int {
	return slices.IndexFunc(d.mapped, func(m []byte) bool {
		return len(m) == len(mem) && len(m) > 0 && &m[0] == &mem[0]
	})
}

// Interface guards.
var (
	_ driver.Device     = (*device)(nil)
	_ driver.Telemeter  = (*device)(nil)
	_ driver.Reviver    = (*device)(nil)
	_ driver.PeerCopier = (*device)(nil)
	_ driver.HostMapper = (*device)(nil)
	_ driver.Dropper    = (*device)(nil)
	_ driver.Joiner     = (*device)(nil)
)
