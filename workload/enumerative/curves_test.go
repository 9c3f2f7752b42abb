package enumerative_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/enumerative"
)

func TestCurvesOnDevices(t *testing.T) {
	workloadtest.Invariant(t, enumerative.Funcs(),
		func() (*enumerative.CurveJob, error) {
			return enumerative.NewCurves(enumerative.CurveConfig{Degree: 70})
		},
		func(j *enumerative.CurveJob) []byte { return j.Result().Bytes() })
}

// Numbers are those that are known, and those of the recursion in long integers.
func TestCurves(t *testing.T) {
	rt := workloadtest.Open(t, 2, enumerative.Funcs())
	for i, want := range []string{"1", "1", "12", "620", "87304", "26312976", "14616808192", "13525751027392"} {
		got, err := enumerative.CurvesOf(t.Context(), rt, i+1)
		if err != nil || got.String() != want {
			t.Errorf("degree %d: %v, %v, want %s", i+1, got, err, want)
		}
	}
	for _, d := range []int{9, 33, 120} {
		want, err := enumerative.Kontsevich(d)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := enumerative.CurvesOf(t.Context(), rt, d); err != nil || got.Cmp(want) != 0 {
			t.Errorf("degree %d: %v, %v, want %v", d, got, err, want)
		}
	}
}

func TestCurvesCheckFinds(t *testing.T) {
	j := workloadtest.New[*enumerative.CurveJob](t)(enumerative.NewCurves(enumerative.CurveConfig{Degree: 12}))
	if err := j.Check(); !errors.Is(err, enumerative.ErrWrong) { // before a run
		t.Errorf("the check says %v", err)
	}
	workloadtest.Run(t, workloadtest.Open(t, 1, enumerative.Funcs()), j)
	if err := j.Check(); err != nil {
		t.Error(err)
	}
	if s := j.Summary(); !strings.HasSuffix(s, " rational curves of degree 12 through 35 points") {
		t.Error(s)
	}
}

func TestCurvesReject(t *testing.T) {
	for _, d := range []int{-1, 0, 501} {
		if _, err := enumerative.NewCurves(enumerative.CurveConfig{Degree: d}); !errors.Is(err, workload.ErrConfig) || !strings.Contains(err.Error(), "1 to 500") {
			t.Errorf("degree %d: %v", d, err)
		}
	}
}
