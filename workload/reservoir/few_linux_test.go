package reservoir

import (
	"math"
	"strings"
	"testing"
)

// What slices say of themselves may be anything: it is an error, and nothing outside is read. All
// memory of floats ends where a page begins that cannot be read.
func TestFewKernelRefuses(t *testing.T) {
	everyFew(t, func(t *testing.T) {
		p := tinyParams()
		p.Size, p.Noise = 20, 0
		w := mustNew(t, p)
		for _, c := range []struct {
			want  string
			spoil func(s *sliced)
			call  func(c *call)
		}{
			{want: ""},
			{want: "is for place 65535", spoil: func(s *sliced) { s.offsets[0] = math.MaxUint16 }},
			{want: "is for place 42", spoil: func(s *sliced) { s.offsets[len(s.offsets)-sliceRows*int(s.lengths[sliceRows])] = 42 }},
			{want: "after one with", spoil: func(s *sliced) { s.lengths[1] = s.lengths[0] + 1 }},
			{want: "after one with", spoil: func(s *sliced) { s.lengths[15] = -1 }},
			{want: "weights with padding", spoil: func(s *sliced) { s.lengths[sliceRows]++ }},
			{want: "weights with padding", spoil: func(s *sliced) { s.lengths[0] = math.MaxInt32 }},
			{want: "names neuron 20 of 20", spoil: func(s *sliced) { s.order[3] = 20 }},
			{want: "names neuron -1 of 20", spoil: func(s *sliced) { s.order[3] = -1 }},
			{want: "slice bias", spoil: func(s *sliced) { s.bias = s.bias[:20] }},
			{want: "at most 4", call: func(c *call) { c.batch, c.block = 5, 5 }},
			{want: "side by side", call: func(c *call) { c.block = 1 }},
			{want: "through all steps", call: func(c *call) { c.step = 1 }},
		} {
			s, k := w.slice(), callOf(w, 2, 2, 2)
			if c.spoil != nil {
				c.spoil(s)
			}
			if c.call != nil {
				c.call(&k)
			}
			u, start := make([]float32, k.batch*k.steps*k.inputs), make([]float32, k.batch*k.size)
			got := fewCall(s, k, u, start, func(n int) []float32 { return guarded(t, n) })
			Funcs()["reservoir.few"](got, 0, 1)
			if err := got.Err(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		}
	})
}
