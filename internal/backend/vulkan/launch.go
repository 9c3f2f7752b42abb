package vulkan

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
)

// kernel is a kernel as this device can run it. Without variants there is nothing
// to do.
type kernel struct {
	name     string
	variants []variant
	timings  map[int]*timing // by size class
	err      error           // why it cannot run
}

// module is a shader the driver was given, with the pipelines made of it.
type module struct {
	*shader
	id        string // of its source
	handle    uint64
	err       error // why it was not
	pipelines map[pipelineKey]uint64
}

// pipelineKey holds the parameters that a shader is compiled with.
type pipelineKey struct {
	arguments int
	block     [3]uint32 // where the shader leaves it open
}

// layout describes a number of buffers to the driver, as a shader gets them.
type layout struct {
	sets, pipeline uint64
}

// maxKernels bounds the kernels remembered by address.
const maxKernels = 4096

// kernel finds or makes the device's form of a kernel: the implementations that the
// device can run. The caller holds build.
func (d *device) kernel(k *graph.Kernel) *kernel {
	if k == nil {
		return &kernel{err: fmt.Errorf("%w: a step names no kernel", driver.ErrUnfit)}
	}
	if found := d.kernels[k]; found != nil {
		return found
	}
	if len(d.kernels) >= maxKernels {
		clear(d.kernels)
	}
	found := &kernel{name: k.Name, timings: make(map[int]*timing)}
	d.kernels[k] = found
	var reasons []error
	for i := range k.Impls {
		impl := &k.Impls[i]
		if impl.Dialect != graph.SPIRV && impl.Dialect != graph.GLSL {
			continue
		}
		if len(found.variants) > 0 && impl.Dialect != found.variants[0].impl.Dialect {
			continue // the same in another language
		}
		if impl.Entry == "" {
			found.variants = nil
			return found
		}
		m := d.module(impl)
		if m.err != nil {
			reasons = append(reasons, m.err)
			continue
		}
		found.variants = append(found.variants, d.variants(impl, m)...)
	}
	if slices.ContainsFunc(reasons, passing) {
		delete(d.kernels, k) // the next time may be better
	}
	if len(found.variants) > 0 {
		return found
	}
	if len(reasons) == 0 {
		reasons = append(reasons, errors.New("it has no implementation in SPIR-V or GLSL"))
	}
	found.err = d.kernelError(k, errors.Join(reasons...))
	return found
}

// kernelError is why a kernel cannot run: its own fault, unless the device has no
// memory left or is lost.
func (d *device) kernelError(k *graph.Kernel, err error) error {
	switch {
	case errors.Is(err, driver.ErrKernel), errors.Is(err, driver.ErrOutOfMemory), isLost(err):
	case passing(err):
		err = fmt.Errorf("%w: %w", driver.ErrKernel, err)
	default:
		err = fmt.Errorf("%w: %w", driver.ErrUnfit, err)
	}
	return fmt.Errorf("kernel %q: %w", k.Name, err)
}

// passing reports whether what an error tells of may be gone the next time: want of
// memory or of a compiler, or the device's loss.
func passing(err error) bool {
	return errors.Is(err, driver.ErrOutOfMemory) || errors.Is(err, driver.ErrUnavailable) || isLost(err)
}

// module gives a shader to the driver. It does so once, unless the failure may pass.
func (d *device) module(impl *graph.Impl) *module {
	h := sha256.New()
	fmt.Fprintf(h, "%s %q\n", impl.Dialect, impl.Entry)
	h.Write(impl.Source)
	key := [32]byte(h.Sum(nil))
	m := d.modules[key]
	if m == nil {
		m = &module{id: fmt.Sprintf("%x", key[:8]), pipelines: make(map[pipelineKey]uint64)}
		if m.err = d.load(m, impl); !passing(m.err) {
			d.modules[key] = m
		}
	}
	return m
}

func (d *device) load(m *module, impl *graph.Impl) (err error) {
	source := impl.Source
	if len(source) == 0 {
		return errors.New("its source is empty")
	}
	if impl.Dialect == graph.GLSL {
		if source, err = compile(source); err != nil {
			return err
		}
	}
	if m.shader, err = readShader(source, impl.Entry); err != nil {
		return err
	}
	for _, c := range capabilities {
		if slices.Contains(m.capabilities, c.id) && !d.can[c.id] {
			return fmt.Errorf("it needs %s, which the device does not have", c.name)
		}
	}
	f := getFrame()
	defer f.free()
	m.handle, err = create(f, &d.c.createModule, d.handle, shaderInfo{head: head{typ: tShaderModule}, size: uint64(4 * len(m.words)), code: list(f, m.words)})
	m.words = nil // the driver has them
	return refused(err)
}

// refused returns the error for a shader that the driver did not take. A code without
// a meaning stands for a bad shader here, and for a lost device elsewhere.
func refused(err error) error {
	if e := (*Error)(nil); errors.As(err, &e) && e.Code == unknown {
		return fmt.Errorf("the driver cannot compile it: %v", e)
	}
	return err
}

// layout finds or makes the layout for n buffers.
func (d *device) layout(n int) (*layout, error) {
	if l := d.layouts[n]; l != nil {
		return l, nil
	}
	f := getFrame()
	defer f.free()
	var bs []setBinding
	for i := range n {
		bs = append(bs, setBinding{index: uint32(i), kind: storageBuffer, count: 1, stages: stageCompute})
	}
	l := &layout{}
	var err error
	if l.sets, err = create(f, &d.c.createSets, d.handle, setLayoutInfo{head: head{typ: tSetLayout}, count: uint32(n), bindings: list(f, bs)}); err != nil {
		return nil, err
	}
	push := put(f, pushRange{stages: stageCompute, size: uint32(d.limits.pushBytes)})
	l.pipeline, err = create(f, &d.c.createLayout, d.handle, layoutInfo{head: head{typ: tPipelineLayout}, sets: 1, setAt: put(f, l.sets), ranges: 1, rangeAt: push})
	if err != nil {
		f.call(&d.c.destroySets, d.handle, uintptr(l.sets), 0)
		return nil, err
	}
	d.layouts[n] = l
	return l, nil
}

// pipeline compiles a shader for n buffers and a group size.
func (d *device) pipeline(m *module, entry string, n int, block [3]uint32) (uint64, error) {
	key := pipelineKey{arguments: n}
	if m.sized() {
		key.block = block
	}
	if p, ok := m.pipelines[key]; ok {
		return p, nil
	}
	l, err := d.layout(n)
	if err != nil {
		return 0, err
	}
	f := getFrame()
	defer f.free()
	info := pipelineInfo{
		head: head{typ: tComputePipeline}, flags: dispatchBaseFlag, layout: l.pipeline,
		stage: stageInfo{head: head{typ: tShaderStage}, stage: stageCompute, module: m.handle, name: f.string(entry)},
	}
	var sets []constant
	for i, open := range m.open {
		if open {
			sets = append(sets, constant{uint32(i), uint32(4 * i), 4})
		}
	}
	if len(sets) > 0 {
		info.stage.constants = put(f, constantsInfo{count: uint32(len(sets)), entries: list(f, sets), size: 12, data: put(f, block)})
	}
	out := answer[uint64](f)
	if err := f.do(&d.c.createPipelines, d.handle, uintptr(d.cache), 1, put(f, info), 0, address(out)); err != nil {
		return 0, refused(err)
	}
	m.pipelines[key] = *out
	return *out, nil
}

// dropKernels gives back all that was made for kernels.
func (d *device) dropKernels(f *frame) {
	for _, m := range d.modules { // in any order: they are independent
		for _, p := range m.pipelines {
			f.call(&d.c.dropPipeline, d.handle, uintptr(p), 0)
		}
		f.call(&d.c.destroyModule, d.handle, uintptr(m.handle), 0)
	}
	for _, l := range d.layouts { // likewise
		f.call(&d.c.destroyLayout, d.handle, uintptr(l.pipeline), 0)
		f.call(&d.c.destroySets, d.handle, uintptr(l.sets), 0)
	}
}

// prepared is a step that can be recorded.
type prepared struct {
	pipeline uint64
	grid     [3]uint32
	params   []byte
	step     *graph.Step
	layout   *layout
	measures *measurement // nil when there is nothing to find out
}

// prepare finds the pipelines of a task's steps and checks what they are given.
func (d *device) prepare(t *graph.Task, arguments int) (steps []prepared, err error) {
	d.build.Lock()
	defer d.build.Unlock()
	for i := range t.Steps {
		s := &t.Steps[i]
		k := d.kernel(s.Kernel)
		if k.err != nil {
			return nil, k.err
		}
		if len(k.variants) == 0 {
			continue
		}
		n := arguments
		if s.Args != nil {
			n = len(s.Args)
		}
		p, err := d.prepareStep(k, s, n)
		if err == nil {
			p.step = s
			p.layout, err = d.layout(n)
		}
		if err != nil {
			return nil, d.kernelError(s.Kernel, err)
		}
		steps = append(steps, p)
	}
	return steps, nil
}

// checkStep refuses buffers and parameters that some variant of a kernel cannot take.
// All variants of a kernel take the same, so that none of them is to blame.
func (d *device) checkStep(k *kernel, s *graph.Step, arguments int) error {
	switch {
	case arguments > d.limits.arguments:
		return fmt.Errorf("%d buffers; the device takes %d", arguments, d.limits.arguments)
	case len(s.Params) > d.limits.pushBytes:
		return fmt.Errorf("%d bytes of parameters; the device takes %d", len(s.Params), d.limits.pushBytes)
	}
	for i := range k.variants {
		m := k.variants[i].module
		if m.bindings > arguments {
			return fmt.Errorf("its shader has %d buffers, given are %d", m.bindings, arguments)
		}
		if err := m.checkParams(len(s.Params)); err != nil {
			return err
		}
	}
	return nil
}

// prepareStep picks a variant of a kernel. Those that the device's limits forbid
// are left out as long as there are others. If all are forbidden, the launch is at
// fault, and none is left out of later launches.
func (d *device) prepareStep(k *kernel, s *graph.Step, arguments int) (p prepared, err error) {
	if err := d.checkStep(k, s, arguments); err != nil {
		return p, err
	}
	class := classOf(s.Launch)
	t := d.timing(k, class)
	var first error
	var before timing // the first was left out
	for range k.variants {
		i := t.pick()
		if p, err = d.prepareVariant(&k.variants[i], s, arguments); err == nil {
			if !t.decided {
				p.measures = &measurement{k, class, i}
			}
			return p, nil
		}
		if passing(err) {
			return p, err
		}
		if first == nil {
			first, before = err, t.clone()
		}
		t.without(i)
	}
	*t = before
	return p, first
}

func (d *device) prepareVariant(v *variant, s *graph.Step, arguments int) (p prepared, err error) {
	m, shape := v.module, v.shape(s.Launch)
	for i := range shape.Block {
		shape.Block[i] = max(shape.Block[i], 1)
	}
	group := m.group(shape.Block)
	switch n := uint64(group[0]) * uint64(group[1]) * uint64(group[2]); {
	case shape.Cooperative || shape.Cluster[0] > 0:
		return p, errors.New("groups that wait for one another cannot be had from Vulkan")
	case shape.SharedBytes > 0:
		return p, errors.New("a shader declares its shared memory by itself")
	case group != shape.Block:
		return p, fmt.Errorf("its shader is compiled for groups of %d, launched with %d", group, shape.Block)
	case group[0] > d.limits.groupSize[0] || group[1] > d.limits.groupSize[1] || group[2] > d.limits.groupSize[2] || n > uint64(d.limits.invocations):
		return p, fmt.Errorf("groups of %d; the device takes %d, and %d invocations", group, d.limits.groupSize, d.limits.invocations)
	case m.sharedBytes(group) > d.limits.sharedBytes:
		return p, fmt.Errorf("groups that share %d bytes; the device has %d for a group", m.sharedBytes(group), d.limits.sharedBytes)
	}
	p.pipeline, err = d.pipeline(m, v.impl.Entry, arguments, group)
	p.grid = shape.Grid
	p.params = append(slices.Clip(s.Params), make([]byte, -len(s.Params)&3)...)
	return p, err
}

// launch records the steps of a task and gives them to the GPU.
func (l *lane) launch(o *op) (err error) {
	d := l.dev
	steps, err := d.prepare(o.task, len(o.args))
	if err != nil {
		return l.failed(err)
	}
	fl := flight{op: o, start: d.board.Now(), secret: o.secret}
	fl.measures, fl.steps = measurementOf(steps), len(steps)
	if len(steps) > 0 || len(l.waits) > 0 {
		if fl.slot, err = l.take(); err != nil {
			return err
		}
		defer func() {
			if err != nil { // nothing got to the GPU
				d.memory.unscratch(d, fl.scratch, false)
				l.free <- fl.slot
			}
		}()
		if len(steps) > 0 {
			if fl.scratch, err = l.record(fl.slot, o, steps); err != nil {
				return l.failed(fmt.Errorf("%s: %w", kernelNames(o.task), err))
			}
		}
		if fl.value, err = l.submit(fl.slot); err != nil {
			return err
		}
		l.onGPU = o.seq
		l.issued(o, fl.value)
	}
	l.flights <- fl
	return nil
}

// vectorAlign is the alignment of arguments that shaders may rely on: four numbers.
const vectorAlign = 16

// moved is an argument that lies where shaders cannot be given it, and where it
// was moved.
type moved struct {
	home, away place
	back       bool // the kernel writes it
}

// record writes the commands of a task: arguments, then dispatches with barriers
// between them.
func (l *lane) record(s *slot, o *op, steps []prepared) (scratch []buffer, err error) {
	d, f, c := l.dev, l.f, l.dev.c
	args, moves := o.args, []moved(nil)
	for i, a := range o.args {
		if a.off%max(d.limits.offsetAlign, vectorAlign) == 0 {
			continue
		}
		b, err := d.memory.scratch(d, a.bytes)
		if err != nil {
			return scratch, err
		}
		scratch = append(scratch, b)
		if len(moves) == 0 {
			args = slices.Clone(args)
		}
		args[i] = b.place
		written := i >= len(o.task.Uses) || len(o.task.Uses) > len(o.args) || o.task.Uses[i].Access.Writes()
		moves = append(moves, moved{a, b.place, written})
	}
	for _, m := range moves {
		l.copyPlaces(s, m.home, m.away)
	}
	if len(moves) > 0 {
		l.barrier(s, false)
	}
	sets, err := l.bind(s, args, steps)
	if err != nil {
		return scratch, err
	}
	for i, p := range steps {
		if i > 0 {
			l.barrier(s, false)
		}
		if sets[i] != 0 && (i == 0 || sets[i] != sets[i-1]) {
			f.call(&c.bindSets, s.commands, bindCompute, uintptr(p.layout.pipeline), 0, 1, put(f, sets[i]), 0, 0)
		}
		f.call(&c.bindPipeline, s.commands, bindCompute, uintptr(p.pipeline))
		if len(p.params) > 0 {
			f.call(&c.push, s.commands, uintptr(p.layout.pipeline), stageCompute, 0, uintptr(len(p.params)), list(f, p.params))
		}
		l.dispatch(s, p.grid)
	}
	if slices.ContainsFunc(moves, func(m moved) bool { return m.back }) {
		l.barrier(s, false)
		for _, m := range moves {
			if m.back {
				l.copyPlaces(s, m.away, m.home)
			}
		}
	}
	return scratch, nil
}

func (l *lane) copyPlaces(s *slot, from, to place) {
	l.f.call(&l.dev.c.copyBuffer, s.commands, uintptr(from.buffer), uintptr(to.buffer), 1,
		put(l.f, bufferCopy{uint64(from.off), uint64(to.off), uint64(from.bytes)}))
}

// dispatch starts a grid, in parts of what the device takes at once.
func (l *lane) dispatch(s *slot, grid [3]uint32) {
	c, most := l.dev.c, l.dev.limits.groups
	for z := uint32(0); z < grid[2]; z += min(most[2], grid[2]-z) {
		for y := uint32(0); y < grid[1]; y += min(most[1], grid[1]-y) {
			for x := uint32(0); x < grid[0]; x += min(most[0], grid[0]-x) {
				l.f.call(&c.dispatchBase, s.commands, uintptr(x), uintptr(y), uintptr(z),
					uintptr(min(most[0], grid[0]-x)), uintptr(min(most[1], grid[1]-y)), uintptr(min(most[2], grid[2]-z)))
			}
		}
	}
}

// bind writes the arguments of steps into descriptor sets: one for all steps that
// have all arguments of the task, one for each other. A step without arguments has
// none, which is 0.
func (l *lane) bind(s *slot, args []place, steps []prepared) (sets []uint64, err error) {
	most, buffers, whole := 1, len(args), uint64(0)
	for i := range steps {
		if own := steps[i].step.Args; own != nil {
			most, buffers = most+1, buffers+len(own)
		}
	}
	if buffers == 0 {
		return make([]uint64, len(steps)), nil
	}
	if err := l.reserve(s, most, buffers); err != nil {
		return nil, err
	}
	for i := range steps {
		p := &steps[i]
		all := p.step.Args == nil
		if all && whole != 0 {
			sets = append(sets, whole)
			continue
		}
		mine, err := driver.StepArgs(p.step, args, nil)
		if err != nil {
			return nil, fmt.Errorf("kernel %q: %w", p.step.Kernel.Name, err)
		}
		var set uint64
		if len(mine) > 0 {
			if set, err = l.newSet(s, mine, p.layout); err != nil {
				return nil, err
			}
		}
		if all {
			whole = set
		}
		sets = append(sets, set)
	}
	return sets, nil
}

// reserve empties a slot's pool of descriptors and gives it room for a number of
// sets and of buffers.
func (l *lane) reserve(s *slot, sets, buffers int) error {
	d, f := l.dev, l.f
	if s.descriptors != 0 && sets <= s.sets && buffers <= s.buffers {
		return f.do(&d.c.resetDescriptors, d.handle, uintptr(s.descriptors), 0)
	}
	f.call(&d.c.destroyDescriptors, d.handle, uintptr(s.descriptors), 0)
	s.descriptors, s.sets, s.buffers = 0, max(sets, s.sets), max(buffers, s.buffers, d.limits.arguments)
	size := put(f, poolSize{storageBuffer, uint32(s.buffers)})
	var err error
	s.descriptors, err = create(f, &d.c.createDescriptors, d.handle, descriptorPoolInfo{head: head{typ: tDescriptorPool}, sets: uint32(s.sets), sizes: 1, sizeAt: size})
	return err
}

// newSet writes arguments into a descriptor set.
func (l *lane) newSet(s *slot, args []place, lay *layout) (uint64, error) {
	d, f := l.dev, l.f
	set := answer[uint64](f)
	if err := f.do(&d.c.allocSets, d.handle, put(f, setAllocate{head: head{typ: tSetAllocate}, pool: s.descriptors, count: 1, layouts: put(f, lay.sets)}), address(set)); err != nil {
		return 0, err
	}
	ranges := make([]bufferRange, len(args))
	for i, a := range args {
		ranges[i] = bufferRange{a.buffer, uint64(a.off), uint64(a.bytes)}
	}
	f.call(&d.c.updateSets, d.handle, 1, put(f, writeSet{
		head: head{typ: tWriteSet}, set: *set, count: uint32(len(args)), kind: storageBuffer, buffer: list(f, ranges),
	}), 0, 0)
	return *set, nil
}

// maxArguments bounds the buffers of a step, whatever a device takes.
const maxArguments = 256
