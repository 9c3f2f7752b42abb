//go:build lavapipe || gpu

package zk_test

import (
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bn254"

	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload/zk"
	"github.com/weft-run/weft/workload/zk/msm"
	"github.com/weft-run/weft/workload/zk/ntt"
)

// all are the samples of sums, transforms and proofs.
var all = workloadtest.Samples{Funcs: zk.Funcs(), Make: samples}

// samples makes every workload anew, in sizes that are odd and small.
func samples(t *testing.T) (out []workloadtest.Sample) {
	for _, c := range []msm.Config{{Group: "g1", Size: 700, Seed: 1}, {Group: "g2", Size: 130, Seed: 2}} {
		m, err := msm.New(c)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, workloadtest.Sample{Job: m, Result: func() []byte {
			if g1, ok := m.(*msm.Job[bn254.G1Affine]); ok {
				return workloadtest.Bytes([]bn254.G1Affine{g1.Result()})
			}
			return workloadtest.Bytes([]bn254.G2Affine{m.(*msm.Job[bn254.G2Affine]).Result()})
		}})
	}
	for _, c := range []ntt.Config{
		{Log: 0, Transform: ntt.Transform{Coset: true}},
		{Log: 5, Seed: 1},
		{Log: 9, Seed: 2, Transform: ntt.Transform{Inverse: true, Coset: true}},
		{Log: 11, Seed: 3, Transform: ntt.Transform{Coset: true}},
		{Log: 14, Seed: 4, Transform: ntt.Transform{Inverse: true}},
	} {
		n, err := ntt.New(c)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, workloadtest.Sample{Job: n, Result: func() []byte { return workloadtest.Bytes(n.Result()) }})
	}
	proof, err := zk.New(t.Context(), zk.Config{Circuit: zk.Range, Constraints: 130, Seed: 2})
	if err != nil {
		t.Fatal(err)
	}
	// Random numbers make proofs differ: gnark verifies them.
	return append(out, workloadtest.Sample{Job: proof, Result: func() []byte { return nil }})
}
