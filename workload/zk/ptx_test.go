package zk_test

import (
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/zk"
	"github.com/weft-run/weft/workload/zk/msm"
	"github.com/weft-run/weft/workload/zk/ntt"
)

// Every step hands over what its PTX kernel takes.
func TestPTXTakesWhatStepsGive(t *testing.T) {
	made := workloadtest.New[workload.Job](t)
	transform, err := ntt.New(ntt.Config{Log: 20})
	if err != nil {
		t.Fatal(err)
	}
	proof, err := zk.New(t.Context(), zk.Config{Circuit: zk.Range, Constraints: 130})
	if err != nil {
		t.Fatal(err)
	}
	jobs := []workload.Job{transform, made(msm.New(msm.Config{Group: "g1", Size: 3000})), made(msm.New(msm.Config{Group: "g2", Size: 1000})), proof}
	if seen, want := workloadtest.PTXTakes(t, jobs), 20; seen != want {
		t.Errorf("%d PTX kernels were looked at, want %d", seen, want)
	}
}
