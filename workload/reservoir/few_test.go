package reservoir

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
)

// everyFew runs a test with the kernels that gather, where there are any, and without.
func everyFew(t *testing.T, test func(t *testing.T)) {
	for _, with := range []bool{false, true} {
		if with && !gathers {
			continue
		}
		t.Run(fmt.Sprint("gathers=", with), func(t *testing.T) {
			defer func(had bool) { gathers = had }(gathers)
			gathers = with
			test(t)
		})
	}
}

// fewCall is a call of FewKernel.
func fewCall(s *sliced, c call, u, start []float32, memory func(n int) []float32) *weft.Call {
	own := func(xs []float32) []byte {
		m := memory(len(xs))
		copy(m, xs)
		return unsafe.Slice((*byte)(unsafe.Pointer(&m[0])), 4*len(m))
	}
	states := make([]float32, c.batch*c.size)
	for i := range states {
		states[i] = float32(math.NaN()) // must be written
	}
	return &weft.Call{
		Args: [][]byte{
			viewed(s.lengths...), unsafe.Slice((*byte)(unsafe.Pointer(&s.offsets[0])), 2*len(s.offsets)), own(s.values),
			viewed(s.order...), own(s.bias), own(u), own(start), own(states), own(states),
		},
		Params: graph.Step{}.With(c).Params, Launch: graph.Grid(int64(c.batch)),
	}
}

// Up to four patterns have the bits of one step after another with the plain Go code, with numbers
// that are not finite too: a neuron adds no more than its own weights.
func TestFewKernel(t *testing.T) {
	everyFew(t, func(t *testing.T) {
		for _, size := range []int{15, 16, 17, 23, 64, 90} {
			for batch := 1; batch <= few; batch++ {
				p := tinyParams()
				p.Size, p.Connectivity, p.Noise, p.BiasScaling = size, 0.4, 0, 0.5
				w := mustNew(t, p)
				const steps = 3
				c := callOf(w, batch, batch, steps)
				r := rand.New(rand.NewPCG(uint64(size), uint64(batch)))
				u, start := make([]float32, batch*steps*w.Inputs), make([]float32, batch*size)
				for i := range u {
					u[i] = float32(r.NormFloat64())
				}
				for i := range start {
					start[i] = float32(r.NormFloat64())
				}
				u[0], start[len(start)-1] = float32(math.Inf(1)), float32(math.Copysign(0, -1))
				k := fewCall(w.slice(), c, u, start, plain)
				Funcs()["reservoir.few"](k, 0, (batch+perFew-1)/perFew)
				if err := k.Err(); err != nil {
					t.Fatal(err)
				}
				s := w.NewState(batch, 0)
				copy(s.X, start)
				func() {
					defer func(a, b bool) { wide, half = a, b }(wide, half)
					wide, half = false, false
					w.Run(s, u, steps)
				}()
				if err := sameBits(weft.View[float32](k.Args[7]), s.X); err != nil {
					t.Errorf("%d neurons, %d patterns, states: %v", size, batch, err)
				}
				if err := sameBits(weft.View[float32](k.Args[8]), s.Mean); err != nil {
					t.Errorf("%d neurons, %d patterns, means: %v", size, batch, err)
				}
			}
		}
	})
}

// Neurons without weights keep their bias, also where no neuron has any.
func TestFewKernelEmptyRows(t *testing.T) {
	everyFew(t, func(t *testing.T) {
		for _, size := range []int{1, 3, 16, 21} {
			w := &Weights{Params: Params{Size: size, Inputs: 2, Leak: 0.5}, Bias: make([]float32, size)}
			for i := range w.Bias {
				w.Bias[i] = float32(math.Copysign(0, -1))
			}
			w.Recurrent.Start, w.Input.Start = make([]int32, size+1), make([]int32, size+1)
			if size > 3 { // the last has one of the input
				w.Input.Start[size] = 1
				w.Input.Column, w.Input.Value = []int32{1}, []float32{2}
			}
			w.pad()
			u := []float32{float32(math.Inf(1)), 0.25}
			k := fewCall(w.slice(), callOf(w, 1, 1, 1), u, make([]float32, size), plain)
			Funcs()["reservoir.few"](k, 0, 1)
			if err := k.Err(); err != nil {
				t.Fatal(err)
			}
			for i, x := range weft.View[float32](k.Args[7]) {
				want := float32(0.5*tanh(w.Bias[i])) + 0
				if size > 3 && i == size-1 {
					want = 0.5 * tanh(w.Bias[i]+2*u[1])
				}
				if x != want {
					t.Errorf("%d neurons: neuron %d is %v, want %v", size, i, x, want)
				}
			}
		}
	})
}

// Every weight is in its slice once, and slices have no more idle elements than neurons of
// different lengths make.
func TestSlices(t *testing.T) {
	p := tinyParams()
	p.Size = 200
	w := mustNew(t, p)
	s := w.slice()
	entries := 0
	for _, n := range s.lengths {
		entries += int(n)
	}
	if want := len(w.Recurrent.Value) + len(w.Input.Value); entries != want || len(s.values) > want*11/10+sliceRows*sliceRows {
		t.Errorf("%d weights in %d elements; there are %d", entries, len(s.values), want)
	}
	large := &Weights{Params: Params{Size: 65000, Inputs: 600}, Bias: make([]float32, 65000)}
	if large.fewer() {
		t.Error("places beyond 16 bits are taken")
	}
}
