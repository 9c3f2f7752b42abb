package fold

import "github.com/weft-run/weft"

// Round returns the work of a round as Do gives it to a runtime, without its memory, and the number of
// rounds. The steps of a round follow one another.
func (r *Run) Round() (work weft.Divisible, times float64) {
	round := r.round(r.c.Every)
	work = weft.Divisible{Items: round.items(), Whole: round.task(0, int64(r.groups)), Graph: round.graph}
	return work, float64(r.c.Steps) / float64(r.c.Every)
}

// State returns the size of a checkpoint: positions and velocities of the replicas, and the
// records of the frames.
func (r *Run) State() int64 {
	lane := int64(8 * lanes)
	return lane*int64(len(r.state)+len(r.last)) + 8*int64(len(r.seen)+len(r.best)) + 4*int64(len(r.rungs)+len(r.trace))
}
