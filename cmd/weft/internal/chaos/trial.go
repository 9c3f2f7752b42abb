package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/workload"
)

// Trial runs a job round after round while its workers are struck, and checks every result.
// Devices are opened for a few rounds, a bout, and closed again: what a bout leaves
// behind is looked for.
type Trial struct {
	Job     func(context.Context) (workload.Job, error) // makes the job, anew for each bout if it is Stateful
	Options weft.Options
	For     time.Duration // no bout begins after it, and no round
	Seed    uint64        // decides which worker is struck, when and how: see plan
	Faults  []string      // those that may happen, of Faults
	// Stuck limits the time of a round (10 minutes if it is 0). A round that takes longer ends the trial with ErrStuck.
	Stuck time.Duration
	// Told, if it is not nil, is called after every round with the account so far.
	Told func(*Account)
}

// Account holds the results of a trial.
type Account struct {
	Name    string         `json:"job"`
	Seed    uint64         `json:"seed"`
	Seconds float64        `json:"seconds"`
	Bouts   int            `json:"bouts"`
	Rounds  int            `json:"rounds"`
	Faults  map[string]int `json:"faults"` // by kind: strikes; bouts with little memory; what scripts did
	// Of Rounds, Right had the right result, Wrong a wrong one, and Errors ended with an error
	// that says what happened, or with a wrong result of a device that lies and a report of
	// tasks that were not verified.
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
	// Verified counts tasks whose results two devices agreed on, Replaced wrong results of
	// devices.
	Verified int `json:"verified,omitempty"`
	Replaced int `json:"replaced,omitempty"`
	// Before is the memory, goroutines, descriptors and children of the process after its first
	// runtime was closed, After those after the last.
	Before Use `json:"before"`
	After  Use `json:"after"`
	// Minutes has what was used between bouts, once a minute.
	Minutes []Minute `json:"minutes,omitempty"`
	// Simulated says that bouts were simulated: nothing was used, and nothing left.
	Simulated bool `json:"simulated,omitempty"`
	// Left are bouts after which a process, goroutine or descriptor was left.
	Left       int    `json:"left"`
	FirstWrong string `json:"first_wrong,omitempty"`
	FirstError string `json:"first_error,omitempty"`
	LastLeft   string `json:"last_left,omitempty"`
}

// Minute is the progress of a trial after some minutes, and the resources of the process then.
type Minute struct {
	Minute int `json:"minute"`
	Rounds int `json:"rounds"`
	Losses int `json:"losses"`
	Use
}

// scripted counts what scripted devices do in a bout.
func (a *Account) scripted(p *plan) {
	for range p.fails {
		a.Faults[fail]++
	}
	for range p.dawdles {
		a.Faults[dawdle]++
	}
	if p.lies {
		a.Faults[lie]++
	}
}

const (
	leftWait    = time.Minute // for what a bout started to end
	manyRetries = 100         // of a task, where none are said
)

// ErrStuck is wrapped by the error of Run when a round does not end.
var ErrStuck = errors.New("a round does not end")

// stuckDefault is Trial.Stuck where none is stated: far longer than weft takes to give up whatever hangs.
const stuckDefault = 10 * time.Minute

// footprint is the memory that a job uses.
type footprint struct{ all, task int64 } // of all data, and of its largest task

// little returns the memory of a starved device: a task needs room for its data, and for the
// copies made meanwhile for the next. more, from 0 to 1, adds that part of an eighth of all data.
func (f footprint) little(more float64) int64 {
	return 2*f.task + 64<<10 + int64(more*float64(f.all/8))
}

// Run runs the trial until its time is over or ctx ends, which is no error: the account is of
// what was done until then.
func (t *Trial) Run(ctx context.Context) (*Account, error) {
	a := &Account{Seed: t.Seed, Faults: make(map[string]int)}
	if _, err := pick(t.Options.Devices); err != nil { // before inputs are made, which may take long
		return a, err
	}
	began := time.Now()
	var job workload.Job
	var foot footprint
	for time.Since(began) < t.For && ctx.Err() == nil {
		before := a.After
		err := t.bout(ctx, a, &job, &foot, began)
		if err != nil && ctx.Err() == nil {
			return a, err
		}
		a.Bouts++
		if a.Bouts == 1 {
			a.Before = steady() // the first runtime allocates what every later one uses again
			a.After = a.Before
		} else if a.After = settled(before); a.After.more(before) != "" {
			a.Left++
			a.LastLeft = a.After.more(before)
		}
		a.Seconds = time.Since(began).Seconds()
		if m := int(a.Seconds / 60); m > 0 && (len(a.Minutes) == 0 || m > a.Minutes[len(a.Minutes)-1].Minute) {
			a.Minutes = append(a.Minutes, Minute{m, a.Rounds, a.Losses, a.After})
		}
	}
	return a, nil
}

// HangTimeout is the default of hang_timeout in a trial.
const HangTimeout = time.Second

// hang returns the time without a sign of life after which a worker is ended. The default is less
// than that of weft.Options, so that a trial spends its time on rounds and not on waiting for
// stopped workers.
func (t *Trial) hang() time.Duration { return cmp.Or(t.Options.HangTimeout, HangTimeout) }

// jobOf returns the job of the bout before, if there was one and it kept nothing on devices, or
// makes one: inputs may take longer to make than rounds to run.
func (t *Trial) jobOf(ctx context.Context, last workload.Job) (workload.Job, error) {
	if _, stateful := last.(workload.Stateful); last != nil && !stateful {
		return last, nil
	}
	return t.Job(ctx)
}

// bout opens devices, runs some rounds and closes the devices. last is the job of the bout
// before, and then of this one.
func (t *Trial) bout(ctx context.Context, a *Account, last *workload.Job, foot *footprint, began time.Time) (err error) {
	job, err := t.jobOf(ctx, *last)
	if err != nil {
		return err
	}
	*last = job
	o, w := t.Options, Workers{}
	o.HangTimeout = t.hang()
	p := t.plan(uint64(a.Bouts))
	a.Name = job.Name()
	o.Standby = p.standby
	if o.MaxLosses == 0 {
		o.MaxLosses = 1000 // it is not the tasks that cost devices here
	}
	o.Retries = cmp.Or(o.Retries, manyRetries)
	o.NoCalibrate = true   // it would take as long as some rounds
	o.CloseWait = leftWait // on a busy machine, workers that were stopped or are being started take longer to end than a program would wait
	if p.starved >= 0 && foot.all > 0 {
		w.MemBytes = foot.little(p.starved)
		a.Faults[starve]++
	}
	if strings.Contains(o.Devices, scripted) {
		w.Script, w.Again = p.script()
		a.scripted(p)
	}
	rig, err := Open(ctx, o, w)
	if err != nil {
		return err
	}
	defer func() {
		m := rig.Metrics()
		a.Verified += int(m.Verified)
		a.Replaced += int(m.Wrong)
		err = errors.Join(err, rig.Close())
	}()
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
	for _, hits := range p.rounds {
		if time.Since(began) >= t.For && a.Rounds > 0 || ctx.Err() != nil {
			break
		}
		took, err := t.round(ctx, a, rig, job, p.lies, hits, usual, foot)
		if err != nil {
			return err
		}
		usual = min(max(took, time.Millisecond), time.Second)
		a.Seconds = time.Since(began).Seconds()
		if t.Told != nil && ctx.Err() == nil {
			t.Told(a)
		}
	}
	return nil
}

// round runs the job once, strikes meanwhile and checks the result. lies says that a device
// gives wrong results; usual is about how long a run takes, and round returns how long this one took. The error
// says that it does not end.
func (t *Trial) round(ctx context.Context, a *Account, rig *Rig, job workload.Job, lies bool, hits []hit, usual time.Duration, foot *footprint) (time.Duration, error) {
	type ended struct {
		res *workload.Result
		err error
	}
	over := make(chan ended, 1)
	began := time.Now()
	go func() {
		res, err := workload.Run(ctx, rig.Runtime, job, func(j workload.Job, g *graph.Graph, _ *weft.Prediction) {
			now := footprintOf(g)
			*foot = footprint{max(foot.all, now.all), max(foot.task, now.task)} // the next may be cut like any before
			weft.Spoil(g, j.Bind()...)                                          // or the result of the round before might pass for this one's
		})
		over <- ended{res, err}
	}()
	for _, h := range hits {
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(h.after * float64(usual))):
			if _, err := Any(h.rand(), h.strike); err == nil {
				a.Faults[h.strike.String()]++
			}
		}
	}
	var end ended
	limit := cmp.Or(t.Stuck, stuckDefault)
	select {
	case end = <-over:
	case <-time.After(time.Until(began.Add(limit))):
		return 0, fmt.Errorf("%w: round %d of seed %d, after %v", ErrStuck, a.Rounds+1, t.Seed, limit)
	}
	if ctx.Err() != nil {
		return 0, nil
	}
	var rep *weft.Report
	if end.res != nil {
		rep = end.res.Report
	}
	took := time.Since(began)
	var wrong error
	if end.err == nil {
		wrong = job.Check()
	}
	a.judge(rep, end.err, wrong, lies)
	return took, nil
}

// judge counts a round that ended with an error, or with a result and what its check found wrong with it; rep is
// nil where there is no report. A wrong result counts as an error where a device lies and the report says that tasks
// were not verified: with no other device to compare with, weft cannot tell, and has said so.
func (a *Account) judge(rep *weft.Report, err, wrong error, lies bool) {
	a.Rounds++
	if rep != nil {
		a.Retries += rep.Retries
		a.Replays += rep.Replays
		a.Evictions += rep.Evictions
	}
	if wrong != nil && lies && rep != nil && rep.Unverified > 0 {
		err = fmt.Errorf("%d tasks were not verified, and a device has wrong results: %w", rep.Unverified, wrong)
	}
	switch {
	case err != nil:
		a.Errors++
		if a.FirstError == "" {
			a.FirstError = fmt.Sprintf("round %d: %v", a.Rounds, err)
		}
	case wrong != nil:
		a.Wrong++
		if a.FirstWrong == "" {
			a.FirstWrong = fmt.Sprintf("round %d: %v", a.Rounds, wrong)
		}
	default:
		a.Right++
	}
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
