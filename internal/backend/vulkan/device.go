package vulkan

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// loopRounds is the number of rounds of all loops of an invocation together after which lavapipe ends
// them. Other drivers are not known to have no such limit.
const loopRounds = 65_535

// device is an open device. Lock order: the board's lock, mu, memory.mu of any
// device; each lane's mu, queue's mu and build stand alone.
type device struct {
	*platform
	c      *calls
	phys   uintptr
	handle uintptr
	info   machine.Device
	limits limits
	exts   []string        // extensions it has
	double bool            // another backend has it
	can    map[uint32]bool // capabilities of SPIR-V that are switched on
	memory memory

	families []uint32 // of the queues
	compute  *queue
	transfer *queue
	period   float64 // ns of a timestamp's tick; 0 without timestamps

	board *driver.Board
	wake  func()
	lanes []*lane
	wiper *lane // overwrites secrets that were freed

	build   sync.Mutex // guards what is below
	cache   uint64
	kernels map[*graph.Kernel]*kernel
	modules map[[32]byte]*module
	layouts map[int]*layout
	tuned   driver.Decisions

	mu      sync.Mutex
	flying  int // operations given and not completed
	done    []driver.Completion
	told    bool // the caller knows that the device is lost
	mapped  []span
	hopeful atomic.Int32 // lanes that wait for something to be issued
	closed  atomic.Bool
	dead    atomic.Pointer[error] // why the device is lost
	lost    chan struct{}         // closed when it is
	ended   chan struct{}
}

// limits are what a device allows.
type limits struct {
	storageBytes  int64 // of one argument
	pushBytes     int
	arguments     int
	sharedBytes   int
	groups        [3]uint32 // of a dispatch
	groupSize     [3]uint32
	invocations   uint32 // of a group
	offsetAlign   int64
	allocBytes    int64
	hostAlign     int64 // 0 when host memory cannot be imported
	timestampTick float32
}

// queue is a queue of the driver, which lanes take turns at.
type queue struct {
	mu     sync.Mutex
	handle uintptr
	family uint32
}

// field reads a limit by its offset in VkPhysicalDeviceLimits.
func field[T any](p *deviceProperties, off uintptr) T {
	return *(*T)(unsafe.Add(unsafe.Pointer(&p.limits), off))
}

// open opens a device that was found.
func (d *device) open() (err error) {
	f := getFrame()
	defer f.free()
	defer func() {
		if err != nil {
			err = fmt.Errorf("vulkan: open %s: %w", d.info.Name, err)
		}
	}()
	if err := d.start(f); err != nil {
		return err
	}
	if err := d.memory.open(d, f); err != nil {
		f.call(&d.c.destroyDevice, d.handle, 0)
		return err
	}
	d.info.MemBytes = d.memory.limit
	d.loadCache(f)
	d.retain()
	return nil
}

// describe asks a device what it is.
func (p *platform) describe(phys uintptr) (*device, error) {
	d := &device{platform: p, phys: phys, ended: make(chan struct{}), lost: make(chan struct{}), kernels: make(map[*graph.Kernel]*kernel),
		modules: make(map[[32]byte]*module), layouts: make(map[int]*layout), tuned: make(driver.Decisions)}
	a := p.api
	f := getFrame()
	defer f.free()
	list, err := read[extensionProperties](f, &a.deviceExts, d.phys, 0)
	if err != nil {
		return nil, err
	}
	for k := range list {
		d.exts = append(d.exts, text(list[k].name[:]))
	}
	id := answer[idProperties](f)
	sub := answer[subgroupProperties](f)
	most := answer[maintenance3Properties](f)
	drv := answer[driverProperties](f)
	props := answer[deviceProperties](f)
	id.head = head{typ: tIDProperties}
	sub.head = head{typ: tSubgroup, next: address(id)}
	most.head = head{typ: tMaintenance3, next: address(sub)}
	drv.head = head{typ: tDriverProperties, next: address(most)}
	props.head = head{typ: tProperties, next: address(drv)}
	var pci *pciProperties
	if slices.Contains(d.exts, "VK_EXT_pci_bus_info") {
		pci = answer[pciProperties](f)
		pci.head = head{typ: tPCIBus}
		id.next = address(pci)
	}
	var host *hostMemoryProperties
	if slices.Contains(d.exts, importExtension) {
		host = answer[hostMemoryProperties](f)
		host.head = head{typ: tHostMemory, next: id.next}
		id.next = address(host)
	}
	f.call(&a.properties, d.phys, address(props))
	if props.api < apiVersion {
		return nil, fmt.Errorf("%s, Vulkan %s: %w", text(props.name[:]), version(props.api), errVersion)
	}
	d.limits = limits{
		storageBytes: int64(field[uint32](props, 28)), pushBytes: int(field[uint32](props, 32)),
		arguments:   int(min(field[uint32](props, 76), field[uint32](props, 108), maxArguments)),
		sharedBytes: int(field[uint32](props, 216)), groups: field[[3]uint32](props, 220),
		invocations: field[uint32](props, 232), groupSize: field[[3]uint32](props, 236),
		offsetAlign: int64(field[uint64](props, 328)), timestampTick: field[float32](props, 424), allocBytes: int64(min(most.bytes, 1<<62)),
	}
	if host != nil {
		d.limits.hostAlign = int64(host.align)
	}
	if d.o.group > 0 {
		d.limits.groups = [3]uint32{d.o.group, d.o.group, d.o.group}
	}
	d.info = machine.Device{
		Model: text(props.name[:]), Backend: "vulkan", Dialects: []graph.Dialect{graph.SPIRV, graph.GLSL},
		Rounding: text(props.name[:]), LoopRounds: loopRounds, Arch: fmt.Sprintf("%04x:%04x", props.vendor, props.device),
		Driver: fmt.Sprintf("%s %s, Vulkan %s", text(drv.name[:]), text(drv.info[:]), version(props.api)), Lanes: max(d.o.Streams, 1),
		SIMDLanes: int(sub.size), ArgBytes: d.limits.storageBytes,
	}
	const nvidia = 4 // driver
	d.double = drv.id == nvidia || props.kind == onCPU
	bus := "no bus"
	if pci != nil {
		bus = fmt.Sprintf("%04x:%02x:%02x.%x", pci.domain, pci.bus, pci.device, pci.function)
	}
	d.info.UUID = fmt.Sprintf("%x, %s", id.deviceUUID, bus)
	switch props.kind {
	case discrete:
		d.info.Kind = machine.Discrete
	case integrated:
		d.info.Kind = machine.Integrated
		d.info.Resources = []string{machine.HostMemory}
	case onCPU:
		d.info.Kind = machine.CPU
		d.info.ComputeUnits = runtime.NumCPU()
		d.info.Resources = []string{machine.HostMemory, machine.HostCores}
	default:
		d.info.Kind = machine.Virtual
	}
	return d, nil
}

// Types of devices.
const integrated, discrete, onCPU = 1, 2, 4

// importExtension lets a device copy from and to host memory directly.
const importExtension = "VK_EXT_external_memory_host"

// start makes the device with its queues.
func (d *device) start(f *frame) error {
	a := d.api
	families := readVoid[queueFamily](f, &a.queueFamilies, d.phys)
	compute, transfer := -1, -1
	for i, q := range families {
		switch {
		case q.count == 0:
		case q.flags&queueCompute != 0:
			// One that cannot draw is not disturbed by those who do.
			if compute < 0 || q.flags&queueGraphics == 0 && families[compute].flags&queueGraphics != 0 {
				compute = i
			}
		case q.flags&queueTransfer != 0 && q.flags&queueGraphics == 0 && transfer < 0:
			transfer = i // its own engine
		}
	}
	if compute < 0 {
		return fmt.Errorf("%s has no queue that computes: %w", d.info.Model, driver.ErrUnavailable)
	}
	d.families = []uint32{uint32(compute)}
	if transfer >= 0 {
		d.families = append(d.families, uint32(transfer))
	}
	var infos []queueInfo
	for _, family := range d.families {
		infos = append(infos, queueInfo{head: head{typ: tDeviceQueue}, family: family, count: 1, priorities: put(f, float32(1))})
	}
	var want []string
	if slices.Contains(d.exts, importExtension) {
		want = append(want, importExtension)
	}
	device := answer[uintptr](f)
	err := f.do(&a.createDevice, d.phys, put(f, deviceInfo{
		head: head{typ: tDevice, next: d.features(f)}, queues: uint32(len(infos)), queueInfos: list(f, infos),
		exts: uint32(len(want)), extNames: f.strings(want),
	}), 0, address(device))
	if err != nil {
		return err
	}
	d.handle = *device
	if d.c, err = a.bindDevice(d.handle); err != nil {
		if d.c.destroyDevice.addr != 0 {
			f.call(&d.c.destroyDevice, d.handle, 0)
		}
		return err
	}
	if d.c.hostPointer.addr == 0 {
		d.limits.hostAlign = 0
	}
	var queues []*queue
	for _, family := range d.families {
		at := answer[uintptr](f)
		f.call(&d.c.getQueue, d.handle, uintptr(family), 0, address(at))
		queues = append(queues, &queue{handle: *at, family: family})
	}
	d.compute, d.transfer = queues[0], queues[len(queues)-1]
	// 36 bits are a minute at the finest tick there is. A driver on the CPU lets
	// whoever reads a timestamp wait until its queue is empty, and what it runs
	// begins when what ran before it has ended anyway.
	if families[compute].timestampBits >= 36 && (d.info.Kind != machine.CPU || d.o.stage) {
		d.period = float64(d.limits.timestampTick)
	}
	return nil
}

// Capabilities of SPIR-V that a device may lack, and the feature that brings each.
var capabilities = []struct {
	id      uint32
	name    string
	version int // of the features' structure: 0, 11 or 12
	index   int
}{
	{10, "Float64", 0, 39}, {11, "Int64", 0, 40}, {22, "Int16", 0, 41},
	{4433, "StorageBuffer16BitAccess", 11, 0},
	{4448, "StorageBuffer8BitAccess", 12, 2}, {39, "Int8", 12, 8}, {9, "Float16", 12, 7},
}

// features asks which features the device has and returns the ones to switch on.
func (d *device) features(f *frame) uintptr {
	has, has11, has12 := answer[features](f), answer[features11](f), answer[features12](f)
	has12.head = head{typ: tFeatures12}
	has11.head = head{typ: tFeatures11, next: address(has12)}
	has.head = head{typ: tFeatures, next: address(has11)}
	f.call(&d.api.features, d.phys, address(has))
	const timeline = 37
	want, want11, want12 := features{}, features11{}, features12{}
	want12.has[timeline] = has12.has[timeline]
	d.can = make(map[uint32]bool)
	for _, c := range capabilities {
		on, to := has.core[:], want.core[:]
		switch c.version {
		case 11:
			on, to = has11.has[:], want11.has[:]
		case 12:
			on, to = has12.has[:], want12.has[:]
		}
		to[c.index] = on[c.index]
		d.can[c.id] = on[c.index] != 0
	}
	want12.head = head{typ: tFeatures12}
	want11.head = head{typ: tFeatures11, next: put(f, want12)}
	want.head = head{typ: tFeatures, next: put(f, want11)}
	return put(f, want)
}

func (d *device) Info() machine.Device { return d.info }

// Traits are not known of Vulkan devices.
func (d *device) Traits() driver.Traits { return driver.Traits{} }

// Attach starts the lanes.
func (d *device) Attach(b *driver.Board, lanes []driver.Lane, wake func()) {
	d.board, d.wake = b, wake
	for i, id := range lanes {
		q := d.compute
		if i > 0 && i >= min(d.info.Lanes, len(lanes)-2) {
			q = d.transfer
		}
		l, err := newLane(d, id, q)
		if err != nil {
			d.lose(err)
		}
		d.lanes = append(d.lanes, l)
	}
	var err error
	if d.wiper, err = newLane(d, driver.NoLane, d.transfer); err != nil {
		d.lose(err)
	}
	for _, l := range d.all() {
		l.running.Add(2)
		go l.issue()
		go l.reap()
	}
}

// errLost returns the error of operations of a lost device.
func (d *device) errLost() error {
	return fmt.Errorf("vulkan: %s: %w: %w", d.info.Name, driver.ErrDeviceLost, *d.dead.Load())
}

// lose gives the device up: everything in flight ends.
func (d *device) lose(cause error) {
	if d.dead.CompareAndSwap(nil, &cause) {
		close(d.lost)
		d.log.Warn("gpu lost", "device", d.info.Name, "err", cause)
	}
	d.stir()
}

// Drop gives up on what the device runs.
func (d *device) Drop(cause error) {
	d.lose(cause)
	d.tellLoss()
}

// tellLoss says that the device is lost once everything has ended.
func (d *device) tellLoss() {
	d.mu.Lock()
	tell := d.dead.Load() != nil && d.flying == 0 && !d.told
	if tell {
		d.told = true
		now := d.board.Now()
		d.done = append(d.done, driver.Completion{Lane: driver.NoLane, Start: now, End: now, Err: d.errLost()})
	}
	d.mu.Unlock()
	if tell {
		d.wake()
	}
}

// all returns the device's lanes and, after them, that on which secrets are overwritten.
func (d *device) all() []*lane {
	if d.wiper == nil {
		return d.lanes
	}
	return append(slices.Clip(d.lanes), d.wiper)
}

// stir wakes whoever of this device sleeps.
func (d *device) stir() {
	for _, l := range d.all() {
		l.mu.Lock()
		l.cond.Broadcast()
		l.mu.Unlock()
	}
	if d.board != nil {
		d.board.Stir()
	}
}

func (d *device) Submit(batch []driver.Op) error {
	if d.closed.Load() {
		return fmt.Errorf("vulkan: submit to %s: %w", d.info.Name, driver.ErrClosed)
	}
	if d.dead.Load() != nil {
		return fmt.Errorf("vulkan: submit to %s: %w", d.info.Name, d.errLost())
	}
	for i := range batch {
		o := &batch[i]
		switch o.Kind {
		case driver.Alloc:
			d.memory.alloc(d, o)
		case driver.Free:
			d.memory.free(d, o.Buf, o.Secret)
		default:
			d.mu.Lock()
			d.flying++
			d.mu.Unlock()
			d.lane(o.Lane).push(d.take(o))
		}
	}
	return nil
}

// lane finds the device's lane with a number; nil for one of another device.
func (d *device) lane(id driver.Lane) *lane {
	for _, l := range d.lanes {
		if l.id == id {
			return l
		}
	}
	return nil
}

// take makes the lane's form of an operation: buffers become places here, since a
// buffer's number may be given to another before the operation begins.
func (d *device) take(in *driver.Op) *op {
	o := &op{seq: in.Seq, waits: slices.Clone(in.Waits), bytes: in.Bytes, task: in.Task, secret: in.Secret}
	if in.Kind == driver.Launch {
		for i := range in.Args {
			a := &in.Args[i]
			at, err := d.memory.at(a.Buf, a.Off, a.Bytes)
			if err == nil && a.Bytes == 0 && len(in.Task.Steps) > 0 {
				err = fmt.Errorf("%w: it is empty, and a kernel cannot be given nothing", driver.ErrUnfit)
			}
			if err == nil && a.Bytes > d.limits.storageBytes {
				err = fmt.Errorf("%w: it has %d bytes, and kernels here reach %d of an argument: cut the task into smaller ones",
					driver.ErrUnfit, a.Bytes, d.limits.storageBytes)
			}
			if err != nil {
				o.err = fmt.Errorf("vulkan: argument %d on %s: %w", i, d.info.Name, err)
				return o
			}
			o.args = append(o.args, at)
		}
		return o
	}
	if o.err = d.takeCopy(o, in); o.err != nil {
		o.err = fmt.Errorf("vulkan: copy %d bytes on %s: %w", in.Bytes, d.info.Name, o.err)
	}
	return o
}

func (d *device) takeCopy(o *op, in *driver.Op) (err error) {
	o.direction = inside
	switch {
	case in.Bytes < 0:
		return errors.New("a size must not be negative")
	case in.Src == driver.NoBuffer && in.Dst == driver.NoBuffer:
		return errors.New("both ends are host memory")
	case in.Src == driver.NoBuffer:
		o.host, o.direction = in.HostSrc, into
	case in.Dst == driver.NoBuffer:
		o.host, o.direction = in.HostDst, out
	}
	if o.direction != inside {
		if int64(len(o.host)) < in.Bytes {
			return fmt.Errorf("host memory has %d bytes", len(o.host))
		}
		o.host = o.host[:in.Bytes]
	}
	if in.Dst != driver.NoBuffer {
		if o.dst, err = d.memory.at(in.Dst, in.DstOff, in.Bytes); err != nil {
			return err
		}
	}
	switch {
	case in.Src == driver.NoBuffer:
	case in.From != nil && in.From != driver.Device(d):
		other, ok := in.From.(*device)
		if !ok || !d.CanCopyFrom(other) || o.direction != inside {
			return errors.New("it cannot be copied from the other device")
		}
		// What it waits for may be what makes the buffer: it is looked up then.
		o.from, o.srcBuf, o.srcOff, o.direction = other, in.Src, in.SrcOff, peer
	default:
		o.src, err = d.memory.at(in.Src, in.SrcOff, in.Bytes)
	}
	return err
}

// LinkTo knows of no link.
func (d *device) LinkTo(driver.Device) (machine.Link, error) {
	return machine.Link{}, fmt.Errorf("vulkan: links of %s: %w", d.info.Name, driver.ErrUnavailable)
}

// CanCopyFrom reports whether the CPU reads the other's memory and writes this
// device's without staging.
func (d *device) CanCopyFrom(other driver.Device) bool {
	o, ok := other.(*device)
	return ok && d.memory.direct && o.memory.direct
}

func (d *device) Completions(dst []driver.Completion) int {
	d.mu.Lock()
	n := copy(dst, d.done)
	d.done = d.done[:copy(d.done, d.done[n:])]
	d.mu.Unlock()
	return n
}

// complete hands an operation over that has ended.
func (d *device) complete(c driver.Completion) {
	d.board.Done(c.Lane, c.Seq, c.Err != nil)
	d.mu.Lock()
	d.done = append(d.done, c)
	d.mu.Unlock()
	d.landed()
}

// landed notes that an operation, or a wipe, has ended.
func (d *device) landed() {
	d.mu.Lock()
	d.flying--
	d.mu.Unlock()
	d.wake()
	if d.dead.Load() != nil {
		d.tellLoss()
	}
}

// Close waits for what runs and fails the rest.
func (d *device) Close() error {
	if d.closed.Swap(true) {
		<-d.ended
		return nil
	}
	defer close(d.ended)
	d.stir()
	for _, l := range d.all() {
		l.running.Wait()
	}
	f := getFrame()
	defer f.free()
	// A device that was given up may still run something.
	idle := f.do(&d.c.waitIdle, d.handle)
	d.saveCache(f)
	for _, l := range d.all() {
		l.close(f)
	}
	d.dropKernels(f)
	d.unmapAll()
	d.memory.close(d)
	f.call(&d.c.destroyDevice, d.handle, 0)
	d.release()
	if d.dead.Load() != nil {
		return nil
	}
	if idle != nil {
		return fmt.Errorf("vulkan: close %s: %w", d.info.Name, idle)
	}
	return nil
}

// kernelNames names the kernels of a task.
func kernelNames(t *graph.Task) string {
	var names []string
	for i := range t.Steps {
		if k := t.Steps[i].Kernel; k != nil && !slices.Contains(names, k.Name) {
			names = append(names, k.Name)
		}
	}
	return strings.Join(names, ", ")
}

var (
	_ driver.Dropper    = (*device)(nil)
	_ driver.PeerCopier = (*device)(nil)
	_ driver.HostMapper = (*device)(nil)
	_ driver.Tuner      = (*device)(nil)
)
