package reservoir

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
)

// viewed are the bytes of numbers.
func viewed(xs ...int32) (out []byte) {
	for _, x := range xs {
		out = binary.LittleEndian.AppendUint32(out, uint32(x))
	}
	return out
}

// Entries of a matrix that lie outside of it are an error: the assembly would read there.
func TestEntriesOutside(t *testing.T) {
	const size, batch = 4, 16
	state := func() []byte { return make([]byte, 4*size*batch) }
	for _, c := range []struct {
		start  []int32
		column []int32
		want   string // "" for none
	}{
		{[]int32{0, 1, 2, 3, 3}, []int32{1, 3, 0}, ""},
		{[]int32{7, 8, 9, 10, 10}, []int32{1, 3, 0}, ""}, // a part of a larger matrix
		{[]int32{0, 3, 3, 3, 3}, []int32{1, 1 << 30, 2}, "outside of its 4 columns"},
		{[]int32{0, 3, 3, 3, 3}, []int32{1, -1, 2}, "outside of its 4 columns"},
		{[]int32{0, 3, 3, 3, 3}, []int32{0, 4, 2}, "outside of its 4 columns"},
		{[]int32{0, 2, 1, 3, 3}, []int32{0, 1, 2}, "has the entries"},
		{[]int32{0, 1, 2, 3, 4}, []int32{0, 1, 2}, "has the entries"},
		{[]int32{0, -1, 2, 3, 3}, []int32{0, 1, 2}, "has the entries"},
	} {
		none := []int32{0, 0, 0, 0, 0}
		args := [][]byte{
			viewed(c.start...), viewed(c.column...), make([]byte, 4*len(c.column)),
			viewed(none...), make([]byte, 4), make([]byte, 4), make([]byte, 4*size),
			make([]byte, 4*batch), state(), state(), state(), state(),
		}
		step := graph.Step{}.With(call{size: size, inputs: 1, neurons: size, batch: batch, block: batch, steps: 1})
		for _, name := range []string{"reservoir.rows", "reservoir.step", "reservoir.run"} {
			everyKernel(t, func(t *testing.T) {
				k := &weft.Call{Args: args, Params: step.Params, Launch: graph.Grid(size, batch)}
				if name == "reservoir.rows" {
					k.Args = args[:11]
				}
				Funcs()[name](k, 0, 1)
				if err := k.Err(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
					t.Errorf("%s: starts %v, columns %v: %v, want %q", name, c.start, c.column, err, c.want)
				}
			})
		}
	}
}
