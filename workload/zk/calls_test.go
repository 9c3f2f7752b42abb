package zk_test

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bn254"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr/fft"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/zk"
	"github.com/weft-run/weft/workload/zk/msm"
	"github.com/weft-run/weft/workload/zk/ntt"
)

// Every workload here says what its check may miss.
var _ = []workload.Inspected{(*msm.Job[bn254.G1Affine])(nil), (*zk.Job)(nil)}

// Sums and transforms are right on one CPU device and on three.
func TestCalls(t *testing.T) {
	for _, parts := range []int{1, 3} {
		t.Run(fmt.Sprintf("cpu/%d", parts), func(t *testing.T) { testCalls(t, workloadtest.Open(t, parts, zk.Funcs())) })
	}
}

// testCalls compares every call with gnark-crypto.
func testCalls(t *testing.T, rt *weft.Runtime) {
	t.Run("ntt", func(t *testing.T) { testNTT(t, rt) })
	t.Run("msm", func(t *testing.T) { testMSM(t, rt) })
}

// A call on a runtime without its kernels names the option that brings them.
func TestCallsName(t *testing.T) {
	rt := workloadtest.Open(t, 2, nil)
	_, sum := msm.G1(t.Context(), rt, make([]bn254.G1Affine, 4), make([]fr.Element, 4))
	_, transform := ntt.Of(t.Context(), rt, make([]fr.Element, 4), ntt.Transform{})
	for pkg, err := range map[string]error{"msm": sum, "ntt": transform} {
		if !errors.Is(err, weft.ErrNoFunc) || !strings.Contains(err.Error(), "weft.Options{Funcs: "+pkg+".Funcs()}") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", pkg, err)
		}
	}
}

// testNTT evaluates a polynomial at powers of a root and finds its coefficients again.
func testNTT(t *testing.T, rt *weft.Runtime) {
	for _, n := range []int{1, 2, 8, 1 << 11} {
		for _, coset := range []bool{false, true} {
			x := make([]fr.Element, n)
			for i := range x {
				x[i].SetUint64(uint64(i)).Inverse(&x[i])
			}
			values, err := ntt.Of(t.Context(), rt, x, ntt.Transform{Coset: coset})
			if err != nil {
				t.Fatal(err)
			}
			d := fft.NewDomain(uint64(n), fft.WithoutPrecompute())
			at := d.Generator
			at.Exp(at, big.NewInt(int64(n-1)))
			if coset {
				at.Mul(&at, &d.FrMultiplicativeGen)
			}
			var want fr.Element
			for i := n - 1; i >= 0; i-- {
				want.Mul(&want, &at).Add(&want, &x[i])
			}
			if values[n-1] != want {
				t.Errorf("the last of %d values, on a coset %v, is %v, want %v", n, coset, values[n-1], want)
			}
			back, err := ntt.Of(t.Context(), rt, values, ntt.Transform{Coset: coset, Inverse: true})
			if err != nil || !slices.Equal(back, x) {
				t.Errorf("%d coefficients, on a coset %v, are not found again: %v", n, coset, err)
			}
		}
	}
}

// testMSM compares sums with gnark-crypto's, and one of resident points.
func testMSM(t *testing.T, rt *weft.Runtime) {
	points, _ := msm.Draw[bn254.G1Affine](1, 300)
	scalars := msm.DrawScalars(1, 300)
	scalars[7].SetZero()
	points[8] = bn254.G1Affine{}
	points[9].Neg(&points[10])
	if got, err := msm.G1(t.Context(), rt, points, scalars); err != nil || got != msm.Reference(points, scalars) {
		t.Errorf("the sum in G1 is %v, %v", got, err)
	}
	others, _ := msm.Draw[bn254.G2Affine](1, 70)
	key, err := msm.Put(rt, others)
	if err != nil {
		t.Fatal(err)
	}
	defer key.Release()
	if got, err := key.Sum(t.Context(), scalars[:70]); err != nil || got != msm.Reference(others, scalars[:70]) {
		t.Errorf("the sum in G2 is %v, %v", got, err)
	}
}
