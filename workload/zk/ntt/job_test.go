package ntt_test

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bn254/fr"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr/fft"

	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/zk/ntt"
)

// transforms are all four.
var transforms = []ntt.Transform{{}, {Inverse: true}, {Coset: true}, {Inverse: true, Coset: true}}

// elements are numbers without a pattern, with 0, 1 and −1 among them.
func elements(n int) []fr.Element {
	out := make([]fr.Element, n)
	for i := range out {
		out[i].SetUint64(uint64(i) + 1)
		out[i].Exp(out[i], big.NewInt(12345))
	}
	if n > 4 {
		out[1].SetZero()
		out[2].SetOne()
		out[3].SetInt64(-1)
	}
	return out
}

// naive is the transform by its definition.
func naive(x []fr.Element, t ntt.Transform) []fr.Element {
	d := fft.NewDomain(uint64(len(x)), fft.WithoutPrecompute())
	w, g := d.Generator, d.FrMultiplicativeGen
	if !t.Coset {
		g.SetOne()
	}
	out := make([]fr.Element, len(x))
	for k := range out {
		for n := range x {
			// The power of x[n] in X[k] is (g w^k)^n, and in the inverse that of X[n] is w^(-kn), all
			// of it by g^(-k).
			var f fr.Element
			if t.Inverse {
				f.Exp(w, big.NewInt(int64(-k*n)))
			} else {
				f.Exp(w, big.NewInt(int64(k)))
				f.Mul(&f, &g).Exp(f, big.NewInt(int64(n)))
			}
			out[k].Add(&out[k], f.Mul(&f, &x[n]))
		}
		if t.Inverse {
			var f fr.Element
			f.Exp(g, big.NewInt(int64(-k)))
			out[k].Mul(&out[k], &f)
			f.SetUint64(uint64(len(x)))
			out[k].Div(&out[k], &f)
		}
	}
	return out
}

// Short transforms agree with the definition, on one device and on three.
func TestDefinition(t *testing.T) {
	for _, devices := range []int{1, 3} {
		rt := workloadtest.Open(t, devices, ntt.Funcs())
		for n := 1; n <= 64; n *= 2 {
			x := elements(n)
			for _, tr := range transforms {
				got, err := ntt.Of(t.Context(), rt, x, tr)
				if err != nil {
					t.Fatal(err)
				}
				if want := naive(x, tr); !slices.Equal(got, want) {
					t.Errorf("%v of %d elements on %d devices: %v, want %v", tr, n, devices, got, want)
				}
			}
		}
	}
}

// Transforms of all sizes that are quickly done are those of gnark-crypto.
func TestSizes(t *testing.T) {
	rt := workloadtest.Open(t, 2, ntt.Funcs())
	most := 16
	if testing.Short() {
		most = 13
	}
	for log := range most + 1 {
		j := workloadtest.New[*ntt.Job](t)(ntt.New(ntt.Config{Transform: transforms[log%4], Log: log, Seed: 7}))
		workloadtest.Run(t, rt, j)
		if err := j.Check(); err != nil {
			t.Error(err)
		}
	}
}

// Values that are all 0, all 1, all −1, or 0 but for one, are transformed as gnark-crypto does, by all transforms
// on one, two and three devices.
func TestEdges(t *testing.T) {
	var one, minus fr.Element
	one.SetOne()
	minus.Neg(&one)
	for devices := 1; devices <= 3; devices++ {
		rt := workloadtest.Open(t, devices, ntt.Funcs())
		for _, log := range []int{0, 1, 2, 3, 7, 10} {
			n := 1 << log
			last := make([]fr.Element, n)
			last[n-1] = minus
			for what, x := range map[string][]fr.Element{"0": make([]fr.Element, n), "1": slices.Repeat([]fr.Element{one}, n), "-1": slices.Repeat([]fr.Element{minus}, n), "0 and -1": last} {
				for _, tr := range transforms {
					want := slices.Clone(x)
					d := fft.NewDomain(uint64(n))
					var on []fft.Option
					if tr.Coset {
						on = append(on, fft.OnCoset())
					}
					if tr.Inverse {
						d.FFTInverse(want, fft.DIF, on...)
					} else {
						d.FFT(want, fft.DIF, on...)
					}
					fft.BitReverse(want)
					if got, err := ntt.Of(t.Context(), rt, x, tr); err != nil || !slices.Equal(got, want) {
						t.Errorf("%v of 2^%d values %s on %d devices is another: %v", tr, log, what, devices, err)
					}
				}
			}
		}
	}
}

// The bytes are the same for every number of devices.
func TestJobOnDevices(t *testing.T) {
	for _, tr := range transforms {
		workloadtest.Invariant(t, ntt.Funcs(),
			func() (*ntt.Job, error) { return ntt.New(ntt.Config{Transform: tr, Log: 12, Seed: 7}) },
			func(j *ntt.Job) []byte { return workloadtest.Bytes(j.Result()) })
	}
}

// Transforms whose passes are three, but for -short, on one device and on two.
func TestLarge(t *testing.T) {
	for devices, log := range map[int]int{1: 20, 2: 22} {
		if testing.Short() {
			log = 14
		}
		rt := workloadtest.Open(t, devices, ntt.Funcs())
		j := workloadtest.New[*ntt.Job](t)(ntt.New(ntt.Config{Log: log, Seed: 3}))
		workloadtest.Run(t, rt, j)
		if err := j.Check(); err != nil {
			t.Error(err)
		}
	}
}

// A graph for devices with memory of their own, which move columns before they transform
// them, has the same result as one that reads them where they are; so has one of ranges that
// are not alike.
func TestGraphs(t *testing.T) {
	rt := workloadtest.Open(t, 3, ntt.Funcs())
	for _, log := range []int{2, 5, 11, 13} {
		for _, tr := range transforms {
			j := workloadtest.New[*ntt.Job](t)(ntt.New(ntt.Config{Transform: tr, Log: log, Seed: 5}))
			rows := j.Items().Extent
			cuts := []int64{0, max(rows/8, 1), max(rows/8, 1), rows * 5 / 8, rows}
			var ranges []sched.Range
			for i, hi := range cuts[1:] {
				ranges = append(ranges, sched.Range{Lo: cuts[i], Hi: hi})
			}
			g, err := j.Graph(ranges)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := rt.Run(t.Context(), g, j.Bind()...); err != nil {
				t.Fatal(err)
			}
			if err := j.Check(); err != nil {
				t.Error(err)
			}
		}
	}
}

// A transform followed by its inverse gives the elements back, and neither changes its input.
func TestThereAndBack(t *testing.T) {
	rt := workloadtest.Open(t, 2, ntt.Funcs())
	x := elements(1 << 10)
	for _, coset := range []bool{false, true} {
		given := slices.Clone(x)
		there, err := ntt.Of(t.Context(), rt, given, ntt.Transform{Coset: coset})
		if err != nil {
			t.Fatal(err)
		}
		back, err := ntt.Of(t.Context(), rt, there, ntt.Transform{Inverse: true, Coset: coset})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(back, x) || !slices.Equal(given, x) || slices.Equal(there, x) {
			t.Errorf("coset %v: there and back is something else, or what was given changed", coset)
		}
	}
}

// Any element that is off is found.
func TestCheckFinds(t *testing.T) {
	for _, at := range []int{0, 1, 1<<12 - 1} {
		j := workloadtest.New[*ntt.Job](t)(ntt.New(ntt.Config{Log: 12, Seed: 1}))
		workloadtest.Finds(t, ntt.Funcs(), j, fmt.Sprintf("element %d", at), func() { j.Result()[at][3] ^= 1 }, ntt.ErrWrong)
	}
}

func TestRejects(t *testing.T) {
	rt := workloadtest.Open(t, 1, ntt.Funcs())
	large := make([]fr.Element, 4)
	large[2] = fr.Element{0x43e1f593f0000001, 0x2833e84879b97091, 0xb85045b68181585d, 0x30644e72e131a029} // the prime
	for _, x := range [][]fr.Element{nil, {}, make([]fr.Element, 3), make([]fr.Element, 5), make([]fr.Element, 1<<10-1), make([]fr.Element, 1<<10+1), large} {
		_, err := ntt.Of(t.Context(), rt, x, ntt.Transform{})
		if !errors.Is(err, workload.ErrConfig) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%d elements: error %v", len(x), err)
		}
	}
	for _, c := range []ntt.Config{{Log: -1}, {Log: 27}, {Log: 1, Elements: make([]fr.Element, 2)}} {
		if _, err := ntt.New(c); !errors.Is(err, workload.ErrConfig) {
			t.Errorf("log %d: error %v", c.Log, err)
		}
	}
	large[2][0]-- // the largest element
	if _, err := ntt.Of(t.Context(), rt, large, ntt.Transform{}); err != nil {
		t.Error(err)
	}
}

// A job that was fed has its elements in the memory that it was given, until they are moved back.
func TestJobFed(t *testing.T) {
	rt := workloadtest.Open(t, 1, ntt.Funcs())
	j := workloadtest.New[*ntt.Job](t)(ntt.New(ntt.Config{Log: 6, Seed: 1}))
	workloadtest.Run(t, rt, j)
	want := slices.Clone(j.Result())
	fed := make([]uint64, 4<<6)
	restore, err := j.Feed(func(n int) ([]byte, error) { return workloadtest.Bytes(fed)[:n], nil })
	if err != nil {
		t.Fatal(err)
	}
	if workloadtest.Run(t, rt, j); !slices.Equal(j.Result(), want) {
		t.Error("a job that was fed has another result")
	}
	fed[0] ^= 1
	if workloadtest.Run(t, rt, j); slices.Equal(j.Result(), want) {
		t.Error("a job that was fed reads its own memory")
	}
	restore()
	if workloadtest.Run(t, rt, j); !slices.Equal(j.Result(), want) {
		t.Error("a job that was fed has another result afterwards")
	}
	if _, err := j.Feed(func(int) ([]byte, error) { return nil, errors.ErrUnsupported }); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("fed without memory: %v", err)
	}
}
