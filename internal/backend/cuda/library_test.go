//go:build gpu || stub || cgo

package cuda

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/backendtest"
)

func TestGEMM(t *testing.T) {
	r := openRig(t, Options{})
	const m, k, n = 37, 53, 29
	rnd := rand.New(rand.NewPCG(1, 2))
	a, b, want := make([]float64, m*k), make([]float64, k*n), make([]float64, m*n)
	for i := range a {
		a[i] = float64(rnd.IntN(17) - 8)
	}
	for i := range b {
		b[i] = float64(rnd.IntN(17) - 8)
	}
	for i := range m {
		for j := range n {
			for p := range k {
				want[i*n+j] += a[i*k+p] * b[p*n+j]
			}
		}
	}
	x, y, z := r.alloc(8*m*k), r.alloc(8*k*n), r.alloc(8*m*n)
	run := func(entry string, a, b, c []byte) {
		t.Helper()
		kern := &graph.Kernel{Name: entry, Impls: []graph.Impl{{Dialect: graph.Library, Entry: entry}}}
		task := &graph.Task{Steps: []graph.Step{{Kernel: kern, Params: params(graph.MatMul{M: m, K: k, N: n})}}}
		w1, w2 := r.copyIn(x, a), r.copyIn(y, b)
		g := []driver.Arg{{Buf: x, Bytes: int64(len(a))}, {Buf: y, Bytes: int64(len(b))}, {Buf: z, Bytes: int64(len(c))}}
		r.must(r.copyOut(c, z, r.launch(0, task, g, w1, w2)))
	}
	got := make([]float64, m*n)
	run("cublas.dgemm", bytesOf(a), bytesOf(b), bytesOf(got))
	if !slices.Equal(got, want) {
		t.Error("dgemm differs")
	}
	f32 := func(xs []float64) []float32 {
		out := make([]float32, len(xs))
		for i, x := range xs {
			out[i] = float32(x)
		}
		return out
	}
	for _, entry := range []string{"cublas.sgemm", "cublas.tf32gemm"} { // small whole numbers are exact in both
		got := make([]float32, m*n)
		run(entry, bytesOf(f32(a)), bytesOf(f32(b)), bytesOf(got))
		if !slices.Equal(got, f32(want)) {
			t.Error(entry, "differs")
		}
	}
	bf := func(xs []float64) []uint16 {
		out := make([]uint16, len(xs))
		for i, x := range xs {
			out[i] = uint16(math.Float32bits(float32(x)) >> 16)
		}
		return out
	}
	low := make([]uint16, m*n)
	run("cublas.bf16gemm", bytesOf(bf(a)), bytesOf(bf(b)), bytesOf(low))
	for i := range low {
		if g := math.Float32frombits(uint32(low[i]) << 16); math.Abs(float64(g)-want[i]) > math.Abs(want[i])/128 {
			t.Fatalf("bf16gemm: element %d is %v, want %v", i, g, want[i])
		}
	}
}

func TestConv(t *testing.T) {
	r := openRig(t, Options{})
	const n, c, h, w, k, rr, s, stride, pad = 2, 3, 13, 11, 4, 3, 3, 2, 1
	const oh, ow = (h+2*pad-rr)/stride + 1, (w+2*pad-s)/stride + 1
	rnd := rand.New(rand.NewPCG(3, 2))
	xs, ws, want := make([]float32, n*c*h*w), make([]float32, k*c*rr*s), make([]float32, n*k*oh*ow)
	for i := range xs {
		xs[i] = float32(rnd.IntN(9) - 4)
	}
	for i := range ws {
		ws[i] = float32(rnd.IntN(9) - 4)
	}
	for in := range n {
		for ik := range k {
			for y := range oh {
				for x := range ow {
					sum := float32(0)
					for ic := range c {
						for dy := range rr {
							for dx := range s {
								yy, xx := y*stride+dy-pad, x*stride+dx-pad
								if yy >= 0 && yy < h && xx >= 0 && xx < w {
									sum += xs[((in*c+ic)*h+yy)*w+xx] * ws[((ik*c+ic)*rr+dy)*s+dx]
								}
							}
						}
					}
					want[((in*k+ik)*oh+y)*ow+x] = sum
				}
			}
		}
	}
	bx, bw, by := r.alloc(int64(4*len(xs))), r.alloc(int64(4*len(ws))), r.alloc(int64(4*len(want)))
	g := []driver.Arg{{Buf: bx, Bytes: int64(4 * len(xs))}, {Buf: bw, Bytes: int64(4 * len(ws))}, {Buf: by, Bytes: int64(4 * len(want))}}
	w1, w2 := r.copyIn(bx, bytesOf(xs)), r.copyIn(bw, bytesOf(ws))
	for _, entry := range []string{"cudnn.conv2d", "cudnn.tf32conv2d"} {
		kern := &graph.Kernel{Name: "conv", Impls: []graph.Impl{{Dialect: graph.Library, Entry: entry}}}
		got := make([]float32, len(want))
		step := graph.Step{Kernel: kern}.With(graph.Conv2D{N: n, C: c, H: h, W: w, K: k, R: rr, S: s, Stride: stride, Pad: pad})
		task := &graph.Task{Steps: []graph.Step{step}}
		r.must(r.copyOut(bytesOf(got), by, r.launch(0, task, g, w1, w2)))
		for i := range got {
			if math.Abs(float64(got[i]-want[i])) > 1e-3 {
				t.Fatalf("%s: element %d is %v, want %v", entry, i, got[i], want[i])
			}
		}
	}
}

func TestCUDAC(t *testing.T) {
	r := openRig(t, Options{})
	src := []byte(`// no PTX: the stand-in leaves it to the driver to tell the parameters.
extern "C" __global__ void add_one(unsigned *x, unsigned n) {
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n) x[i] += 1;
}`)
	b := r.alloc(4000)
	k := &graph.Kernel{Name: "source", Impls: []graph.Impl{{Dialect: graph.CUDAC, Entry: "add_one", Source: src, Per: [3]uint32{64}, Block: [3]uint32{64}}}}
	got := make([]uint32, 1000)
	w := r.launch(0, &graph.Task{Steps: []graph.Step{step(k, 1000)}}, args(4000, b), r.copyIn(b, bytesOf(upTo(1000))))
	r.must(r.copyOut(bytesOf(got), b, w))
	for i := range got {
		if got[i] != uint32(i)+1 {
			t.Fatalf("element %d is %d", i, got[i])
		}
	}
	if c := r.wait(r.launch(0, &graph.Task{Steps: []graph.Step{{Kernel: k}}}, args(4000, b, b))); !errors.Is(c.Err, graph.ErrParams) {
		t.Errorf("no parameters for a number: %v", c.Err)
	}
	// A structure of eight bytes is no address, whatever buffers there are.
	src = []byte(`struct P { unsigned n, k; };
extern "C" __global__ void add(unsigned *x, P p) {
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < p.n) x[i] += p.k;
}`)
	pair := &graph.Kernel{Name: "pair", Impls: []graph.Impl{{Dialect: graph.CUDAC, Entry: "add", Source: src, Per: [3]uint32{64}, Block: [3]uint32{64}}}}
	s := graph.Step{Kernel: pair, Launch: graph.Launch{Grid: [3]uint32{1000}}}
	other := r.alloc(4000)
	if c := r.wait(r.launch(0, &graph.Task{Steps: []graph.Step{s}}, args(4000, b, other))); !errors.Is(c.Err, driver.ErrKernel) || !errors.Is(c.Err, graph.ErrParams) {
		t.Errorf("an address in the place of a structure: %v", c.Err)
	}
	s.Params = params(backendtest.Params{N: 1000, K: 5})
	r.must(r.copyOut(bytesOf(got), b, r.launch(0, &graph.Task{Steps: []graph.Step{s}}, args(4000, b, other))))
	if got[999] != 999+1+5 {
		t.Errorf("999+1+5 is %d", got[999])
	}
	bad := &graph.Kernel{Name: "bad", Impls: []graph.Impl{{Dialect: graph.CUDAC, Entry: "f", Source: []byte("extern \"C\" __global__ void f() { undefined_name(); }")}}}
	c := r.wait(r.launch(0, &graph.Task{Steps: []graph.Step{{Kernel: bad}}}, nil))
	if !errors.Is(c.Err, driver.ErrKernel) || !strings.Contains(c.Err.Error(), "undefined_name") {
		t.Error(c.Err)
	}
}

// Routines of libraries refuse parameters of another length than theirs.
func TestLibraryParams(t *testing.T) {
	r := openRig(t, Options{})
	b := r.alloc(400)
	for entry, takes := range map[string]int{"cublas.sgemm": 12, "cudnn.conv2d": 36, "cudnn.tf32conv2d": 36, "nccl.allreduce": 32} {
		for _, given := range []int{0, takes - 4, takes + 4} {
			k := &graph.Kernel{Name: "routine", Impls: []graph.Impl{{Dialect: graph.Library, Entry: entry}}}
			task := &graph.Task{Steps: []graph.Step{{Kernel: k, Params: make([]byte, given)}}}
			end := r.wait(r.launch(0, task, args(400, b, b, b)))
			want := fmt.Sprintf(`kernel "routine": kernel cannot run: wrong length of parameters: it takes %d bytes, given are %d`, takes, given)
			if !errors.Is(end.Err, driver.ErrUnfit) || !strings.HasSuffix(end.Err.Error(), want) {
				t.Errorf("%s: got  %v\nwant %s", entry, end.Err, want)
			}
		}
	}
}
