package reservoir

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
)

// floats are the bytes of numbers.
func floats(xs []float32) []byte {
	out := make([]byte, 0, 4*len(xs))
	for _, x := range xs {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(x))
	}
	return out
}

// runAll calls the kernel for all steps and returns the last and the mean states. Memory of
// states and inputs is that which memory returns.
func runAll(t *testing.T, w *Weights, c call, u, start []float32, memory func(n int) []float32) (end, mean []float32) {
	t.Helper()
	own := func(xs []float32) []byte {
		m := memory(len(xs))
		copy(m, xs)
		return unsafe.Slice((*byte)(unsafe.Pointer(&m[0])), 4*len(m))
	}
	states := make([]float32, c.batch*c.size)
	for i := range states {
		states[i] = float32(math.NaN()) // must be written
	}
	p := *w
	p.pad()
	args := [][]byte{
		viewed(p.Recurrent.Start...), viewed(p.Recurrent.Column...), floats(p.Recurrent.Value),
		viewed(p.Input.Start...), viewed(p.Input.Column...), floats(p.Input.Value), floats(p.Bias),
		own(u), own(start), own(states), own(states), own(states),
	}
	k := &weft.Call{Args: args, Params: graph.Step{}.With(c).Params, Launch: graph.Grid(int64(c.batch))}
	Funcs()["reservoir.run"](k, 0, (c.batch+perRun-1)/perRun)
	if err := k.Err(); err != nil {
		t.Fatal(err)
	}
	return weft.View[float32](args[9]), weft.View[float32](args[10])
}

func plain(n int) []float32 { return make([]float32, n) }

func callOf(w *Weights, batch, block, steps int) call {
	return call{
		size: w.Size, inputs: w.Inputs, neurons: w.Size, batch: batch, block: block, steps: steps, pattern: 5,
		seed: w.Seed, leak: float32(w.Leak), noise: float32(w.Noise),
	}
}

// sameBits errs unless numbers agree, NaN with NaN.
func sameBits(got, want []float32) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d numbers, want %d", len(got), len(want))
	}
	for i := range got {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) && !(got[i] != got[i] && want[i] != want[i]) {
			return fmt.Errorf("number %d is %v, want %v", i, got[i], want[i])
		}
	}
	return nil
}

// All steps at once give the bits of one step after another with the plain Go code, for any
// number of patterns and width of blocks, with noise, and with numbers that are not finite: what a
// pattern has is no other's.
func TestRunKernel(t *testing.T) {
	p := tinyParams()
	p.Size, p.BiasScaling = 23, 0.5
	sparse := mustNew(t, p)
	p.Size, p.Connectivity = 300, 1
	dense := mustNew(t, p)
	everyKernel(t, func(t *testing.T) {
		for _, noise := range []float64{0, 0.01} {
			for _, shape := range [][3]int{{1, 1, 1}, {2, 2, 3}, {5, 5, 4}, {8, 8, 2}, {9, 9, 3}, {16, 16, 2}, {17, 17, 2}, {23, 7, 3}, {33, 32, 2}, {70, 64, 2}, {3, 3, 2}} {
				batch, block, steps := shape[0], shape[1], shape[2]
				own := *sparse
				if batch == 3 { // more entries than a call of assembly takes
					own = *dense
				}
				own.Noise = noise
				w := &own
				c := callOf(w, batch, block, steps)
				r := rand.New(rand.NewPCG(1, uint64(batch)))
				u, start := make([]float32, batch*steps*w.Inputs), make([]float32, batch*w.Size)
				for i := range u {
					u[i] = float32(r.NormFloat64())
				}
				for i := range start {
					start[i] = float32(r.NormFloat64())
				}
				u[0], start[len(start)-1] = float32(math.Inf(1)), float32(math.NaN())
				if batch > 2 {
					u[1] = float32(math.Copysign(0, -1))
				}
				end, mean := runAll(t, w, c, u, start, plain)
				for first := 0; first < batch; first += block {
					width := min(block, batch-first)
					s := w.NewState(width, uint64(c.pattern+first))
					copy(s.X, start[first*w.Size:])
					func() {
						defer func(a, b bool) { wide, half = a, b }(wide, half)
						wide, half = false, false
						w.Run(s, u[first*steps*w.Inputs:], steps)
					}()
					if err := sameBits(end[first*w.Size:][:width*w.Size], s.X); err != nil {
						t.Errorf("%v, noise %v, states from %d on: %v", shape, noise, first, err)
					}
					if err := sameBits(mean[first*w.Size:][:width*w.Size], s.Mean); err != nil {
						t.Errorf("%v, noise %v, means from %d on: %v", shape, noise, first, err)
					}
				}
			}
		}
	})
}

// Neurons without entries, and none at all.
func TestRunKernelEmptyRows(t *testing.T) {
	everyKernel(t, func(t *testing.T) {
		for _, size := range []int{1, 3, 4, 5} {
			w := &Weights{Params: Params{Size: size, Inputs: 2, Leak: 0.5}, Bias: make([]float32, size)}
			for i := range w.Bias {
				w.Bias[i] = float32(i) - 1
			}
			w.Recurrent.Start, w.Input.Start = make([]int32, size+1), make([]int32, size+1)
			if size > 3 { // one row has an entry of the input, the last
				w.Input.Start[size] = 1
				w.Input.Column, w.Input.Value = []int32{1}, []float32{2}
			}
			u := []float32{7, 0.25, 7, 0.5}
			end, mean := runAll(t, w, callOf(w, 1, 1, 2), u, make([]float32, size), plain)
			for i := range size {
				x, sum := float32(0), float32(0)
				for k := range 2 {
					in := float32(0)
					if size > 3 && i == size-1 {
						in = 2 * u[2*k+1]
					}
					x = float32(0.5*x) + float32(0.5*tanh(w.Bias[i]+in))
					sum += x / 2
				}
				if end[i] != x || mean[i] != sum {
					t.Errorf("%d neurons: neuron %d is %v with a mean of %v, want %v and %v", size, i, end[i], mean[i], x, sum)
				}
			}
		}
	})
}
