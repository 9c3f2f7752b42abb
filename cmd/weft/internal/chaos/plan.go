package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Faults are the names of all faults.
func Faults() (all []string) {
	for _, s := range strikes {
		all = append(all, s.String())
	}
	return append(all, starve, fail, dawdle, lie)
}

// The faults that are no strikes.
const (
	starve = "starve" // a bout whose devices have little memory
	fail   = "fail"   // an operation of a scripted device that is to fail
	dawdle = "dawdle" // one that is to take long
	lie    = "lie"    // a bout in which a scripted device has wrong results, where all are verified
)

const (
	maxRounds = 6 // of a bout
	// maxStrikes is the greatest number of strikes in a round; a third of the rounds has none
	// if each number is as likely.
	maxStrikes = 2
	maxScript  = 3  // operations of a bout that fail, and as many that dawdle
	scriptOps  = 40 // of the first so many
)

// plan lists the faults of a bout and the devices that they hit. It follows from the seed of the trial and
// the number of the bout alone, so that a simulation meets what live devices do.
type plan struct {
	standby bool
	starved float64 // more memory than a task needs, as in footprint.little; -1 for enough
	fails   []int   // operations of each scripted device, from 1
	dawdles []dawdled
	lies    bool // the first scripted device has wrong results
	rounds  [][]hit
}

// dawdled is an operation that takes longer.
type dawdled struct {
	op    int
	extra time.Duration
}

// hit is a strike in a round.
type hit struct {
	strike Strike
	after  float64 // the strike before or the round's beginning, in parts of what a round usually takes
	seed   uint64  // of which worker it is, and of noise
}

// rand returns what decides which worker is struck, by its first number, and the rest.
func (h hit) rand() *rand.Rand { return rand.New(rand.NewPCG(h.seed, 0)) }

// plan draws a bout. Faults that may not happen are drawn and left out: the others are
// the same then.
func (t *Trial) plan(bout uint64) *plan {
	rnd := rand.New(rand.NewPCG(t.Seed, bout))
	p := &plan{standby: rnd.IntN(2) == 0, starved: -1, lies: t.Options.Verify == 1 && t.may(lie)}
	starved, more := rnd.IntN(3) == 0, rnd.Float64()
	if starved && t.may(starve) {
		p.starved = more
	}
	for range rnd.IntN(maxScript + 1) {
		if op := 1 + rnd.IntN(scriptOps); t.may(fail) {
			p.fails = append(p.fails, op)
		}
	}
	for range rnd.IntN(maxScript + 1) {
		d := dawdled{1 + rnd.IntN(scriptOps), time.Duration(1+rnd.IntN(50)) * time.Millisecond}
		if t.may(dawdle) {
			p.dawdles = append(p.dawdles, d)
		}
	}
	for range 1 + rnd.IntN(maxRounds) {
		var hits []hit
		for range rnd.IntN(maxStrikes + 1) {
			if h := (hit{strikes[rnd.IntN(len(strikes))], rnd.Float64(), rnd.Uint64()}); t.may(h.strike.String()) {
				hits = append(hits, h)
			}
		}
		p.rounds = append(p.rounds, hits)
	}
	return p
}

// may reports whether a fault may happen.
func (t *Trial) may(fault string) bool { return slices.Contains(t.Faults, fault) }

// script returns what happens to scripted devices, as fake.Script reads it, and again what happens to those
// that take the place of lost ones: they lie still, but no operation of theirs is to fail or to take long. Each
// worker counts its operations from 1, so that an early operation that fails would be one of every new worker's
// probe, and no device would come back.
func (p *plan) script() (script, again string) {
	var b strings.Builder
	for _, op := range p.fails {
		fmt.Fprintf(&b, "fail op %d\n", op)
	}
	for _, d := range p.dawdles {
		fmt.Fprintf(&b, "take %v op %d\n", d.extra, d.op)
	}
	if p.lies {
		again = "on 0 corrupt launches\n"
	}
	return b.String() + again, again
}
