package cuda

import (
	"fmt"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
)

// routine is a function of one of NVIDIA's libraries, as a kernel's step: it puts
// work on a stream, with the step's buffers and parameters.
type routine func(d *device, o *op, s *stream, ptrs []uintptr, params []byte) error

// routine finds a library routine by the name an implementation gives it.
//
//	cublas.sgemm      C = A·B in single precision
//	cublas.tf32gemm   the same on tensor cores, inputs rounded to TF32
//	cublas.bf16gemm   A, B and C are bfloat16, sums are single precision
//	cublas.dgemm      double precision
//	cudnn.conv2d      y = x ∗ w
//	cudnn.tf32conv2d  the same on tensor cores, inputs rounded to TF32
//	nccl.allreduce    and its like: see collectives
//
// Their parameters are graph.MatMul, graph.Conv2D and graph.Collective.
func (d *device) routine(name string) (routine, error) {
	switch name {
	case "cublas.sgemm", "cublas.tf32gemm", "cublas.bf16gemm", "cublas.dgemm":
		if err := d.blas.open(d.o.LibraryPath); err != nil {
			return nil, err
		}
		return gemms[name].run, nil
	case "cudnn.conv2d", "cudnn.tf32conv2d":
		if err := d.dnn.open(d.o.LibraryPath); err != nil {
			return nil, err
		}
		return conv2d(name == "cudnn.tf32conv2d"), nil
	}
	if c, ok := collectives[name]; ok {
		if err := d.nccl.open(d.o.LibraryPath); err != nil {
			return nil, err
		}
		return c.routine, nil
	}
	return nil, fmt.Errorf("no library routine is called %q", name)
}

var cublasNames = []string{"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so"}

// cublas is NVIDIA's linear algebra. A handle belongs to a stream, so that its
// workspace is used by one product at a time.
type cublas struct {
	lib                                          *library
	create, destroy, setStream, gemm, statusName proc
	handles                                      map[*stream]uintptr
}

func (b *cublas) open(folders []string) error {
	if b.lib != nil {
		return nil
	}
	lib, err := open(folders, cublasNames...)
	if err != nil {
		return err
	}
	b.create, b.destroy = lib.bind("cublasCreate_v2"), lib.bind("cublasDestroy_v2")
	b.setStream, b.gemm = lib.bind("cublasSetStream_v2"), lib.bind("cublasGemmEx")
	b.statusName = lib.bind("cublasGetStatusString")
	for _, p := range []*proc{&b.create, &b.destroy, &b.setStream, &b.gemm} {
		if p.addr == 0 {
			return fmt.Errorf("%s has no %s; install a newer one", lib.path, p.name)
		}
	}
	b.lib, b.handles = lib, make(map[*stream]uintptr)
	return nil
}

func (b *cublas) do(f *frame, p *proc, args ...uintptr) error {
	code := int32(f.call(p, args...))
	if code == 0 {
		return nil
	}
	text := ""
	if b.statusName.addr != 0 {
		text = cString(f.call(&b.statusName, uintptr(code)), 256)
	}
	err := driver.ErrKernel
	if code == 3 { // CUBLAS_STATUS_ALLOC_FAILED
		err = fmt.Errorf("%w: %w", err, driver.ErrOutOfMemory)
	}
	return fmt.Errorf("%w: %s: cuBLAS status %d: %s", err, p.name, code, text)
}

// handle returns the stream's handle.
func (b *cublas) handle(f *frame, s *stream) (uintptr, error) {
	if h := b.handles[s]; h != 0 {
		return h, nil
	}
	if err := b.do(f, &b.create, f.at(0)); err != nil {
		return 0, err
	}
	h := uintptr(f.out[0])
	if err := b.do(f, &b.setStream, h, s.handle); err != nil {
		return 0, err
	}
	b.handles[s] = h
	return h, nil
}

func (b *cublas) close() {
	f := getFrame()
	defer f.free()
	for _, h := range b.handles { // in any order: they are independent
		_ = b.do(f, &b.destroy, h) // the context takes what is left with it
	}
	clear(b.handles)
}

// gemm is a kind of matrix product.
type gemm struct {
	kind     uintptr // of the elements: cudaDataType
	compute  uintptr // cublasComputeType_t
	alphaOne uint64  // 1 in the type of the scalars
}

var gemms = map[string]gemm{
	"cublas.sgemm":    {0, 68, 0x3f800000},
	"cublas.tf32gemm": {0, 77, 0x3f800000},
	"cublas.bf16gemm": {14, 68, 0x3f800000},
	"cublas.dgemm":    {1, 70, 0x3ff0000000000000},
}

// run multiplies. cuBLAS counts by columns, for which a row-major matrix is its
// own transpose: C' = B'·A'.
func (g gemm) run(d *device, o *op, s *stream, ptrs []uintptr, params []byte) error {
	p, err := matMul(params)
	if err != nil {
		return err
	}
	if len(ptrs) < 3 {
		return fmt.Errorf("%w: a product takes A, B and C, given are %d buffers", driver.ErrUnfit, len(ptrs))
	}
	m, k, n := uintptr(p.M), uintptr(p.K), uintptr(p.N)
	h, err := d.blas.handle(d.f, s)
	if err != nil {
		return err
	}
	f := d.f
	f.out[0], f.out[1] = g.alphaOne, 0
	const plain, anyAlgorithm = 0, ^uintptr(0)
	return d.blas.do(f, &d.blas.gemm, h, plain, plain, n, m, k,
		f.at(0), ptrs[1], g.kind, n, ptrs[0], g.kind, k,
		f.at(1), ptrs[2], g.kind, n, g.compute, anyAlgorithm)
}

var matMul = graph.Unpacker[graph.MatMul]()
