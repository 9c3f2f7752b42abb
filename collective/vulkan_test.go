//go:build lavapipe

package collective_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/collective"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/vulkan"
	"github.com/weft-run/weft/machine"
)

// drawn are random elements: numbers of very different sizes, and now and then one
// that is special.
func drawn(r *rand.Rand, t collective.Type, n int) (out []byte) {
	special := []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), 1}
	for range n {
		x := r.NormFloat64() * math.Exp2(float64(r.IntN(30)-15))
		if r.IntN(8) == 0 {
			x = special[r.IntN(len(special))]
		}
		switch t {
		case collective.F32:
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(x)))
		case collective.F64:
			out = binary.LittleEndian.AppendUint64(out, math.Float64bits(x))
		case collective.F16:
			out = binary.LittleEndian.AppendUint16(out, uint16(collective.NewHalf(float32(x))))
		case collective.BF16:
			out = binary.LittleEndian.AppendUint16(out, uint16(collective.NewBFloat(float32(x))))
		case collective.I32:
			out = binary.LittleEndian.AppendUint32(out, r.Uint32())
		default:
			out = binary.LittleEndian.AppendUint64(out, r.Uint64())
		}
	}
	return out
}

// equal compares elements in every bit, but for which NaN it is.
func equal(t collective.Type, a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	number := func(x []byte) float64 {
		switch t {
		case collective.F32:
			return float64(math.Float32frombits(binary.LittleEndian.Uint32(x)))
		case collective.F64:
			return math.Float64frombits(binary.LittleEndian.Uint64(x))
		case collective.F16:
			return float64(collective.Half(binary.LittleEndian.Uint16(x)).Float32())
		case collective.BF16:
			return float64(collective.BFloat(binary.LittleEndian.Uint16(x)).Float32())
		}
		return 0 // integers have no NaN
	}
	for i, size := 0, int(t.Size()); i < len(a); i += size {
		if !bytes.Equal(a[i:i+size], b[i:i+size]) && !(math.IsNaN(number(a[i:])) && math.IsNaN(number(b[i:]))) {
			return false
		}
	}
	return true
}

// Every reduction of every type, and copies, on Vulkan give the bits the CPU gives.
func TestOnVulkan(t *testing.T) {
	const n, count = 3, 5003
	ctx, rt := open(t, weft.Options{Drivers: []driver.Driver{vulkan.New(vulkan.Options{MemBytes: 256 << 20})}})
	m := rt.Machine()
	var ranks []machine.DeviceID
	for r := range n {
		ranks = append(ranks, machine.DeviceID(r%len(m.Devices)))
	}
	for typ := range collective.Type(collective.NumTypes) {
		for op := range collective.Fold(collective.NumFolds) {
			r := rand.New(rand.NewPCG(uint64(typ), uint64(op)))
			var ins [][]byte
			for range n {
				ins = append(ins, drawn(r, typ, count))
			}
			divisor := 1
			if op == collective.Average {
				divisor = n
			}
			want := make([]byte, len(ins[0]))
			collective.FoldInto(op, typ, [][]byte{want}, ins, divisor, false)
			p, err := collective.NewPlan(m, machine.NewRoofline(m), collective.Spec{
				Op: collective.OpAllReduce, Ranks: ranks, Count: count, Type: typ, Fold: op, Exact: true, Pieces: 2,
			})
			if err != nil {
				t.Fatal(err)
			}
			g, err := p.Graph()
			if err != nil {
				t.Fatal(err)
			}
			var bind []weft.Binding
			outs := make([][]byte, n)
			for r := range n {
				outs[r] = make([]byte, len(want))
				bind = append(bind, weft.Bind(collective.InName(r), ins[r]), weft.Bind(collective.OutName(r), outs[r]))
			}
			if _, err := rt.Run(ctx, g, bind...); err != nil {
				t.Fatalf("%v of %v: %v", op, typ, err)
			}
			for r := range outs {
				if !equal(typ, outs[r], want) {
					t.Errorf("%v of %v: rank %d has other bits than a CPU gives", op, typ, r)
				}
			}
		}
	}
	p, err := collective.NewPlan(m, machine.NewRoofline(m), collective.Spec{Op: collective.OpBarrier, Ranks: ranks})
	if err != nil {
		t.Fatal(err)
	}
	g, err := p.Graph()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Run(ctx, g); err != nil {
		t.Errorf("barrier: %v", err)
	}
}
