package plan_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/weft-run/weft/cmd/weft/internal/plan"
)

// measured says how long the job takes on one GPU of a kind, as if it had been tried.
type measured map[string]float64

func (m measured) Predict(_ plan.Need, g plan.GPU, count int) plan.Estimate {
	s, ok := m[g.Name]
	if !ok {
		return plan.Estimate{Why: "not tried on a " + g.Name}
	}
	s /= float64(count)
	return plan.Estimate{Median: s, Low: 0.9 * s, High: 1.1 * s, Measured: true, Bottleneck: "compute", Fits: true}
}

// A job of some 30 hours on this machine is due in the evening.
func ExampleDecide() {
	c := new(plan.Catalogue)
	for _, file := range []string{
		"name,memory_gb,mem_bw_gbps,fp32_tflops\n" + "RTX-4060,8,272,15.11\n" + "L4,24,300,30.3\n",
		"cloud,instance_type,gpu,gpu_count,usd_per_hour_ondemand,price_date\n" + "acme,one,L4,1,0.80,2026-11-01\n" + "acme,eight,L4,8,6.00,2026-11-01\n",
	} {
		if err := c.Add([]byte(file)); err != nil {
			fmt.Println(err)
			return
		}
	}
	here, _ := c.GPU("RTX-4060")
	request := plan.Request{
		Need:     plan.Need{Name: "ensemble", Download: 1e9, Parts: 64},
		Here:     []plan.Here{{Name: "cuda:0", GPU: here, Count: 1, Watts: 200}},
		Rent:     true,
		Deadline: 8 * time.Hour,
		Assume:   plan.DefaultAssumptions(),
		At:       time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC),
	}
	times := measured{"RTX-4060": 30 * 3600, "L4": 16 * 3600}
	d, err := plan.Decide(request, c, times)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s: %d of 64 parts there\n", d.Best.Name, d.Best.Parts)
	fmt.Printf("%.1f h, $%.2f, in time with probability %.2f\n", d.Best.Seconds/3600, d.Best.Cost, d.Best.InTime)

	request.Deadline = time.Hour
	_, err = plan.Decide(request, c, times)
	var nothing *plan.NothingFitsError
	fmt.Println(errors.As(err, &nothing), nothing.Binding)
	// Output:
	// here and acme eight (8 × L4): 49 of 64 parts there
	// 7.0 h, $9.95, in time with probability 0.99
	// true deadline
}

// Three jobs share a device here and machines that may be rented.
func ExampleAssign() {
	machines := []plan.Machines{
		{Name: "here", Count: 1, Hourly: 0.05},
		{Name: "rented", Count: 2, Hourly: 4, Start: 180},
	}
	jobs := []plan.Job{
		{Name: "a", Deadline: 7200, Seconds: []float64{5000, 1000}},
		{Name: "b", Deadline: 7200, Seconds: []float64{6000, 1000}},
		{Name: "c", Seconds: []float64{3000, 700}},
	}
	a, err := plan.Assign(jobs, machines)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range a.Runs {
		fmt.Printf("%s on %s from %.0f to %.0f s\n", jobs[r.Job].Name, machines[r.Machines].Name, r.Begin, r.End)
	}
	fmt.Printf("$%.2f\n", a.Cost)
	// Output:
	// a on here from 0 to 5000 s
	// b on rented from 180 to 1180 s
	// c on here from 5000 to 8000 s
	// $1.42
}

// A fleet is told what happens and says what to do: the job that one's own machine cannot
// do in time gets a rented one.
func ExampleFleet() {
	machines := []plan.Machines{{Name: "here", Count: 1, Hourly: 0.05}, {Name: "rented", Count: 2, Hourly: 4, Start: 180}}
	f := plan.NewFleet(machines, 1, plan.DefaultFleetRules())
	for i := range 2 {
		for _, a := range f.Step(0, plan.FleetEvent{Arrived: &plan.FleetJob{ID: i, Deadline: 1000, Seconds: []float64{900, 300}}}) {
			fmt.Printf("%s: job %d on %s\n", a.Verb, a.Job, machines[a.Kind].Name)
		}
	}
	for _, a := range f.Step(180, plan.FleetEvent{Ready: true, Unit: 1}) {
		fmt.Printf("%s: job %d on %s\n", a.Verb, a.Job, machines[a.Kind].Name)
	}
	// Output:
	// launch: job 0 on here
	// rent: job 1 on rented
	// launch: job 1 on rented
}
