package plan

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/weft-run/weft/internal/text"
)

// Machines are equal machines that jobs share, each of which runs one job at a time:
// devices here, or instances that may be rented.
type Machines struct {
	Name   string  `json:"name"`
	Count  int     `json:"count"`  // how many there are, or may be rented
	Hourly float64 `json:"hourly"` // US dollars an hour while one runs: rent, or energy
	Start  float64 `json:"start"`  // seconds from renting until the first job runs, which are paid for
}

// Job is a job of many that share machines.
type Job struct {
	Name     string  `json:"name"`
	Deadline float64 `json:"deadline"` // seconds from now; 0 for none
	// Seconds is the time of the job on each of the Machines, with its transfers; 0 where
	// it does not fit.
	Seconds []float64 `json:"seconds"`
	// Extra is the cost on each of them in addition to time, such as egress; nil for
	// nothing.
	Extra []float64 `json:"extra,omitempty"`
}

// Run is a job's place in an assignment.
type Run struct {
	Job      int     `json:"job"`
	Machines int     `json:"machines"`
	Unit     int     `json:"unit"` // which of the equal machines
	Begin    float64 `json:"begin"`
	End      float64 `json:"end"` // in seconds from now
}

// Assignment says which job runs where and when.
type Assignment struct {
	Runs []Run   `json:"runs"` // one for each job, in their order
	Cost float64 `json:"cost"`
	// Bound is a cost that no assignment is below, Gap how far Cost may be above the
	// least: (Cost − Bound) / Bound.
	Bound float64 `json:"bound"`
	Gap   float64 `json:"gap"`
}

// Assign gives every job a machine so that all deadlines are kept and the cost is small.
// A rented machine is paid for from its start to its last job, and jobs on it run by
// their deadlines, the earliest first. The search removes some jobs and puts them back
// elsewhere, again and again (ruin and recreate, accepted by simulated annealing), from
// the same seed every time. Its errors wrap ErrRequest or are a *NothingFitsError.
func Assign(jobs []Job, machines []Machines) (*Assignment, error) {
	if err := checkShared(jobs, machines); err != nil {
		return nil, err
	}
	s := newSharing(jobs, machines)
	if err := s.possible(); err != nil {
		return nil, err
	}
	best := s.search(rand.New(rand.NewPCG(uint64(len(jobs)), 19)))
	if len(best.left) > 0 {
		var names []string
		for _, j := range best.left {
			names = append(names, jobs[j].Name)
		}
		slices.Sort(names)
		return nil, &NothingFitsError{Binding: "deadline", Reason: fmt.Sprintf("%s found no machine in time: %s; allow more machines, or later deadlines",
			text.Count(len(names), "job"), strings.Join(names, ", "))}
	}
	return s.assignment(best), nil
}

func checkShared(jobs []Job, machines []Machines) error {
	for _, m := range machines {
		if m.Count < 0 || !(m.Hourly >= 0) || !(m.Start >= 0) || math.IsInf(m.Hourly+m.Start, 1) {
			return fmt.Errorf("%w: machines %s: %d at $%g an hour after %g s; expected numbers that are not negative", ErrRequest, m.Name, m.Count, m.Hourly, m.Start)
		}
	}
	for _, j := range jobs {
		if len(j.Seconds) != len(machines) || j.Extra != nil && len(j.Extra) != len(machines) {
			return fmt.Errorf("%w: job %s has times for %d and extras for %d of %s", ErrRequest, j.Name, len(j.Seconds), len(j.Extra), text.Count(len(machines), "kind"))
		}
		for _, x := range slices.Concat(j.Seconds, j.Extra, []float64{j.Deadline}) {
			if !(x >= 0) || math.IsInf(x, 1) {
				return fmt.Errorf("%w: job %s: %v; expected times and costs that are not negative", ErrRequest, j.Name, x)
			}
		}
	}
	return nil
}

// sharing is the jobs in the order of their deadlines, with costs.
type sharing struct {
	jobs     []Job
	machines []Machines
	order    []int       // position among jobs, the earliest deadline first
	deadline []float64   // by place in order; infinite for none
	seconds  [][]float64 // by place in order and kind; infinite where a job does not fit
	cost     [][]float64
	fixed    []float64 // what starting a machine of a kind costs
	units    []int     // machines of a kind, no more than jobs
	dearest  float64   // price of an hour of the dearest kind
}

func newSharing(jobs []Job, machines []Machines) *sharing {
	s := &sharing{jobs: jobs, machines: machines}
	due := func(j int) float64 {
		if jobs[j].Deadline == 0 {
			return math.Inf(1)
		}
		return jobs[j].Deadline
	}
	for j := range jobs {
		s.order = append(s.order, j)
	}
	slices.SortStableFunc(s.order, func(a, b int) int { return cmp.Compare(due(a), due(b)) })
	for _, m := range machines {
		s.dearest = max(s.dearest, m.Hourly)
		s.fixed = append(s.fixed, m.Hourly*m.Start/3600)
		s.units = append(s.units, min(m.Count, len(jobs)))
	}
	for _, j := range s.order {
		seconds, cost := make([]float64, len(machines)), make([]float64, len(machines))
		for k, m := range machines {
			t := jobs[j].Seconds[k]
			seconds[k], cost[k] = t, t*m.Hourly/3600
			if t == 0 || m.Start+t > due(j) || m.Count == 0 {
				seconds[k], cost[k] = math.Inf(1), math.Inf(1)
			}
			if jobs[j].Extra != nil {
				cost[k] += jobs[j].Extra[k]
			}
		}
		s.deadline = append(s.deadline, due(j))
		s.seconds = append(s.seconds, seconds)
		s.cost = append(s.cost, cost)
	}
	return s
}

// possible finds a job that no machine can do in time, even alone.
func (s *sharing) possible() error {
	for i, j := range s.order {
		if slices.ContainsFunc(s.seconds[i], func(t float64) bool { return !math.IsInf(t, 1) }) {
			continue
		}
		soonest, where := math.Inf(1), ""
		for k, t := range s.jobs[j].Seconds {
			if t > 0 && s.machines[k].Count > 0 && t+s.machines[k].Start < soonest {
				soonest, where = t+s.machines[k].Start, s.machines[k].Name
			}
		}
		if where == "" {
			return &NothingFitsError{Binding: "memory", Reason: fmt.Sprintf("job %s fits on none of the machines", s.jobs[j].Name)}
		}
		return &NothingFitsError{Binding: "deadline", Reason: fmt.Sprintf("job %s is due in %s and takes %s at least (%s); possible is a deadline of that",
			s.jobs[j].Name, span(s.jobs[j].Deadline), span(soonest), where)}
	}
	return nil
}

// packing is a state of the search. Jobs are places in sharing.order, so that the jobs of
// a machine in ascending order are in the order in which they run.
type packing struct {
	units [][][]int // jobs by kind and machine
	left  []int     // jobs without a machine
	cost  float64   // of those that have one
}

func (p *packing) clone() packing {
	c := packing{units: make([][][]int, len(p.units)), left: slices.Clone(p.left), cost: p.cost}
	for k, units := range p.units {
		c.units[k] = make([][]int, len(units))
		for u, jobs := range units {
			c.units[k][u] = slices.Clone(jobs)
		}
	}
	return c
}

// better compares states: the more jobs have a machine the better, then the cheaper.
func (p *packing) better(q *packing) bool {
	if len(p.left) != len(q.left) {
		return len(p.left) < len(q.left)
	}
	return p.cost < q.cost-1e-12*q.cost
}

// accepts reports whether a machine of kind k that has some jobs can do one more in time.
func (s *sharing) accepts(k int, jobs []int, j int) bool {
	at := s.machines[k].Start
	placed := false
	for _, i := range jobs {
		if !placed && i > j {
			if at += s.seconds[j][k]; at > s.deadline[j] {
				return false
			}
			placed = true
		}
		if at += s.seconds[i][k]; at > s.deadline[i] {
			return false
		}
	}
	return placed || at+s.seconds[j][k] <= s.deadline[j]
}

// added returns the cost of one more job on a machine.
func (s *sharing) added(k int, jobs []int, j int) float64 {
	if len(jobs) == 0 {
		return s.cost[j][k] + s.fixed[k]
	}
	return s.cost[j][k]
}

func (s *sharing) put(p *packing, k, u, j int) {
	p.cost += s.added(k, p.units[k][u], j)
	at, _ := slices.BinarySearch(p.units[k][u], j)
	p.units[k][u] = slices.Insert(p.units[k][u], at, j)
}

// take removes the job at a place of a machine and returns it.
func (s *sharing) take(p *packing, k, u, at int) int {
	j := p.units[k][u][at]
	p.units[k][u] = slices.Delete(p.units[k][u], at, at+1)
	p.cost -= s.added(k, p.units[k][u], j)
	return j
}

// assignment writes a packing as what it means for the jobs.
func (s *sharing) assignment(p *packing) *Assignment {
	a := &Assignment{Runs: make([]Run, len(s.jobs))}
	for k, units := range p.units {
		unit := 0
		for _, jobs := range units {
			at := s.machines[k].Start
			if len(jobs) > 0 {
				a.Cost += s.fixed[k]
			}
			for _, i := range jobs {
				end := at + s.seconds[i][k]
				a.Runs[s.order[i]] = Run{Job: s.order[i], Machines: k, Unit: unit, Begin: at, End: end}
				a.Cost += s.cost[i][k]
				at = end
			}
			if len(jobs) > 0 {
				unit++
			}
		}
	}
	a.Bound = min(s.bound(a.Cost), a.Cost) // but for rounding it is
	if a.Bound > 0 {
		a.Gap = a.Cost/a.Bound - 1
	}
	return a
}
