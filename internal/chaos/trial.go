package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/workload"
)

// Trial runs a job round after round while its workers are struck, and checks every result.
// Devices are opened for a few rounds, a session, and closed again: what a session leaves
// behind is looked for.
type Trial struct {
	Job     func(context.Context) (workload.Job, error) // makes the job of a session
	Options weft.Options
	For     time.Duration // no session begins after it, and no round
	Seed    uint64        // decides which worker is struck, when and how
	Hang    time.Duration // how long a worker may be silent
	Faults  []string      // those that may happen, of Faults
	// Told, if it is not nil, is called after every round with the account so far.
	Told func(*Account)
}

// Account is what came of a trial.
type Account struct {
	Name     string         `json:"job"`
	Seed     uint64         `json:"seed"`
	Seconds  float64        `json:"seconds"`
	Sessions int            `json:"sessions"`
	Rounds   int            `json:"rounds"`
	Faults   map[string]int `json:"faults"` // by kind: strikes; sessions with little memory; what scripts did
	// Of Rounds, Right had the right result, Wrong a wrong one, and Errors ended with an error
	// that says what happened.
	Right  int `json:"right"`
	Wrong  int `json:"wrong"`
	Errors int `json:"errors"`
	// Losses counts how often a device was lost and Recoveries how often one came back,
	// Retries executions that failed and were tried again, and Replays tasks that ran again
	// because their results were lost.
	Losses     int `json:"losses"`
	Recoveries int `json:"recoveries"`
	Retries    int `json:"retries"`
	Replays    int `json:"replays"`
	Evictions  int `json:"evictions"`
	// Before is the memory, goroutines, descriptors and children of the process after its first
	// runtime was closed, After those after the last.
	Before Use `json:"before"`
	After  Use `json:"after"`
	// Left are sessions after which a process, goroutine or descriptor was left.
	Left       int    `json:"left"`
	FirstWrong string `json:"first_wrong,omitempty"`
	FirstError string `json:"first_error,omitempty"`
	LastLeft   string `json:"last_left,omitempty"`
}

// Faults are the names of all faults.
func Faults() (all []string) {
	for _, s := range strikes {
		all = append(all, s.String())
	}
	return append(all, starve, fail, dawdle)
}

// The faults that are no strikes.
const (
	starve = "starve" // a session whose devices have little memory
	fail   = "fail"   // an operation of a scripted device that is to fail
	dawdle = "dawdle" // one that is to take long
)

const (
	maxRounds = 6 // of a session
	// maxStrikes is the greatest number of strikes in a round; a third of the rounds has none
	// if each number is as likely.
	maxStrikes = 2
	leftWait   = time.Minute // for what a session started to end
)

// footprint is the memory that a job uses.
type footprint struct{ all, task int64 } // of all data, and of its largest task

// Run runs the trial until its time is over or ctx ends, which is no error: the account is of
// what was done until then.
func (t *Trial) Run(ctx context.Context) (*Account, error) {
	a := &Account{Seed: t.Seed, Faults: make(map[string]int)}
	rnd := rand.New(rand.NewPCG(t.Seed, 0))
	began := time.Now()
	var foot footprint
	for time.Since(began) < t.For && ctx.Err() == nil {
		before := a.After
		err := t.session(ctx, a, rnd, &foot, began)
		if err != nil && ctx.Err() == nil {
			return a, err
		}
		a.Sessions++
		if a.Sessions == 1 {
			a.Before = steady() // the first runtime allocates what every later one uses again
			a.After = a.Before
		} else if a.After = settled(before); a.After.more(before) != "" {
			a.Left++
			a.LastLeft = a.After.more(before)
		}
		a.Seconds = time.Since(began).Seconds()
	}
	return a, nil
}

// session opens devices, runs some rounds and closes the devices.
func (t *Trial) session(ctx context.Context, a *Account, rnd *rand.Rand, foot *footprint, began time.Time) (err error) {
	job, err := t.Job(ctx)
	if err != nil {
		return err
	}
	o, w := t.Options, Workers{Hang: t.Hang}
	a.Name = job.Name()
	o.Standby = rnd.IntN(2) == 0
	if o.MaxLosses == 0 {
		o.MaxLosses = 1000 // it is not the tasks that cost devices here
	}
	if o.Retries == 0 {
		o.Retries = 100
	}
	if rnd.IntN(3) == 0 && foot.all > 0 && t.may(starve) {
		// A task needs room for its data, and for what is copied meanwhile for the next.
		w.MemBytes = 2*foot.task + 64<<10 + rnd.Int64N(foot.all/8+1)
		a.Faults[starve]++
	}
	if strings.Contains(o.Devices, scripted) {
		w.Script = t.script(rnd, a)
	}
	rig, err := Open(ctx, o, w)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	done, err := workload.Feed(rig.Runtime, job)
	if err != nil {
		return err
	}
	defer done()
	if s, ok := job.(workload.Stateful); ok {
		defer s.Release()
	}
	watch, stop := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	var losses, recoveries int
	events := rig.Events(watch, weft.EventDevice)
	watcher.Go(func() {
		for e := range events {
			switch {
			case e.To == "lost":
				losses++
			case e.From == "lost" && e.To != "broken":
				recoveries++
			}
		}
	})
	defer func() {
		stop()
		watcher.Wait()
		a.Losses += losses
		a.Recoveries += recoveries
	}()
	usual := 50 * time.Millisecond // until a round has told
	for n := 1 + rnd.IntN(maxRounds); n > 0 && time.Since(began) < t.For && ctx.Err() == nil; n-- {
		took := t.round(ctx, a, rig, job, rnd, usual, foot)
		usual = min(max(took, time.Millisecond), time.Second)
		a.Seconds = time.Since(began).Seconds()
		if t.Told != nil && ctx.Err() == nil {
			t.Told(a)
		}
	}
	return nil
}

// may reports whether a fault may happen.
func (t *Trial) may(fault string) bool { return slices.Contains(t.Faults, fault) }

// script draws what happens to scripted devices in a session.
func (t *Trial) script(rnd *rand.Rand, a *Account) string {
	var b strings.Builder
	for n := rnd.IntN(4); n > 0 && t.may(fail); n-- {
		fmt.Fprintf(&b, "fail op %d\n", 1+rnd.IntN(40))
		a.Faults[fail]++
	}
	for n := rnd.IntN(4); n > 0 && t.may(dawdle); n-- {
		fmt.Fprintf(&b, "take %dms op %d\n", 1+rnd.IntN(50), 1+rnd.IntN(40))
		a.Faults[dawdle]++
	}
	return b.String()
}

// round runs the job once, strikes meanwhile and checks the result. usual is about how long
// a run takes; round returns how long this one took.
func (t *Trial) round(ctx context.Context, a *Account, rig *Rig, job workload.Job, rnd *rand.Rand, usual time.Duration, foot *footprint) time.Duration {
	type ended struct {
		res *workload.Result
		err error
	}
	over := make(chan ended, 1)
	began := time.Now()
	go func() {
		res, err := workload.Run(ctx, rig.Runtime, job, func(j workload.Job, g *graph.Graph, _ *weft.Prediction) {
			*foot = footprintOf(g)
			weft.Spoil(g, j.Bind()...) // or the result of the round before might pass for this one's
		})
		over <- ended{res, err}
	}()
	for range rnd.IntN(maxStrikes + 1) {
		s := strikes[rnd.IntN(len(strikes))]
		if !t.may(s.String()) {
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(rnd.Int64N(int64(usual)))):
			if _, err := Any(rnd, s); err == nil {
				a.Faults[s.String()]++
			}
		}
	}
	end := <-over
	if ctx.Err() != nil {
		return 0
	}
	a.Rounds++
	if end.res != nil && end.res.Report != nil {
		a.Retries += end.res.Report.Retries
		a.Replays += end.res.Report.Replays
		a.Evictions += end.res.Report.Evictions
	}
	if end.err != nil {
		a.Errors++
		if a.FirstError == "" {
			a.FirstError = fmt.Sprintf("round %d: %v", a.Rounds, end.err)
		}
		return time.Since(began)
	}
	took := time.Since(began)
	if err := job.Check(); err != nil {
		a.Wrong++
		if a.FirstWrong == "" {
			a.FirstWrong = fmt.Sprintf("round %d: %v", a.Rounds, err)
		}
		return took
	}
	a.Right++
	return took
}

// footprintOf returns the memory that a graph uses.
func footprintOf(g *graph.Graph) (f footprint) {
	for i := range g.NumData() {
		f.all += g.Data(graph.DataID(i)).Bytes
	}
	for i := range g.NumTasks() {
		t := g.Task(graph.TaskID(i))
		n := t.Workspace
		for _, u := range t.Uses {
			bytes := u.Bytes
			if bytes == 0 {
				bytes = g.Data(u.Data).Bytes - u.Offset
			}
			n += bytes
		}
		f.task = max(f.task, n)
	}
	return f
}
