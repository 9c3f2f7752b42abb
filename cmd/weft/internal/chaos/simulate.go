package chaos

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weft-run/weft/experimental/sim"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
)

const (
	// simRanges is the number of ranges per device of a simulated job, so that work is left
	// whenever a device is lost.
	simRanges = 4
	// simBack is the time to replace a simulated worker.
	simBack = 50 * time.Millisecond
	// slowFactor and slowFor are what Slow does: see slow.
	slowFactor = 10
	slowFor    = 200 * time.Millisecond
	simNoise   = 0.2 // of durations
)

// Simulate does the beginning of the trial in virtual time: the engine of a live trial, the
// graph of the job, the plans of the same seed. Nothing is computed. A round is right if every
// task read and every output holds what it would after running the tasks one after another, byte
// range by byte range; the first one that is not ends the trial with an error. Where tasks give
// the same bytes for the same bytes, so do rounds.
func (t *Trial) Simulate(ctx context.Context, bouts int) (*Account, error) {
	a := &Account{Seed: t.Seed, Faults: make(map[string]int), Simulated: true}
	began := time.Now()
	m, err := simMachine(t.Options.Devices)
	if err != nil {
		return a, err
	}
	if _, err := sched.New(t.Options.Policy); err != nil { // before inputs are made, which may take long
		return a, err
	}
	job, err := t.Job(ctx)
	if err != nil {
		return a, err
	}
	a.Name = job.Name()
	g, err := simGraph(job, m)
	if err != nil {
		return a, fmt.Errorf("%s: %w", a.Name, err)
	}
	usual, err := simUsual(m, g, t.Options.Policy)
	if err != nil {
		return a, fmt.Errorf("%s: without faults: %w", a.Name, err)
	}
	foot := footprintOf(g)
	for n := range uint64(bouts) {
		if ctx.Err() != nil {
			break
		}
		c := t.simulated(t.plan(n), m, g, foot, usual, a)
		c.Seed = t.Seed + n
		res, err := sim.Run(c)
		a.Bouts++
		a.Seconds = time.Since(began).Seconds()
		if err != nil {
			a.Wrong++
			a.FirstWrong = fmt.Sprintf("bout %d: %v", n, err)
			return a, fmt.Errorf("bout %d of seed %d: %w\nfaults:\n%s", n, t.Seed, err, c.Faults.Text(c.Machine))
		}
		a.take(res, n)
		if t.Told != nil {
			t.Told(a)
		}
	}
	return a, nil
}

// take counts what came of a simulated bout.
func (a *Account) take(res *sim.Result, bout uint64) {
	a.Losses += res.Losses
	a.Recoveries += res.Recoveries
	for _, r := range res.Runs {
		a.Rounds++
		if r.Report != nil {
			a.Retries += r.Report.Retries
			a.Replays += r.Report.Replays
			a.Evictions += r.Report.Evictions
		}
		if r.Err == nil {
			a.Right++
			continue
		}
		a.Errors++
		if a.FirstError == "" {
			a.FirstError = fmt.Sprintf("bout %d, round %d: %v", bout, r.Run, r.Err)
		}
	}
}

// simMachine describes the devices of a list as a rig has them: each has memory of its own, and
// a link to the host.
func simMachine(devices string) (*machine.Machine, error) {
	p, err := pick(devices)
	if err != nil {
		return nil, err
	}
	counts, err := p.simulated(devices)
	if err != nil {
		return nil, err
	}
	m := &machine.Machine{Name: "chaos"}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		for i := range counts[name] {
			d := machine.Device{Name: fmt.Sprintf("%s:%d", name, i), Kind: machine.Discrete, Backend: name, ComputeUnits: 1, Lanes: 1, MemBytes: 1 << 40}
			if name == cores {
				d.Kind = machine.CPU
			}
			for u := range d.Rates.Ops {
				d.Rates.Ops[u] = 1e10
			}
			d.Rates.MemoryBPS, d.Rates.LaunchNS, d.Rates.ReplyNS = 1e10, 5000, 10_000
			m.Links = append(m.Links, machine.Link{A: machine.Host, B: machine.DeviceID(len(m.Devices)), Kind: machine.PCIe, BPS: 1e10, LatencyNS: 10_000})
			m.Devices = append(m.Devices, d)
		}
	}
	return m, nil
}

// simGraph builds the graph of a job in equal ranges.
func simGraph(j workload.Job, m *machine.Machine) (*graph.Graph, error) {
	if _, ok := j.(workload.Stateful); ok {
		return nil, fmt.Errorf("%w: it keeps state on devices from round to round; run it on live ones", ErrSimulate)
	}
	if p, ok := j.(workload.Placed); ok {
		if err := p.Place(m); err != nil {
			return nil, err
		}
	}
	var shares []sched.Share
	for range simRanges {
		for d := range m.Devices {
			shares = append(shares, sched.Share{Device: machine.DeviceID(d), Rate: 1, FreeBytes: m.Devices[d].MemBytes})
		}
	}
	p, err := sched.Equal(j.Items(), shares)
	if err != nil {
		return nil, err
	}
	return j.Graph(slices.DeleteFunc(p.Ranges, func(r sched.Range) bool { return r.Len() == 0 }))
}

// simUsual returns how long a round takes without faults.
func simUsual(m *machine.Machine, g *graph.Graph, policy string) (time.Duration, error) {
	res, err := sim.Run(sim.Config{Machine: m, Policy: policy, Jobs: []sim.Job{{Graph: g}}})
	if err == nil {
		err = res.Runs[0].Err
	}
	if err != nil {
		return 0, err
	}
	return max(res.Makespan, time.Microsecond), nil
}

// simulated makes a simulation of a bout: its rounds as jobs, far enough apart for each to
// end before the next, and what happens to devices as faults.
func (t *Trial) simulated(p *plan, m *machine.Machine, g *graph.Graph, foot footprint, usual time.Duration, a *Account) sim.Config {
	here := *m
	here.Devices = slices.Clone(m.Devices)
	if p.starved >= 0 {
		a.Faults[starve]++
		for i := range here.Devices {
			here.Devices[i].MemBytes = foot.little(p.starved)
		}
	}
	c := sim.Config{
		Machine: &here, Policy: t.Options.Policy, Noise: simNoise,
		Concurrent: t.Options.Concurrent, Retries: cmp.Or(t.Options.Retries, manyRetries), TaskTimeout: max(t.Options.TaskTimeout, 0),
	}
	apart := time.Duration(len(here.Devices)*slowFactor)*usual + maxStrikes*(t.hang()+simBack+slowFor)
	for i, hits := range p.rounds {
		at := time.Duration(i) * apart
		c.Jobs = append(c.Jobs, sim.Job{Name: fmt.Sprint("round ", i+1), At: at, Graph: g})
		for _, h := range hits {
			at += time.Duration(h.after * float64(usual))
			a.Faults[h.strike.String()]++
			device := machine.DeviceID(h.rand().IntN(len(here.Devices)))
			c.Faults = append(c.Faults, h.strike.faults(at, device, t.hang())...)
		}
	}
	p.lies = false // virtual devices compute nothing that could be wrong
	if slices.ContainsFunc(here.Devices, func(d machine.Device) bool { return d.Backend == scripted }) {
		a.scripted(p)
		for i := range here.Devices {
			if here.Devices[i].Backend == scripted {
				c.Faults = append(c.Faults, p.scriptFaults(machine.DeviceID(i), usual)...)
			}
		}
	}
	return c
}

// faults returns the simulated faults of a device whose worker is struck.
func (s Strike) faults(at time.Duration, device machine.DeviceID, hang time.Duration) sim.Faults {
	lost := func(at time.Duration) sim.Faults {
		return sim.Faults{{At: at, Kind: sim.Lose, Device: device}, {At: at + simBack, Kind: sim.Back, Device: device}}
	}
	switch s {
	case Kill:
		return lost(at)
	case Stop: // what it runs does not end, until it is given up on
		return append(sim.Faults{{At: at, Kind: sim.Hang, Device: device}}, lost(at+hang)...)
	case Slow: // the engine is not told
		return sim.Faults{{At: at, Kind: sim.Slow, Device: device, Factor: slowFactor, Silent: true}, {At: at + slowFor, Kind: sim.Slow, Device: device, Factor: 1, Silent: true}}
	case Corrupt: // operations end as failed before the worker is found out
		return append(sim.Faults{{At: at, Kind: sim.FailNext, Device: device}, {At: at, Kind: sim.FailCopy, Device: device}}, lost(at+time.Millisecond)...)
	}
	return nil
}

// scriptFaults returns the script's faults of a device, with operations as moments of a round.
func (p *plan) scriptFaults(device machine.DeviceID, usual time.Duration) (out sim.Faults) {
	at := func(op int) time.Duration { return time.Duration(op-1) * usual / scriptOps }
	for _, op := range p.fails {
		kind := sim.FailNext
		if op%2 == 0 {
			kind = sim.FailCopy
		}
		out = append(out, sim.Fault{At: at(op), Kind: kind, Device: device})
	}
	for _, d := range p.dawdles {
		out = append(out, sim.Fault{At: at(d.op), Kind: sim.Slow, Device: device, Factor: slowFactor, Silent: true}, sim.Fault{At: at(d.op) + d.extra, Kind: sim.Slow, Device: device, Factor: 1, Silent: true})
	}
	return out
}
