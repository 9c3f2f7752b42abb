package workloads

import (
	"encoding/binary"
	"maps"
	"math"
	"math/rand/v2"
	"runtime/metrics"
	"slices"
	"testing"
	"unsafe"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/signature"
	"github.com/weft-run/weft/workload/protein/fold"
)

// Every Go kernel that a graph can name says what it takes.
func TestSignatures(t *testing.T) {
	var names []string
	for _, k := range signature.All() {
		names = append(names, k.Name)
		if k.Does == "" || k.Grid == "" || len(k.Args) == 0 || len(k.Params) == 0 || k.Func == nil {
			t.Errorf("%q says too little: %+v", k.Name, k)
		}
	}
	all := Funcs()
	maps.Copy(all, fold.Funcs()) // a job that is not in the list
	if want := slices.Sorted(maps.Keys(all)); !slices.Equal(names, want) {
		t.Errorf("signatures of\n%v\nand functions\n%v", names, want)
	}
}

// guard is how many bytes around an argument are watched.
const guard = 256

// someCall returns a call of a kernel with any parameters and arguments, and what tells
// whether it wrote beside them. Small parameters often fit, others hardly ever.
func someCall(k *signature.Kernel, r *rand.Rand) (c *weft.Call, intact func() bool, bytes int) {
	c = &weft.Call{}
	most := []uint64{1, 2, 4, 12, math.MaxUint32}[r.IntN(5)]
	for _, p := range k.Params {
		switch p.Type {
		case "float64", "uint64", "int64":
			for len(c.Params)%8 != 0 {
				c.Params = append(c.Params, 0)
			}
			c.Params = binary.LittleEndian.AppendUint64(c.Params, math.Float64bits(r.NormFloat64()))
		case "float32":
			c.Params = binary.LittleEndian.AppendUint32(c.Params, math.Float32bits(r.Float32()))
		default:
			n := r.Uint64N(most + 1)
			if n == 0 && r.IntN(4) > 0 { // few kernels take a size of 0
				n = 1
			}
			c.Params = binary.LittleEndian.AppendUint32(c.Params, uint32(n))
		}
	}
	wide := slices.ContainsFunc(k.Params, func(p signature.Param) bool { return p.Type == "float64" })
	for wide && len(c.Params)%8 != 0 {
		c.Params = append(c.Params, 0)
	}
	large, zero := r.IntN(2) == 0, r.IntN(2) == 0
	for range len(k.Args) + r.IntN(3) - r.IntN(8)/7 {
		n := r.IntN([]int{9, 500, 1 << 14}[r.IntN(3)])
		if large {
			n += 1 << 14
		}
		whole := make([]byte, (2*guard+n+16)/8*8)
		at := guard
		if r.IntN(20) == 0 {
			at += r.IntN(8)
		}
		for i := range whole {
			whole[i] = 0xa5
		}
		clear(whole[at : at+n])
		for i := at; i < at+n && !zero; i += 4 { // small integers
			whole[i] = byte(i*i) & 7
		}
		a := whole[at : at+n : at+n]
		c.Args, bytes = append(c.Args, a), bytes+n
		before := intact
		intact = func() bool {
			for i, b := range whole {
				if (i < at || i >= at+n) && b != 0xa5 {
					return false
				}
			}
			return before == nil || before()
		}
	}
	if intact == nil {
		intact = func() bool { return true }
	}
	for d := range c.Launch.Grid {
		c.Launch.Grid[d] = uint32(r.Uint64N(most + 1))
	}
	return c, intact, bytes
}

// callAny calls a kernel and reports a panic, a write beside its arguments, and an allocation
// far above what it was given. It returns whether the kernel took what it got.
func callAny(t *testing.T, k *signature.Kernel, r *rand.Rand) bool {
	c, intact, bytes := someCall(k, r)
	defer func() {
		if p := recover(); p != nil {
			t.Fatalf("%s panics: %v; params %v, grid %v, sizes %v", k.Name, p, c.Params, c.Launch.Grid, sizes(c))
		}
	}()
	lo := r.IntN(3)
	hi := lo + []int{1, 2, 1000, math.MaxInt64 / 2}[r.IntN(4)]
	before := allocated()
	k.Func(c, lo, hi)
	// 4 MiB are scratch memory that any call may have.
	if grown := allocated() - before; grown > 8<<20+128*uint64(bytes) {
		t.Fatalf("%s allocates %d bytes beside %d; params %v", k.Name, grown, bytes, c.Params)
	}
	if !intact() {
		t.Fatalf("%s writes beside its arguments; params %v, sizes %v", k.Name, c.Params, sizes(c))
	}
	return c.Err() == nil
}

// allocated is how many bytes the program has allocated so far.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

func sizes(c *weft.Call) (out []int) {
	for _, a := range c.Args {
		out = append(out, len(a), int(uintptr(unsafe.Pointer(unsafe.SliceData(a)))%8))
	}
	return out
}

// Whatever parameters and memory a graph gives a kernel, it computes or errs.
func TestAnyCall(t *testing.T) {
	calls := 800
	if testing.Short() {
		calls = 100
	}
	kernels := signature.All()
	r := rand.New(rand.NewPCG(1, 2))
	for i := range kernels {
		took := 0
		// Few calls fit a kernel of many parameters.
		for n := 0; n < calls || took == 0 && n < 50*calls; n++ {
			if callAny(t, &kernels[i], r) {
				took++
			}
		}
		if took == 0 && !testing.Short() {
			t.Errorf("%s took none of %d calls: this test does not reach it", kernels[i].Name, 50*calls)
		}
	}
}

// FuzzAnyCall is TestAnyCall with parameters that the fuzzer chooses.
func FuzzAnyCall(f *testing.F) {
	kernels := signature.All()
	f.Add(uint16(0), uint64(1), []byte{1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, which uint16, seed uint64, params []byte) {
		k := kernels[int(which)%len(kernels)]
		fn := k.Func
		k.Func = func(c *weft.Call, lo, hi int) {
			copy(c.Params, params)
			fn(c, lo, hi)
		}
		callAny(t, &k, rand.New(rand.NewPCG(seed, 0)))
	})
}
