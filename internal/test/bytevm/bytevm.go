// Package bytevm executes what the engine decides on buffers of real bytes and
// compares every result with running the same tasks one after another on plain
// slices. It is the second oracle beside package sim, written apart from it: sim
// follows which version of which bytes a buffer holds, bytevm holds the bytes.
//
// Memory is filled with a pattern when it is allocated, freed, or about to be
// written, so that a read too early, too late or of the wrong place changes a
// result. Operations of a lane run in order and wait for others by the board that
// real devices use. How they end is told late, in any order between lanes, and
// after a loss perhaps not at all. Members of a gang end one by one. Whatever a
// trial may meet besides is a Trait; traits are drawn independently and combine.
//
//	Run: draw programs, machine and script from the seed
//	      ▼
//	     step: script ─► operations that end ─► Engine.Step ─► actions ─► operations
//	      ▼
//	     verdict: outputs, errors that nothing explains, memory left over
//
// Files: program.go (tasks on bytes and their sequential meaning), work.go
// (a graph that is given), traits.go (what a trial is made of), executor.go (actions), operation.go (what runs),
// trouble.go (losses and other events), verdict.go (what must hold).
package bytevm

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/weft-run/weft/internal/engine"
)

// Summary counts what a trial went through.
type Summary struct {
	Runs, Failed, Cancelled                     int
	Retries, Replays, Evictions, Commits        int
	Copies, Gangs, Losses, Drops, Swaps, Zombie int
	FailedOps, FailedCopies, Exhausted          int
	Detached                                    int
}

// Add adds the counts of another trial.
func (s *Summary) Add(o Summary) {
	s.Runs, s.Failed, s.Cancelled = s.Runs+o.Runs, s.Failed+o.Failed, s.Cancelled+o.Cancelled
	s.Retries, s.Replays, s.Evictions, s.Commits = s.Retries+o.Retries, s.Replays+o.Replays, s.Evictions+o.Evictions, s.Commits+o.Commits
	s.Copies, s.Gangs, s.Losses, s.Drops = s.Copies+o.Copies, s.Gangs+o.Gangs, s.Losses+o.Losses, s.Drops+o.Drops
	s.Swaps, s.Zombie = s.Swaps+o.Swaps, s.Zombie+o.Zombie
	s.FailedOps, s.FailedCopies, s.Exhausted = s.FailedOps+o.FailedOps, s.FailedCopies+o.FailedCopies, s.Exhausted+o.Exhausted
	s.Detached += o.Detached
}

// violation is what the executor panics with when something does not hold.
type violation struct{ error }

// Run does the trial of a seed with those of the traits it draws that are in
// allowed. It returns what the trial was made of and went through, and an error
// if something did not hold. log, when not nil, is told every action and event.
func Run(seed uint64, allowed Trait, log func(string)) (drawn Trait, sum Summary, err error) {
	return run(seed, allowed, log, nil)
}

// RunWork is Run with the runs of a trial all of one graph, which is given.
func RunWork(seed uint64, allowed Trait, w *Work) (drawn Trait, sum Summary, err error) {
	p, err := w.program()
	if err != nil {
		return 0, Summary{}, err
	}
	return run(seed, allowed, nil, p)
}

// run does a trial, of random programs unless one is given.
func run(seed uint64, allowed Trait, log func(string), given *program) (drawn Trait, sum Summary, err error) {
	r := rand.New(rand.NewPCG(seed, 0xb17e5))
	drawn = drawTraits(r) & allowed
	x := &executor{r: r, traits: drawn, log: log, given: given, jobs: make(map[engine.RunID]*job)}
	defer func() {
		sum = x.sum
		switch p := recover().(type) {
		case nil:
		case violation:
			err = fmt.Errorf("at %v: %w", x.now, p.error)
		default:
			err = fmt.Errorf("at %v: panic: %v\n%s", x.now, p, debug.Stack())
		}
	}()
	x.prepare(seed)
	x.run()
	return drawn, x.sum, nil
}

// Limits of a trial: one that passes them does not end.
const (
	maxSteps = 300_000
	maxTime  = 30 * time.Minute
)

var (
	errKernel    = errors.New("the kernel failed, as drawn")
	errCopy      = errors.New("the copy failed, as drawn")
	errExhausted = errors.New("the device's memory ran out, as drawn")
	errCut       = errors.New("the memory at an end of the copy is gone")
)

// bad ends the trial.
func (x *executor) bad(format string, args ...any) {
	panic(violation{fmt.Errorf(format, args...)})
}
