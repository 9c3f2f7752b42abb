package automata

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/workload"
)

// How many steps a round has is a choice: more of them are fewer exchanges, fewer
// tasks and less memory traffic; but halos are deeper, and the rows of a halo are
// computed on both sides.

// unknownK is the number of steps of a round before anything is known about the
// devices.
const unknownK = 8

// every sets the number of steps of a round: k, or all steps if they are fewer.
func (j *job) every(k int) {
	j.k = min(k, j.c.Steps)
	// computeRows are dealt out in groups. With at least k rows the halo of a block lies in
	// one group and never reaches around the torus halfway.
	j.groups = cutBlocks(j.c.Rows, j.c.Rows/j.k)
}

// with is the same game of other steps with other rounds, over the same memory.
func (j *job) with(k, steps int) *job {
	other := *j
	other.c.Steps = steps
	other.every(k)
	return &other
}

// K returns the number of steps in a round of the last run, or at first in a round of
// the next.
func (j *job) K() int { return j.k }

// Place looks whether devices other than CPUs take part, which have kernels of
// their own. On other devices than before rounds are chosen anew.
func (j *job) Place(m *machine.Machine) error {
	if j.on != m {
		j.on, j.variants = m, nil
		j.gpus = slices.ContainsFunc(m.Devices, func(d machine.Device) bool { return d.Kind != machine.CPU })
	}
	return nil
}

// Rounds that are priced: the first begins with data in host memory, and each one after
// it takes as long as the one before.
const (
	fewRounds  = 1
	moreRounds = 5
)

// indistinct is the ratio to the best predicted duration up to which a variant counts
// as equally good: predictions are no more accurate than that. Of such variants the one
// with most rounds is taken, whose many tasks can go to whichever device is free.
const indistinct = 1.01

// hopeless is the ratio to the best time above which fewer steps are not tried: the
// cost of exchanges and tasks doubles with each halving.
const hopeless = 1.1

// Vary takes the number of steps that is predicted to be done first, once for the
// devices at hand.
func (j *job) Vary(price workload.Pricer) ([]workload.Variant, error) {
	if j.c.K > 0 || j.variants != nil {
		return j.variants, nil
	}
	most := 1
	for 2*most <= min(j.c.Rows, j.c.Steps, deepest) {
		most *= 2
	}
	var variants []workload.Variant
	best, at, least := most, 0, time.Duration(math.MaxInt64)
	for k := most; k >= 1; k /= 2 {
		takes, err := j.price(k, price)
		if err != nil {
			return nil, err
		}
		variants = append(variants, workload.Variant{Name: fmt.Sprintf("k %d", k), Predicted: takes})
		if float64(takes) <= indistinct*float64(least) {
			best, at = k, len(variants)-1
		}
		least = min(least, takes)
		if k <= shallow && float64(takes) > hopeless*float64(least) {
			break
		}
	}
	j.every(best)
	variants[at].Taken = true
	slices.Reverse(variants)
	j.variants = variants
	return variants, nil
}

// Take takes a number of steps that Vary called by its name.
func (j *job) Take(variant string) error {
	if variant == "" && j.c.K > 0 {
		return nil
	}
	number, ok := strings.CutPrefix(variant, "k ")
	k, err := strconv.Atoi(number)
	if !ok || err != nil || k < 1 || k > min(j.c.Rows, deepest) || j.c.K > 0 {
		return fmt.Errorf("automata: %q: %w: no variant to step this game", variant, workload.ErrConfig)
	}
	j.every(k)
	j.variants = []workload.Variant{{Name: variant, Taken: true}}
	return nil
}

// price predicts the game with rounds of k steps.
func (j *job) price(k int, price workload.Pricer) (time.Duration, error) {
	all, rounds := j.with(k, j.c.Steps), float64(j.c.Steps)/float64(k)
	if rounds <= moreRounds {
		p, err := price(all, all)
		if err != nil {
			return 0, err
		}
		return p[0], nil
	}
	p, err := price(all, j.with(k, fewRounds*k), j.with(k, moreRounds*k))
	if err != nil {
		return 0, err
	}
	each := float64(p[1]-p[0]) / (moreRounds - fewRounds)
	return p[1] + time.Duration(each*(rounds-moreRounds)), nil
}

// tileRows returns the number of rows of a block that a CPU steps at a time: their two
// generations, with the rows around them, stay in the cache of a core. A tile repeats
// the work of about k rows of its neighbours; with eight times as many rows that stays
// small.
func tileRows(words, k int) int { return max(cacheBytes/(16*words)-2*k, 8*k) }

// What the kernels for GPUs do, as automata.cu has it: rows of a tile, and how
// many times longer a step takes with many steps in a round, where the memory that
// a warp needs for its tile leaves the units of a GPU few of them. The last is
// reckoned, not measured.
const (
	segmentRows = 128
	deepRows    = 64
	deepSlow    = 4
)

// ruleSlow is the ratio of the time of a step of another rule to Life's on a CPU, which
// has vectors for Life alone: 64 steps of 8192² cells took 1.2 s with B36/S23 and 48 ms
// with Life.
const ruleSlow = 25

// work returns the work of stepping rows k times, including rows of neighbours that
// tiles repeat. The generations in between are never in memory.
func (j *job) work(rows, k int) graph.Work {
	// On a CPU filling and emptying a tile takes about as long as a step: 8192²
	// cells took 70, 62, 44, 42, 39, 42 ms with rounds of 1, 2, 4 ... 32 steps.
	tile, each, margin, slow := tileRows(j.words, k), 1, (k-1)*k, 1
	if j.rule != Life && !j.gpus {
		slow = ruleSlow
	}
	switch {
	case j.gpus && (k > shallow || !j.plain()):
		tile, each, slow = deepRows, 0, deepSlow
	case j.gpus:
		tile, each, margin = segmentRows, 0, 2*k*k
	}
	tiles := (rows + tile - 1) / tile
	return graph.Work{
		Ops:   ops(j.words, slow*(rows*(k+each)+tiles*margin), 1),
		Bytes: 8 * float64(j.words) * float64(2*rows+2*k),
		Unit:  graph.Int32,
	}
}
