package cuda

import (
	"fmt"
	"unsafe"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
)

var cudnnNames = []string{"libcudnn.so.9", "libcudnn.so.8", "libcudnn.so"}

// cudnn is NVIDIA's library for neural networks. Only its convolution is used.
type cudnn struct {
	lib                                                          *library
	create, destroy, setStream, errorString                      proc
	newTensor, newFilter, newConv, setTensor, setFilter, setConv proc
	mathType, findAlgorithm, forward                             proc
	handles                                                      map[*stream]uintptr
	plans                                                        map[dnnConvolution]*planned
	work                                                         map[*stream]workspace
}

// workspace is scratch memory of a stream, as large as any plan on it needed.
type workspace struct {
	addr  uintptr
	bytes uint64
}

// dnnConvolution is a convolution that cuDNN has chosen an algorithm for.
type dnnConvolution struct {
	graph.Conv2D
	tf32 bool // the tensor cores may round to TF32
}

type planned struct {
	x, filter, y, conv uintptr // descriptors
	algo               uintptr
	work               uint64
}

// maxWorkspace bounds what an algorithm may take.
const maxWorkspace = 1 << 30

func (c *cudnn) open(folders []string) error {
	if c.lib != nil {
		return nil
	}
	// cuDNN looks for cuBLAS by name alone: where that is in a folder the system
	// does not search, it must be there before.
	_, _ = open(folders, cublasNames...)
	lib, err := open(folders, cudnnNames...)
	if err != nil {
		return err
	}
	c.errorString = lib.bind("cudnnGetErrorString")
	for _, b := range []struct {
		to   *proc
		name string
	}{
		{&c.create, "cudnnCreate"}, {&c.destroy, "cudnnDestroy"}, {&c.setStream, "cudnnSetStream"},
		{&c.newTensor, "cudnnCreateTensorDescriptor"}, {&c.newFilter, "cudnnCreateFilterDescriptor"},
		{&c.newConv, "cudnnCreateConvolutionDescriptor"}, {&c.setTensor, "cudnnSetTensor4dDescriptor"},
		{&c.setFilter, "cudnnSetFilter4dDescriptor"}, {&c.setConv, "cudnnSetConvolution2dDescriptor"},
		{&c.mathType, "cudnnSetConvolutionMathType"}, {&c.findAlgorithm, "cudnnFindConvolutionForwardAlgorithmEx"},
		{&c.forward, "cudnnConvolutionForward"},
	} {
		if *b.to = lib.bind(b.name); b.to.addr == 0 {
			return fmt.Errorf("%s has no %s", lib.path, b.name)
		}
	}
	c.lib = lib
	c.handles, c.plans, c.work = make(map[*stream]uintptr), make(map[dnnConvolution]*planned), make(map[*stream]workspace)
	return nil
}

func (c *cudnn) do(f *frame, p *proc, args ...uintptr) error {
	code := int32(f.call(p, args...))
	if code == 0 {
		return nil
	}
	text := ""
	if c.errorString.addr != 0 {
		text = cString(f.call(&c.errorString, uintptr(code)), 256)
	}
	return fmt.Errorf("%w: %s: cuDNN status %d: %s", driver.ErrKernel, p.name, code, text)
}

func (c *cudnn) handle(f *frame, s *stream) (uintptr, error) {
	if h := c.handles[s]; h != 0 {
		return h, nil
	}
	if err := c.do(f, &c.create, f.at(0)); err != nil {
		return 0, err
	}
	h := uintptr(f.out[0])
	if err := c.do(f, &c.setStream, h, s.handle); err != nil {
		return 0, err
	}
	c.handles[s] = h
	return h, nil
}

func (c *cudnn) close() {
	f := getFrame()
	defer f.free()
	for _, h := range c.handles { // in any order: they are independent
		_ = c.do(f, &c.destroy, h) // the context takes what is left with it
	}
	clear(c.handles)
}

// scratch returns at least n bytes for work on a stream. What it replaces is
// freed by the stream itself, behind the work that uses it.
func (c *cudnn) scratch(d *device, s *stream, n uint64) (uintptr, error) {
	w := c.work[s]
	if w.bytes >= n {
		return w.addr, nil
	}
	a := d.api
	if w.addr != 0 {
		if err := d.called(&a.memFreeAsync, a.code(d.f, &a.memFreeAsync, w.addr, s.handle)); err != nil {
			return 0, err
		}
		delete(c.work, s)
	}
	if err := d.called(&a.memAllocAsync, a.code(d.f, &a.memAllocAsync, d.f.at(0), uintptr(n), s.handle)); err != nil {
		return 0, fmt.Errorf("%d bytes of workspace: %w", n, err)
	}
	w = workspace{uintptr(d.f.out[0]), n}
	c.work[s] = w
	return w.addr, nil
}

// algorithmPerf is cudnnConvolutionFwdAlgoPerf_t.
type algorithmPerf struct {
	algo, status int32
	_            float32 // its time; they come fastest first
	memory       uint64
	_            [5]int32 // whether it is deterministic; the mathematics used
}

// sums reports whether the algorithm adds up products of inputs and weights, and so rounds like
// such a sum. The algorithms by Fourier transforms (4, 5) and by Winograd (6, 7) round
// intermediate values that are larger.
func (a *algorithmPerf) sums() bool { return a.algo < 4 }

var convolution = graph.Unpacker[graph.Conv2D]()

// conv2d is the routine that convolves x (N×C×H×W) with w (K×C×R×S) into y.
func conv2d(tf32 bool) routine {
	return func(d *device, o *op, s *stream, ptrs []uintptr, params []byte) error {
		p, err := convolution(params)
		if err != nil {
			return err
		}
		if len(ptrs) < 3 {
			return fmt.Errorf("%w: a convolution takes x, w and y, given are %d buffers", driver.ErrUnfit, len(ptrs))
		}
		return d.dnn.convolve(d, s, dnnConvolution{p, tf32}, ptrs)
	}
}

func (c *cudnn) convolve(d *device, s *stream, p dnnConvolution, ptrs []uintptr) error {
	f := d.f
	h, err := c.handle(f, s)
	if err != nil {
		return err
	}
	l := c.plans[p]
	if l == nil {
		if l, err = c.plan(d, s, h, p, ptrs); err != nil {
			return err
		}
		c.plans[p] = l
	}
	work := uintptr(0)
	if l.work > 0 {
		if work, err = c.scratch(d, s, l.work); err != nil {
			return err
		}
	}
	f.out[0], f.out[1] = 0x3f800000, 0
	return c.do(f, &c.forward, h, f.at(0), l.x, ptrs[0], l.filter, ptrs[1], l.conv, l.algo, work, uintptr(l.work), f.at(1), l.y, ptrs[2])
}

// plan describes a convolution to cuDNN and lets it measure its algorithms on
// the very buffers: y is about to be written anyway.
func (c *cudnn) plan(d *device, s *stream, h uintptr, p dnnConvolution, ptrs []uintptr) (*planned, error) {
	f := d.f
	if p.Stride == 0 || p.H+2*p.Pad < p.R || p.W+2*p.Pad < p.S {
		return nil, fmt.Errorf("%w: a convolution of %d×%d by %d×%d with stride %d and padding %d", driver.ErrUnfit, p.H, p.W, p.R, p.S, p.Stride, p.Pad)
	}
	oh, ow := uintptr((p.H+2*p.Pad-p.R)/p.Stride+1), uintptr((p.W+2*p.Pad-p.S)/p.Stride+1)
	images, filters, channels := uintptr(p.N), uintptr(p.K), uintptr(p.C)
	stride, pad := uintptr(p.Stride), uintptr(p.Pad)
	const nchw, float, crossCorrelation = 0, 0, 1
	const defaultMath, fmaMath = 0, 3
	l := &planned{}
	for _, n := range []struct {
		make *proc
		to   *uintptr
	}{{&c.newTensor, &l.x}, {&c.newTensor, &l.y}, {&c.newFilter, &l.filter}, {&c.newConv, &l.conv}} {
		if err := c.do(f, n.make, f.at(0)); err != nil {
			return nil, err
		}
		*n.to = uintptr(f.out[0])
	}
	math := uintptr(fmaMath)
	if p.tf32 {
		math = defaultMath
	}
	for _, err := range []error{
		c.do(f, &c.setTensor, l.x, nchw, float, images, channels, uintptr(p.H), uintptr(p.W)),
		c.do(f, &c.setTensor, l.y, nchw, float, images, filters, oh, ow),
		c.do(f, &c.setFilter, l.filter, float, nchw, filters, channels, uintptr(p.R), uintptr(p.S)),
		c.do(f, &c.setConv, l.conv, pad, pad, stride, stride, 1, 1, crossCorrelation, float),
		c.do(f, &c.mathType, l.conv, math),
	} {
		if err != nil {
			return nil, err
		}
	}
	const asked = 8 // all that there are
	work, err := c.scratch(d, s, maxWorkspace)
	if err != nil {
		return nil, err
	}
	if err := c.do(f, &c.findAlgorithm, h, l.x, ptrs[0], l.filter, ptrs[1], l.conv, l.y, ptrs[2], asked, f.at(0), f.at(8), work, maxWorkspace); err != nil {
		return nil, err
	}
	found := (*[asked]algorithmPerf)(unsafe.Pointer(&f.out[8]))
	for i := range min(int(f.i32(0)), asked) {
		if a := &found[i]; a.status == 0 && a.memory <= maxWorkspace && (p.tf32 || a.sums()) {
			l.algo, l.work = uintptr(a.algo), a.memory
			return l, nil
		}
	}
	return nil, fmt.Errorf("%w: cuDNN has no algorithm for it", driver.ErrKernel)
}
