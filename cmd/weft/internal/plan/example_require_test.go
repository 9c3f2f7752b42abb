package plan_test

import (
	"errors"
	"fmt"
	"os"

	"github.com/weft-run/weft/cmd/weft/internal/plan"
)

// What a load requires of the device that was recorded, and what is refused.
func ExampleModel_Require() {
	src, err := os.ReadFile("../../../../bench/predict/h200.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := plan.DecodeRecording(src)
	if err != nil {
		fmt.Println(err)
		return
	}
	model := plan.Learn([]*plan.Recording{r}, nil)
	// Chains of 300 residues: 4.5e6 triples of 25,000 operations.
	load := plan.Load{Workload: "landscape", Batch: 1, Complexity: 1.1e11, Latency: 0.02, Priority: plan.HighPriority}
	q, err := model.Require(load, r.Machine)
	if err != nil {
		fmt.Println(err)
		return
	}
	units := r.Machine.Devices[0].ComputeUnits
	fmt.Println("less than half of the device:", q.Units < units/2, "and some of it:", q.Units > units/20)
	fmt.Println("in time with 99 % at least:", q.Confidence >= 0.99)
	load.Latency = 1e-4
	_, err = model.Require(load, r.Machine)
	fmt.Println("a tenth of a millisecond:", errors.Is(err, plan.ErrNoDevice))
	// Output:
	// less than half of the device: true and some of it: true
	// in time with 99 % at least: true
	// a tenth of a millisecond: true
}
