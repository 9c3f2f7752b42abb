package cuda

import (
	"crypto/sha256"
	_ "embed" // for the copy kernel
	"encoding/hex"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
)

// The pinned block, after the words of the streams: the addresses and values a
// launch hands to the driver, and its extended configuration.
const (
	maxArgs   = 128
	valuesAt  = wordBytes
	pointsAt  = valuesAt + maxArgs*8
	paramsAt  = pointsAt + (maxArgs+1)*8 + 8
	configAt  = blockBytes - 512
	maxParams = configAt - paramsAt
)

// layOut prepares the block: argument i is found at value i.
func (d *device) layOut() {
	points := d.points()
	for i := range maxArgs {
		points[i] = d.block + valuesAt + uintptr(8*i)
	}
}

func (d *device) values() *[maxArgs]uintptr { return (*[maxArgs]uintptr)(pointer(d.block + valuesAt)) }
func (d *device) points() *[maxArgs + 1]uintptr {
	return (*[maxArgs + 1]uintptr)(pointer(d.block + pointsAt))
}

// kernel is a kernel as this device can run it.
type kernel struct {
	name     string
	hash     string     // of its implementations
	variants []*variant // one for each implementation; none: nothing to do
	shaped   []*variant // those, once for each shape where they leave that open
	err      error      // why it cannot run
	classes  [2 * classes]*timing
}

// choices are what a step can be run by.
func (k *kernel) choices(l *graph.Launch) []*variant {
	if l.Block[0] != 0 {
		return k.variants
	}
	return k.shaped
}

// variant is one implementation, loaded.
type variant struct {
	impl    *graph.Impl
	fn      uintptr
	block   uint32 // threads of a block where the implementation leaves that open
	library routine
	sign    signature
	proven  proven
	shared  int  // dynamic shared memory it was allowed so far
	wide    bool // it was allowed clusters of more than eight blocks
}

// maxKernels bounds the kernels remembered by address.
const maxKernels = 4096

// kernel finds or makes the device's form of a kernel.
func (d *device) kernel(k *graph.Kernel) *kernel {
	if k == nil {
		return &kernel{name: "nothing", err: fmt.Errorf("%w: a step names no kernel", driver.ErrUnfit)}
	}
	if found := d.kernels[k]; found != nil {
		return found
	}
	if d.kernels == nil || len(d.kernels) >= maxKernels {
		d.kernels = make(map[*graph.Kernel]*kernel)
	}
	found := &kernel{name: k.Name}
	d.kernels[k] = found
	var reasons []error
	idle := false
	for i := range k.Impls {
		impl := &k.Impls[i]
		if impl.Dialect != graph.PTX && impl.Dialect != graph.CUDAC && impl.Dialect != graph.Library {
			continue
		}
		if impl.Entry == "" {
			idle = true
			continue
		}
		v, err := d.variant(impl)
		if err != nil {
			reasons = append(reasons, err)
			continue
		}
		found.variants = append(found.variants, v)
		if leavesBlock(impl) {
			found.shaped = append(found.shaped, d.shapes(v)...)
		} else {
			found.shaped = append(found.shaped, v)
		}
	}
	if len(found.shaped) > 1 {
		found.hash = hash(k)
	}
	if len(found.variants) == 0 && !idle {
		if len(reasons) == 0 {
			reasons = append(reasons, errors.New("it has no implementation in PTX or CUDA C and names no library routine"))
		}
		why := driver.ErrUnfit
		if slices.ContainsFunc(reasons, passing) {
			why = driver.ErrKernel
			delete(d.kernels, k) // the next time may be better
		}
		found.err = fmt.Errorf("kernel %q: %w: %w", k.Name, why, errors.Join(reasons...))
		return found
	}
	for _, err := range reasons {
		d.log.Debug("variant left out", "kernel", k.Name, "device", d.info.Name, "err", err)
	}
	return found
}

// ofImage are the codes of libcuda that say what an image is, and stay: it is no image or PTX, is for
// another architecture or a newer driver, or does not have the entry.
var ofImage = []int32{200, 209, 218, 222, 300, 500}

// passing reports whether what an error tells of may be gone the next time, as want of memory.
func passing(err error) bool {
	var e *Error
	return errors.As(err, &e) && !slices.Contains(ofImage, e.Code)
}

// hash tells kernels of one name apart, so that what was measured of one is not
// taken for another's.
func hash(k *graph.Kernel) string {
	h := sha256.New()
	for i := range k.Impls {
		impl := &k.Impls[i]
		fmt.Fprintf(h, "%s %s %s %v %v %d %d\n", impl.Dialect, impl.Arch, impl.Entry, impl.Per, impl.Block, impl.SharedBytes, len(impl.Source))
		h.Write(impl.Source)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// variant loads an implementation.
func (d *device) variant(impl *graph.Impl) (*variant, error) {
	if impl.Dialect == graph.Library {
		if d.exact {
			return nil, fmt.Errorf("routine %s is not exact", impl.Entry)
		}
		r, err := d.routine(impl.Entry)
		if err != nil {
			return nil, err
		}
		return &variant{impl: impl, library: r}, nil
	}
	if err := d.runs(impl.Arch); err != nil {
		return nil, err
	}
	m, err := d.module(impl)
	if err != nil {
		return nil, err
	}
	f := getFrame()
	defer f.free()
	a := d.api
	if err := a.do(f, &a.moduleFunction, f.at(0), m.handle, f.string(impl.Entry)); err != nil {
		return nil, fmt.Errorf("entry %q: %w", impl.Entry, err)
	}
	v := &variant{impl: impl, fn: uintptr(f.out[0]), sign: declared(m.ptx, impl.Entry)}
	if v.sign.known {
		return v, nil
	}
	v.sign.known = a.funcParam.addr != 0
	for i := 0; v.sign.known; i++ {
		if code := a.code(f, &a.funcParam, v.fn, uintptr(i), f.at(0), f.at(1)); lost(code) {
			return nil, a.err(&a.funcParam, code)
		} else if code != 0 { // it has no more
			break
		}
		v.sign.sizes = append(v.sign.sizes, int(f.out[1]))
	}
	return v, nil
}

// runs reports whether code for an architecture runs on the device.
func (d *device) runs(arch string) error {
	if arch == "" {
		return nil
	}
	digits := strings.TrimRight(strings.TrimPrefix(arch, "sm_"), "af")
	n, err := strconv.Atoi(digits)
	if err != nil {
		return fmt.Errorf("architecture %q; write it as sm_75", arch)
	}
	ok := n <= d.arch
	if strings.HasSuffix(arch, "a") { // for that one and no other
		ok = n == d.arch
	}
	if strings.HasSuffix(arch, "f") { // for its family
		ok = ok && n/10 == d.arch/10
	}
	if !ok {
		return fmt.Errorf("it is for %s, the device is %s", arch, d.info.Arch)
	}
	return nil
}

// module is code the driver was given.
type module struct {
	handle uintptr
	ptx    []byte // declares its entries; nil if it is not known
}

// module loads an implementation's source, once.
func (d *device) module(impl *graph.Impl) (module, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%s %s\n", impl.Dialect, d.info.Arch)
	h.Write(impl.Source)
	key := [32]byte(h.Sum(nil))
	if m, ok := d.modules[key]; ok {
		return m, nil
	}
	d.loading.Store(time.Now().UnixNano())
	defer func() {
		d.seen.Store(time.Now().UnixNano())
		d.loading.Store(0)
	}()
	code, err := impl.Code()
	if err != nil {
		return module{}, err
	}
	from := image{code, code}
	if impl.Dialect == graph.CUDAC {
		if from, err = d.compile(key, code); err != nil {
			return module{}, err
		}
	}
	handle, err := d.load(from.code)
	if err != nil {
		return module{}, err
	}
	if d.modules == nil {
		d.modules = make(map[[32]byte]module)
	}
	m := module{handle, from.ptx}
	d.modules[key] = m
	return m, nil
}

// load gives PTX or machine code to the driver.
func (d *device) load(image []byte) (uintptr, error) {
	if len(image) == 0 {
		return 0, errors.New("its source is empty")
	}
	f := getFrame()
	defer f.free()
	const room = 8 << 10
	log := make([]byte, room)
	f.out[0], f.out[1] = jitErrorLog|jitErrorLogSize<<32, 0
	put(f, 2, [2]uintptr{f.bytes(log), room})
	// PTX ends with a zero; machine code knows its own size.
	image = append(append(make([]byte, 0, len(image)+1), image...), 0)
	a := d.api
	err := a.do(f, &a.moduleLoad, f.at(8), f.bytes(image), 2, f.at(0), f.at(2))
	var e *Error
	if errors.As(err, &e) {
		text, _, _ := strings.Cut(string(log), "\x00")
		e.Log = strings.Join(strings.Fields(text), " ")
		return 0, e
	}
	return uintptr(f.out[8]), nil
}

// classes is the number of size classes. Steps that name their block have as many again.
const classes = 64

// class is the size class of a step: tasks of similar extent take similar time.
func class(l *graph.Launch) int {
	n := uint64(1)
	for _, g := range l.Grid {
		n *= uint64(max(g, 1))
	}
	c := bits.Len64(n) % classes
	if l.Block[0] != 0 {
		c += classes
	}
	return c
}

// estimate fills in what an operation is expected to take.
func (d *device) estimate(o *op) {
	if o.direction != 0 {
		o.est = 3000 + float64(o.bytes)/25
		if o.bytes > shortBytes {
			o.est = max(o.est, shortNS+1)
		}
		return
	}
	if len(o.task.Steps) != 1 {
		// Nothing is expected of several steps, so none of them waits in a bundle:
		// recording a task relies on that.
		return
	}
	s := &o.task.Steps[0]
	k := d.kernel(s.Kernel)
	if k.err != nil || len(k.variants) == 0 {
		return
	}
	o.times = d.timing(k, class(&s.Launch))
	o.est = o.times.ns
}

// start puts an operation's work on a stream. began says whether anything got
// there, even when an error follows.
func (d *device) start(o *op, s *stream) (began bool, err error) {
	a := d.api
	switch o.direction {
	case 0:
		return d.startTask(o, s)
	case into:
		if o.bytes == 0 {
			return true, nil
		}
		if d.copier != 0 && o.bytes <= shortBytes && !o.pageable && len(o.cuts) == 0 {
			d.copyShort(o, o.dst, uintptr(unsafe.Pointer(&o.host[0])), s)
			break
		}
		err = d.copyHost(o, s)
	case out:
		if o.bytes == 0 {
			return true, nil
		}
		if d.copier != 0 && o.bytes <= shortBytes && !o.pageable && len(o.cuts) == 0 {
			d.copyShort(o, uintptr(unsafe.Pointer(&o.host[0])), o.src, s)
			break
		}
		err = d.copyHost(o, s)
	case inside:
		if o.bytes == 0 {
			return true, nil
		}
		d.flush(s)
		err = d.called(&a.copyWithin, a.code(d.f, &a.copyWithin, o.dst, o.src, uintptr(o.bytes), s.handle))
	case peer:
		if o.bytes == 0 {
			return true, nil
		}
		if o.src, err = o.from.memory.at(o.srcBuf, o.srcOff, o.bytes); err != nil {
			break
		}
		d.flush(s)
		if o.from.num == d.num { // the same GPU, opened twice
			err = d.called(&a.copyWithin, a.code(d.f, &a.copyWithin, o.dst, o.src, uintptr(o.bytes), s.handle))
			break
		}
		err = d.called(&a.copyPeer, a.code(d.f, &a.copyPeer, o.dst, d.ctx, o.src, o.from.ctx, uintptr(o.bytes), s.handle))
	}
	if err != nil {
		return false, fmt.Errorf("cuda: copy %d bytes on %s: %w", o.bytes, d.info.Name, err)
	}
	return true, nil
}

// copyHost copies between host and device by the GPU's copy engines, in parts
// where the host memory is page-locked in parts.
func (d *device) copyHost(o *op, s *stream) error {
	d.flush(s)
	a := d.api
	host := uintptr(unsafe.Pointer(&o.host[0]))
	for i, at := 0, int64(0); at < o.bytes; i++ {
		end := o.bytes
		if i < len(o.cuts) && !o.pageable {
			end = o.cuts[i]
		}
		var err error
		if n := uintptr(end - at); o.direction == into {
			err = d.called(&a.copyIn, a.code(d.f, &a.copyIn, o.dst+uintptr(at), host+uintptr(at), n, s.handle))
		} else {
			err = d.called(&a.copyOut, a.code(d.f, &a.copyOut, host+uintptr(at), o.src+uintptr(at), n, s.handle))
		}
		if err != nil {
			return err
		}
		at = end
	}
	return nil
}

// copyPTX is the kernel that makes short copies.
//
//go:generate testdata/generate.sh
//go:embed copy.ptx
var copyPTX []byte

// openCopier loads the kernel for short copies, where kernels see page-locked
// host memory under its own addresses.
func (d *device) openCopier() {
	if d.api.attribute(d.f, d.num, attrHostPointers) == 0 {
		return
	}
	m, err := d.load(copyPTX)
	if err == nil {
		d.modules = map[[32]byte]module{{}: {handle: m}}
		err = d.api.do(d.f, &d.api.moduleFunction, d.f.at(0), m, d.f.string("weft_copy"))
	}
	if err != nil {
		d.log.Warn("short copies will be slow", "device", d.info.Name, "err", err)
		return
	}
	d.copier = uintptr(d.f.out[0])
}

// copyShort gathers a copy by a kernel.
func (d *device) copyShort(o *op, to, from uintptr, s *stream) {
	const threads = 128
	o.ptrs = append(o.ptrs[:0], to, from, uintptr(o.bytes))
	blocks := uint32(o.bytes+16*threads-1) / (16 * threads)
	d.gather(s, gathered{of: o, fn: d.copier, grid: [3]uint32{blocks, 1, 1}, block: [3]uint32{threads, 1, 1}, ptrs: o.ptrs})
}

// called turns a result into an error, and loses the device where it must.
func (d *device) called(p *proc, code int32) error {
	if code == 0 {
		return nil
	}
	err := d.api.err(p, code)
	if lost(code) {
		d.lose(err)
	}
	return err
}

// startTask launches the steps of a task.
func (d *device) startTask(o *op, s *stream) (began bool, err error) {
	t := o.task
	for i := range t.Steps {
		if k := d.kernel(t.Steps[i].Kernel); k.err != nil {
			return false, k.err
		}
	}
	if len(t.Steps) >= replayFrom {
		d.flush(s)
		done, err := d.replays.run(d, o, s)
		if err != nil {
			return true, fmt.Errorf("%s: %w", kernelNames(t), err)
		}
		if done {
			return true, nil
		}
	}
	return d.startSteps(o, s)
}

// startSteps launches the steps one by one.
func (d *device) startSteps(o *op, s *stream) (began bool, err error) {
	for i := range o.task.Steps {
		step := &o.task.Steps[i]
		k := d.kernel(step.Kernel)
		if len(k.variants) == 0 {
			began = true // nothing to do, in its turn
			continue
		}
		ptrs, err := o.args(step)
		if err != nil {
			return began, fmt.Errorf("kernel %q: %w", k.name, err)
		}
		all := k.choices(&step.Launch)
		v := all[0]
		probing := false
		var t *timing
		if len(all) > 1 {
			t = d.timing(k, class(&step.Launch))
			var n int
			n, probing = t.pick(len(all))
			v = all[n]
			if probing {
				d.flush(s)
				probing = d.probe.begin(d, o, s, k, t, n)
			}
		}
		if v.library != nil {
			d.flush(s)
			o.launched = true // it may launch several
			err = v.library(d, o, s, ptrs, step.Params)
		} else {
			err = d.launch(v, step, ptrs, o, s, o.est > 0 && o.est <= shortNS && !probing)
		}
		if probing {
			d.probe.end(d, s)
		}
		if err != nil {
			if d.dead.Load() == nil && !errors.Is(err, driver.ErrKernel) && !errors.Is(err, driver.ErrDependency) {
				why := driver.ErrKernel
				if errors.Is(err, graph.ErrParams) {
					why = driver.ErrUnfit
				}
				err = fmt.Errorf("%w: %w", why, err)
			}
			return began || o.comm != nil, fmt.Errorf("kernel %q: %w", k.name, err)
		}
		began, o.launched = true, true
	}
	return true, nil
}

// args returns the arguments of a step. They stay where they are for as long as
// the operation: a launch may wait in a bundle.
func (o *op) args(s *graph.Step) ([]uintptr, error) {
	if s.Args == nil {
		return o.ptrs, nil
	}
	at := len(o.picked)
	picked, err := driver.StepArgs(s, o.ptrs, o.picked)
	if err != nil {
		return nil, err
	}
	o.picked = picked
	return picked[at:], nil
}

// launch starts one kernel, or gathers it for the stream when it is short.
func (d *device) launch(v *variant, step *graph.Step, ptrs []uintptr, o *op, s *stream, short bool) error {
	n := len(ptrs)
	if n > maxArgs || len(step.Params) > maxParams {
		return fmt.Errorf("%w: %d arguments and %d bytes of parameters; at most %d and %d can be passed", driver.ErrUnfit, n, len(step.Params), maxArgs, maxParams)
	}
	n, err := v.sign.takes(v.impl.Entry, n, len(step.Params))
	if err != nil {
		return err
	}
	ptrs = ptrs[:n]
	l := v.shape(step.Launch)
	for i := range l.Block {
		l.Block[i] = max(l.Block[i], 1)
	}
	together := l.Cluster[0] > 0 || l.Cooperative
	if short && !together && v.proven.covers(&l) {
		d.gather(s, gathered{o, v.fn, l.Grid, l.Block, uint32(l.SharedBytes), ptrs, step.Params})
		return nil
	}
	d.flush(s)
	d.layArgs(ptrs, step.Params)
	a := d.api
	if l.SharedBytes > defaultDynamicShared && l.SharedBytes > v.shared {
		if err := d.called(&a.funcSetAttribute, a.code(d.f, &a.funcSetAttribute, v.fn, funcMaxDynamicShared, uintptr(l.SharedBytes))); err != nil {
			return fmt.Errorf("%d bytes of shared memory: %w", l.SharedBytes, err)
		}
		v.shared = l.SharedBytes
	}
	if together {
		return d.launchEx(v, &l, s)
	}
	err = d.called(&a.launch, a.code(d.f, &a.launch, v.fn,
		uintptr(l.Grid[0]), uintptr(l.Grid[1]), uintptr(l.Grid[2]),
		uintptr(l.Block[0]), uintptr(l.Block[1]), uintptr(l.Block[2]),
		uintptr(l.SharedBytes), s.handle, d.block+pointsAt, 0))
	if err == nil {
		v.proven.saw(&l)
	}
	return err
}

// launchEx starts a kernel whose blocks work together: in clusters, or all.
func (d *device) launchEx(v *variant, l *graph.Launch, s *stream) error {
	a := d.api
	c := (*struct {
		launchConfig
		attrs [2]launchAttr
	})(pointer(d.block + configAt))
	c.launchConfig = launchConfig{grid: l.Grid, block: l.Block, shared: uint32(l.SharedBytes), stream: s.handle}
	c.launchConfig.attrs = uintptr(unsafe.Pointer(&c.attrs))
	if l.Cooperative {
		c.attrs[c.numAttrs] = launchAttr{id: attrCooperative, value: [16]uint32{1}}
		c.numAttrs++
	}
	if l.Cluster[0] > 0 {
		x, y, z := l.Cluster[0], max(l.Cluster[1], 1), max(l.Cluster[2], 1)
		c.attrs[c.numAttrs] = launchAttr{id: attrCluster, value: [16]uint32{x, y, z}}
		c.numAttrs++
		if x*y*z > portableCluster && !v.wide {
			if err := d.called(&a.funcSetAttribute, a.code(d.f, &a.funcSetAttribute, v.fn, funcAnyClusterSize, 1)); err != nil {
				return fmt.Errorf("clusters of %d blocks: %w", x*y*z, err)
			}
			v.wide = true
		}
	}
	code := a.code(d.f, &a.launchEx, d.block+configAt, v.fn, d.block+pointsAt, 0)
	return d.tooLarge(v, l, code, d.called(&a.launchEx, code))
}

// kernelNames names the kernels of a task.
func kernelNames(t *graph.Task) string {
	var names []string
	for i := range t.Steps {
		if k := t.Steps[i].Kernel; k != nil && (len(names) == 0 || names[len(names)-1] != strconv.Quote(k.Name)) {
			names = append(names, strconv.Quote(k.Name))
		}
	}
	const few = 4
	if len(names) > few {
		names = append(names[:few], "…")
	}
	if len(names) == 1 {
		return "kernel " + names[0]
	}
	return "kernels " + strings.Join(names, ", ")
}
