package gemm_test

import (
	"math"
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload/gemm"
)

// Rows are bitwise the same on any number of devices (class R), and right; also where the
// inner dimension is cut into blocks.
func TestJobOnDevices(t *testing.T) {
	for _, c := range []gemm.Config{{M: 301, K: 97, N: 203, Seed: 1}, {M: 45, K: 530, N: 40, Seed: 2}} {
		workloadtest.Invariant(t, gemm.Funcs(),
			func() (*gemm.Job, error) { return gemm.New(c) },
			func(j *gemm.Job) []byte { return workloadtest.Bytes(j.Result()) })
	}
}

// Check sees an element that is not a number and a row that was left out.
func TestJobCheckFinds(t *testing.T) {
	for what, spoil := range map[string]func(c []float32){
		"element": func(c []float32) { c[700] = float32(math.NaN()) },
		"row":     func(c []float32) { clear(c[203:406]) },
	} {
		j := workloadtest.New[*gemm.Job](t)(gemm.New(gemm.Config{M: 301, K: 97, N: 203}))
		workloadtest.Finds(t, gemm.Funcs(), j, what, func() { spoil(j.Result()) }, gemm.ErrWrong)
	}
}

func TestJobRejects(t *testing.T) {
	for _, c := range []gemm.Config{{}, {M: 1, K: -1, N: 1}, {M: 1 << 20, K: 1, N: 1}} {
		if _, err := gemm.New(c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
}
