package tropical_test

import (
	"errors"
	"math"
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload/tropical"
)

// The trained network is the same bits on one to eight devices, and those of a
// sequential training by another algorithm.
func TestTrainingOnDevices(t *testing.T) {
	for _, c := range []tropical.Training{
		{Inputs: 9, Hidden: 7, Outputs: 3, Batch: 101, Steps: 5},
		{Inputs: 1, Hidden: 1, Outputs: 1, Batch: 3, Steps: 2, Shards: 3, Seed: 2},
		{Inputs: 20, Hidden: 5, Outputs: 6, Batch: 64, Steps: 3, Shards: 1, Seed: 3},
	} {
		if c.Shards == 1 { // one shard keeps the others idle, and is right all the same
			j := workloadtest.New[*tropical.TrainJob](t)(tropical.NewTraining(c))
			workloadtest.Run(t, workloadtest.Open(t, 3, tropical.TrainFuncs()), j)
			if err := j.Check(); err != nil {
				t.Error(err)
			}
			continue
		}
		workloadtest.Invariant(t, tropical.TrainFuncs(),
			func() (*tropical.TrainJob, error) { return tropical.NewTraining(c) },
			func(j *tropical.TrainJob) []byte { return workloadtest.Bytes(j.Result()) })
	}
}

// A batch of 1,024 over four devices: each has its part, and the network learns.
func TestTrainingLearns(t *testing.T) {
	c := tropical.Training{Inputs: 16, Hidden: 8, Outputs: 4, Batch: 1024, Steps: 30, Shards: 4}
	j := workloadtest.New[*tropical.TrainJob](t)(tropical.NewTraining(c))
	res := workloadtest.Run(t, workloadtest.Open(t, 4, tropical.TrainFuncs()), j)
	if err := j.Check(); err != nil {
		t.Fatal(err)
	}
	for i, d := range res.Report.Devices {
		if d.Tasks < 3*c.Steps {
			t.Errorf("device %d ran %d tasks, want three at least for each step", i, d.Tasks)
		}
	}
	before, after := j.Loss()
	if !(after < before/4) || math.IsNaN(before) {
		t.Errorf("the loss went from %v to %v", before, after)
	}
}

func TestTrainingCheckFinds(t *testing.T) {
	c := tropical.Training{Inputs: 5, Hidden: 4, Outputs: 2, Batch: 32, Steps: 2}
	for _, at := range []int{0, 4*6 - 1, 4*6 + 2*5 - 1} {
		j := workloadtest.New[*tropical.TrainJob](t)(tropical.NewTraining(c))
		workloadtest.Finds(t, tropical.TrainFuncs(), j, "parameter", func() {
			j.Result()[at] = math.Nextafter32(j.Result()[at], 9)
		}, tropical.ErrUntrained)
	}
}

func TestTrainingRejects(t *testing.T) {
	good := tropical.Training{Inputs: 1, Hidden: 1, Outputs: 1, Batch: 10, Steps: 1}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for what, spoil := range map[string]func(*tropical.Training){
		"inputs": func(c *tropical.Training) { c.Inputs = 0 },
		"hidden": func(c *tropical.Training) { c.Hidden = 5000 },
		"batch":  func(c *tropical.Training) { c.Batch = 0 },
		"few":    func(c *tropical.Training) { c.Batch = 5 },
		"steps":  func(c *tropical.Training) { c.Steps = -1 },
		"shards": func(c *tropical.Training) { c.Shards = 11 },
		"rate":   func(c *tropical.Training) { c.Rate = math.NaN() },
	} {
		c := good
		spoil(&c)
		if _, err := tropical.NewTraining(c); !errors.Is(err, tropical.ErrTraining) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
