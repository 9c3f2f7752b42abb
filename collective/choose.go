package collective

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/machine"
)

// An algorithm is chosen by prediction: candidates lists those that can do an operation,
// choose makes a plan for each and has it predicted (predict.go), and the plan that ends
// first is taken.

// candidates returns the algorithms that can do what the specification asks for.
func (s *Spec) candidates() ([]*algorithm, error) {
	var out []*algorithm
	var names []string
	ordered := s.Exact && s.Op.Folds() && !s.Fold.Exact(s.Type)
	for i := range algorithms {
		a := &algorithms[i]
		// A plain transfer from one rank to another has only one algorithm.
		if (s.Op == OpAllToAll || s.Op == OpSend) && i > 0 || ordered && !a.ordered {
			continue
		}
		names = append(names, a.name)
		if s.Algorithm == "" || s.Algorithm == a.name {
			out = append(out, a)
		}
	}
	if len(out) == 0 {
		what := "unknown algorithm"
		if slices.Contains(Algorithms(), s.Algorithm) {
			what = "it cannot be done by algorithm"
			if ordered {
				what = "not in the order of ranks, as exact asks for, is algorithm"
			}
		}
		return nil, fmt.Errorf("%v: %w: %s %q; use one of %s", s.Op, ErrSpec, what, s.Algorithm, strings.Join(names, ", "))
	}
	return out, nil
}

// minPieceBytes is the least size of a piece if Spec.Pieces does not give their number.
const minPieceBytes = 64 << 10

// tries returns the numbers of pieces to predict, in ascending order.
func (s *Spec) tries() []int {
	if s.Pieces > 0 {
		return []int{s.Pieces}
	}
	out := []int{1}
	for n := int64(4); n <= 64 && s.Count*s.elementBytes()/(int64(len(s.Ranks))*n) >= minPieceBytes; n *= 2 {
		out = append(out, int(n))
	}
	return out
}

// choose makes the plan of every candidate, for each number of pieces and each order of
// them, and returns the one that is predicted to end first.
func choose(m *machine.Machine, cost machine.Cost, s Spec, candidates []*algorithm) *Plan {
	var best *Plan
	var told strings.Builder
	t := newTopology(m, s.Ranks)
	w := newCostTable(m, cost, s.Ranks)
	for _, a := range candidates {
		var own *Plan // the best of this algorithm
		for _, pieces := range s.tries() {
			before := own
			for _, behind := range a.behind(t) {
				p := &Plan{Spec: s, m: m}
				p.Spec.Algorithm, p.Spec.Pieces = a.name, pieces
				b := newPlanner(m, &p.Spec, a, t, pieces)
				b.run()
				b.order(behind)
				p.inOrder = behind > 0 && len(w.far) > 0
				p.steps, p.temps = b.steps, b.temps
				if p.Predicted = w.predict(p); own == nil || p.Predicted < own.Predicted {
					own = p
				}
				if pieces == 1 {
					break // there is but one order
				}
			}
			if own == before {
				break // more pieces only cost more
			}
		}
		fmt.Fprintf(&told, "  %-12s %10v  %s", a.name, round(own.Predicted), text.Count(len(own.steps), "step"))
		if own.Spec.Pieces > 1 {
			fmt.Fprintf(&told, ", %s", text.Count(own.Spec.Pieces, "piece"))
		}
		fmt.Fprintf(&told, ": %s\n", a.why)
		if best == nil || own.Predicted < best.Predicted {
			best = own
		}
	}
	best.why = told.String()
	return best
}

// round rounds a duration to three digits.
func round(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}

// Explain returns a text that names the algorithm chosen and every other candidate, each
// with its predicted duration.
func (p *Plan) Explain() string {
	s := &p.Spec
	var b strings.Builder
	fmt.Fprintf(&b, "%v", s.Op)
	if s.Op.Folds() {
		fmt.Fprintf(&b, " %v", s.Fold)
	}
	fmt.Fprintf(&b, " of %d %v (%s) over %s: %s, predicted %v", s.Count, s.Type, text.FormatSize(s.Count*s.elementBytes()), text.Count(len(s.Ranks), "rank"), s.Algorithm, round(p.Predicted))
	if bound := p.bound(); bound > 0 && p.Predicted > 0 {
		fmt.Fprintf(&b, ", %.0f %% of what the links allow (%v)", 100*bound.Seconds()/p.Predicted.Seconds(), round(bound))
	}
	b.WriteByte('\n')
	b.WriteString(p.why)
	return b.String()
}
