package plan

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

var instances = flag.Int("instances", 60, "random instances that TestAssignExhaustive tries")

// shared draws jobs and machines: some devices here that cost energy, and instances to
// rent that are faster, dearer and take a while to start. Deadlines are tight enough that
// this machine cannot do everything.
func shared(rng *rand.Rand, jobs, here, rented, most int) ([]Job, []Machines) {
	var machines []Machines
	speed := []float64{}
	for i := range here {
		machines = append(machines, Machines{Name: fmt.Sprintf("here%d", i), Count: 1, Hourly: 0.03 + 0.05*rng.Float64()})
		speed = append(speed, 0.5+rng.Float64())
	}
	for i := range rented {
		v := math.Exp(2 * rng.Float64())
		machines = append(machines, Machines{
			Name: fmt.Sprintf("rented%d", i), Count: 1 + rng.IntN(most),
			Hourly: v * (0.5 + rng.Float64()), Start: 60 + 300*rng.Float64(),
		})
		speed = append(speed, v)
	}
	// The last kind can take every job on a machine of its own.
	machines[len(machines)-1].Count = jobs
	list := make([]Job, jobs)
	total := 0.0
	for j := range list {
		work := 600 * math.Exp(0.8*rng.NormFloat64())
		list[j] = Job{Name: fmt.Sprintf("j%d", j), Seconds: make([]float64, len(machines)), Extra: make([]float64, len(machines))}
		for k := range machines {
			list[j].Seconds[k] = work / speed[k] * (0.8 + 0.4*rng.Float64())
			if k >= here {
				list[j].Extra[k] = 0.05 * rng.Float64()
			}
			if rng.IntN(8) == 0 && k < len(machines)-1 {
				list[j].Seconds[k] = 0 // it does not fit there
			}
		}
		total += work
	}
	due := [3]float64{}
	for i := range due {
		due[i] = total / float64(here+1) * (0.3 + 0.7*rng.Float64())
	}
	last := len(machines) - 1
	for j := range list {
		list[j].Deadline = max(due[rng.IntN(1+rng.IntN(3))], machines[last].Start+list[j].Seconds[last]*1.01)
	}
	return list, machines
}

// price checks an assignment and returns what it costs, without any code of Assign.
func price(jobs []Job, machines []Machines, runs []Run) (float64, error) {
	type unit struct{ k, u int }
	byUnit := map[unit][]Run{}
	for j, r := range runs {
		if r.Job != j || r.Unit < 0 || r.Unit >= machines[r.Machines].Count || jobs[j].Seconds[r.Machines] == 0 {
			return 0, fmt.Errorf("job %d: %+v", j, r)
		}
		if d := jobs[j].Deadline; d > 0 && r.End > d*(1+1e-12) {
			return 0, fmt.Errorf("job %d ends at %v, due at %v", j, r.End, d)
		}
		if math.Abs(r.End-r.Begin-jobs[j].Seconds[r.Machines]) > 1e-6 {
			return 0, fmt.Errorf("job %d takes %v s, not %v", j, r.End-r.Begin, jobs[j].Seconds[r.Machines])
		}
		u := unit{r.Machines, r.Unit}
		byUnit[u] = append(byUnit[u], r)
	}
	usd := 0.0
	for u, runs := range byUnit {
		slices.SortFunc(runs, func(a, b Run) int { return cmp.Compare(a.Begin, b.Begin) })
		at, paid := machines[u.k].Start, machines[u.k].Start
		for _, r := range runs {
			if r.Begin < at-1e-6 {
				return 0, fmt.Errorf("job %d begins at %v, its machine is free at %v", r.Job, r.Begin, at)
			}
			at = r.End
			paid += r.End - r.Begin
			if x := jobs[r.Job].Extra; x != nil {
				usd += x[r.Machines]
			}
		}
		usd += paid * machines[u.k].Hourly / 3600
	}
	return usd, nil
}

// exhaustive returns the least cost of all assignments, infinite if there is none.
func exhaustive(jobs []Job, machines []Machines) float64 {
	type unit struct {
		k    int
		jobs []int
	}
	var units []unit
	for k, m := range machines {
		for range min(m.Count, len(jobs)) {
			units = append(units, unit{k: k})
		}
	}
	inTime := func(u unit) bool {
		order := slices.Clone(u.jobs)
		slices.SortFunc(order, func(a, b int) int { return cmp.Compare(jobs[a].Deadline, jobs[b].Deadline) })
		at := machines[u.k].Start
		for _, j := range order {
			if at += jobs[j].Seconds[u.k]; at > jobs[j].Deadline {
				return false
			}
		}
		return true
	}
	best := math.Inf(1)
	var try func(j int, usd float64)
	try = func(j int, usd float64) {
		if usd >= best {
			return
		}
		if j == len(jobs) {
			best = usd
			return
		}
		tried := map[int]bool{} // kinds of which an empty machine was tried
		for i := range units {
			u := &units[i]
			if jobs[j].Seconds[u.k] == 0 || len(u.jobs) == 0 && tried[u.k] {
				continue
			}
			more := jobs[j].Seconds[u.k]
			if len(u.jobs) == 0 {
				tried[u.k] = true
				more += machines[u.k].Start
			}
			u.jobs = append(u.jobs, j)
			if inTime(*u) {
				try(j+1, usd+more*machines[u.k].Hourly/3600+jobs[j].Extra[u.k])
			}
			u.jobs = u.jobs[:len(u.jobs)-1]
		}
	}
	try(0, 0)
	return best
}

// Small instances are compared with the least cost of all assignments.
func TestAssignExhaustive(t *testing.T) {
	if testing.Short() {
		*instances = min(*instances, 15)
	}
	worst := 0.0
	for seed := range *instances {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		jobs, machines := shared(rng, 1+rng.IntN(7), 1+rng.IntN(2), 1+rng.IntN(2), 2)
		gap := gapTo(t, seed, jobs, machines, exhaustive(jobs, machines))
		worst = max(worst, gap)
	}
	t.Logf("worst gap %.2f %% of %d", 100*worst, *instances)
	if worst > 0.05 {
		t.Errorf("worst gap %.2f %%", 100*worst)
	}
}

// gapTo returns how far Assign's cost is above the least one.
func gapTo(t *testing.T, seed int, jobs []Job, machines []Machines, least float64) float64 {
	t.Helper()
	a, err := Assign(jobs, machines)
	if err != nil {
		if math.IsInf(least, 1) && errors.As(err, new(*NothingFitsError)) {
			return 0
		}
		t.Fatalf("seed %d: %v, possible is %v", seed, err, least)
	}
	boundHolds(t, seed, a, least)
	return gapOf(t, seed, jobs, machines, a, least)
}

// boundHolds checks that the bound of an assignment is not above what another one costs.
func boundHolds(t *testing.T, seed int, a *Assignment, other float64) {
	t.Helper()
	if a.Bound > other*(1+1e-6) {
		t.Fatalf("seed %d: the bound %v is above the cost of an assignment, %v", seed, a.Bound, other)
	}
}

// gapOf returns how far the cost of an assignment, which it checks, is above a cost that none
// is below.
func gapOf(t *testing.T, seed int, jobs []Job, machines []Machines, a *Assignment, bound float64) float64 {
	t.Helper()
	usd, err := price(jobs, machines, a.Runs)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if math.Abs(usd-a.Cost) > 1e-6*usd {
		t.Fatalf("seed %d: it costs %v, not %v", seed, usd, a.Cost)
	}
	if usd < bound*(1-1e-6) {
		t.Fatalf("seed %d: %v is below the least %v", seed, usd, bound)
	}
	return usd/bound - 1
}

// The bound before it is cut off at the cost is at most the least cost, with few and many
// machines, deadlines that bind, and jobs without one.
func TestBoundBelow(t *testing.T) {
	tight, sum := 0, 0.0
	for seed := range 300 {
		rng := rand.New(rand.NewPCG(uint64(seed), 4))
		jobs, machines := shared(rng, 1+rng.IntN(6), 1+rng.IntN(2), 1+rng.IntN(2), 2)
		for k := range machines { // so that time here is scarce, and worth much
			machines[k].Hourly *= []float64{1, 1, 20}[rng.IntN(3)]
		}
		least := exhaustive(jobs, machines)
		if math.IsInf(least, 1) {
			continue
		}
		bound := newSharing(jobs, machines).bound(least)
		if bound > least*(1+1e-9) {
			t.Errorf("seed %d: bound %v, least %v", seed, bound, least)
		}
		if sum += bound / least; bound > 0.8*least {
			tight++
		}
	}
	t.Logf("%d of 300 bounds are within 20 %%, mean %.3f", tight, sum/300)
	if tight < 100 {
		t.Errorf("%d of 300 bounds are within 20 %%", tight)
	}
}

// Where the cheap machine has room for some of the jobs only, the bound is what it costs to
// have the rest of their time elsewhere.
func TestBoundCapacity(t *testing.T) {
	for _, c := range []struct {
		name  string
		count int
		due   float64
		want  float64
	}{
		{"room for all", 2, 1000, 0},
		{"room for 1000 of 1200 s", 1, 1000, 0.2},
		{"room for 600 of 1200 s", 1, 600, 0.6},
		{"no deadline", 1, 0, 0},
	} {
		// A second there costs a tenth of a cent, and one here nothing.
		machines := []Machines{{Name: "here", Count: c.count}, {Name: "there", Count: 2, Hourly: 3.6}}
		jobs := []Job{
			{Name: "a", Deadline: c.due, Seconds: []float64{600, 600}},
			{Name: "b", Deadline: c.due, Seconds: []float64{600, 600}},
		}
		if got := newSharing(jobs, machines).bound(1.2); math.Abs(got-c.want) > 0.02 {
			t.Errorf("%s: bound %v, want %v", c.name, got, c.want)
		}
	}
	// Starting a machine costs at least the part of its time that is used.
	machines := []Machines{{Name: "there", Count: 1, Hourly: 3.6, Start: 100}}
	jobs := []Job{{Name: "a", Deadline: 1100, Seconds: []float64{500}}}
	if got, want := newSharing(jobs, machines).bound(1.2), 0.5+0.1*0.5; math.Abs(got-want) > 1e-9 {
		t.Errorf("with a start: bound %v, want %v", got, want)
	}
}

func TestAssignErrors(t *testing.T) {
	two := []Machines{{Name: "here", Count: 1, Hourly: 0.1}, {Name: "there", Count: 1, Hourly: 5, Start: 100}}
	cases := []struct {
		name    string
		jobs    []Job
		binding string
		want    string
	}{
		{"memory", []Job{{Name: "big", Seconds: []float64{0, 0}}}, "memory", "big fits on none"},
		{"deadline", []Job{{Name: "slow", Seconds: []float64{500, 300}, Deadline: 350}}, "deadline", "takes 6m40s at least (there)"},
		{"together", []Job{
			{Name: "a", Seconds: []float64{500, 0}, Deadline: 600},
			{Name: "b", Seconds: []float64{500, 0}, Deadline: 600},
		}, "deadline", "1 job found no machine in time"},
	}
	for _, c := range cases {
		_, err := Assign(c.jobs, two)
		e := (*NothingFitsError)(nil)
		if !errors.As(err, &e) || e.Binding != c.binding || !strings.Contains(e.Reason, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for name, bad := range map[string][]Job{
		"times":    {{Name: "x", Seconds: []float64{1}}},
		"negative": {{Name: "x", Seconds: []float64{1, -1}}},
		"nan":      {{Name: "x", Seconds: []float64{1, math.NaN()}}},
		"extras":   {{Name: "x", Seconds: []float64{1, 1}, Extra: []float64{1}}},
	} {
		if _, err := Assign(bad, two); !errors.Is(err, ErrRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if a, err := Assign(nil, two); err != nil || a.Cost != 0 {
		t.Errorf("no jobs: %+v, %v", a, err)
	}
}

// The same jobs get the same assignment.
func TestAssignRepeats(t *testing.T) {
	jobs, machines := shared(rand.New(rand.NewPCG(1, 1)), 10, 2, 2, 3)
	a, err := Assign(jobs, machines)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Assign(jobs, machines)
	if err != nil || !slices.Equal(a.Runs, b.Runs) {
		t.Errorf("%v, then %v (%v)", a, b, err)
	}
}

func BenchmarkAssign(b *testing.B) {
	jobs, machines := shared(rand.New(rand.NewPCG(1, 1)), 60, 2, 3, 4)
	for b.Loop() {
		if _, err := Assign(jobs, machines); err != nil {
			b.Fatal(err)
		}
	}
}
