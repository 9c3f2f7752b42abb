package plan

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/text"
)

// ErrRequest is wrapped by errors about requests that make no sense.
var ErrRequest = errors.New("not a request that can be planned")

// Objective is the quantity that a plan minimises.
type Objective string

const (
	// Cheapest minimises the expected cost within the deadline and the budget, if given.
	Cheapest Objective = "cheapest"
	// Fastest minimises the time that is kept with the asked confidence.
	Fastest Objective = "fastest"
)

// Request is a job and the limits of its plan.
type Request struct {
	Need      Need
	Objective Objective     // "" is Fastest if there is a budget and no deadline, else Cheapest
	Deadline  time.Duration // from now until the result is here; 0 for none
	Budget    float64       // US dollars; 0 for none
	Here      []Here        // ways to run on this machine
	Assume    Assumptions
	At        time.Time // the day of the plan, by which prices are stale
	// Rent says whether machines may be rented. Without it only Here is considered.
	Rent bool
}

// Decision is a plan with its reasons. It can be kept as JSON.
type Decision struct {
	// Key is the Request.Key of a stored decision. Again says that the decision was made for
	// an earlier, equal request.
	Key        string       `json:"key,omitempty"`
	Again      bool         `json:"again,omitempty"`
	Need       Need         `json:"need"`
	Objective  Objective    `json:"objective"`
	Deadline   float64      `json:"deadline_s,omitempty"`
	Budget     float64      `json:"budget,omitempty"`
	At         time.Time    `json:"at"`
	Best       Option       `json:"best"`
	Confidence float64      `json:"confidence"` // that deadline and budget are kept, whichever is less likely
	Lost       []Loss       `json:"lost"`       // the best five others
	Front      []Option     `json:"front"`      // those that no other beats in both time and cost, the fastest first
	Considered int          `json:"considered"`
	Offers     int          `json:"offers"`
	Pruned     int          `json:"pruned"`          // offers of an equal machine for more
	Unfit      []string     `json:"unfit,omitempty"` // machines that the job cannot run on, with the reason
	Stale      []string     `json:"stale,omitempty"` // offers named above whose price is stale, with its day
	Unverified []string     `json:"unverified,omitempty"`
	Assumed    []Assumption `json:"assumptions"`
	Power      []string     `json:"power,omitempty"` // drawn here, with where the figures are from; none is measured
}

// Loss is an option that was not chosen.
type Loss struct {
	Option Option `json:"option"`
	Reason string `json:"reason"`
	// CostBenefit is the price in US dollars of saving one hour with this option; 0 if it is
	// not faster than the chosen one.
	CostBenefit float64 `json:"cost_benefit"`
	// Confidence is the probability that rejecting it is right: that it misses a limit,
	// or does worse than the chosen one by the objective.
	Confidence float64 `json:"confidence"`
}

// mostLost is the number of rejected options that are explained.
const mostLost = 5

// NothingFitsError says that no option keeps the limits, which limit binds, and what
// would be possible instead.
type NothingFitsError struct {
	Binding string // "memory", "code", "deadline", "budget", "deadline and budget" or "offers"
	Reason  string
	Instead []Option // possible if the binding limit were another
}

func (e *NothingFitsError) Error() string { return "nothing fits: " + e.Reason }

// Decide returns the best way to do a job. Its errors wrap ErrRequest or are a
// *NothingFitsError.
func Decide(r Request, c *Catalogue, p Predictor) (*Decision, error) {
	if r.Objective == "" {
		r.Objective = Cheapest
		if r.Budget > 0 && r.Deadline == 0 {
			r.Objective = Fastest
		}
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	if p == nil {
		return nil, fmt.Errorf("%w: the predictor is nil; a *Model is one", ErrRequest)
	}
	if r.Rent && c == nil {
		return nil, fmt.Errorf("%w: machines may be rented and the catalogue is nil; Shipped returns one", ErrRequest)
	}
	w := &weighing{Request: r, predictor: p, known: make(map[place]Estimate), unfit: make(map[string]string)}
	w.local()
	if r.Rent {
		if err := w.rented(c); err != nil {
			return nil, err
		}
	}
	if len(w.options) == 0 {
		return nil, w.nowhere()
	}
	slices.SortStableFunc(w.options, w.compare)
	if !w.options[0].Kept {
		return nil, w.missed()
	}
	return w.decision(), nil
}

func (r *Request) check() error {
	n := r.Need
	for _, x := range []struct {
		name  string
		value float64
	}{
		{"operations", n.Flops}, {"bytes", n.Bytes}, {"upload", n.Upload}, {"download", n.Download},
		{"peak memory", float64(n.PeakBytes)}, {"host memory", float64(n.HostBytes)}, {"checkpoint size", float64(n.State)},
		{"deadline", r.Deadline.Seconds()}, {"budget", r.Budget}, {"parts", float64(n.Parts)},
	} {
		if !(x.value >= 0) || math.IsInf(x.value, 1) { // written so that NaN fails
			return fmt.Errorf("%w: %s is %v; expected a number that is not negative", ErrRequest, x.name, x.value)
		}
	}
	if n.Unit >= graph.NumUnits {
		return fmt.Errorf("%w: unit %d; expected one of package graph, below %d", ErrRequest, n.Unit, graph.NumUnits)
	}
	if n.LeastBytes < 0 || n.LeastBytes > n.PeakBytes {
		return fmt.Errorf("%w: least memory is %d bytes and peak memory %d; expected the least to be 0 or more, and no more than the peak", ErrRequest, n.LeastBytes, n.PeakBytes)
	}
	if r.Objective != Cheapest && r.Objective != Fastest {
		return fmt.Errorf("%w: %w", ErrRequest, text.Unknown("objective", string(r.Objective), []string{string(Cheapest), string(Fastest)}))
	}
	for _, h := range r.Here {
		if h.Count < 1 || !(h.Watts >= 0) {
			return fmt.Errorf("%w: %s here is %d devices of %g W; expected at least one, and no negative power", ErrRequest, h.Name, h.Count, h.Watts)
		}
	}
	return r.Assume.check()
}

// weighing is a decision in progress.
type weighing struct {
	Request
	predictor Predictor
	known     map[place]Estimate // answers of the predictor
	options   []*Option
	slab      []choice // memory for the next options
	tried     split    // the one that is looked at while splits are searched
	offers    int
	pruned    int
	unfit     map[string]string // reason by machine
	unfitted  []string          // keys of unfit, in order
}

// place holds everything that a prediction depends on.
type place struct {
	gpu   string
	count int
}

// predict asks the predictor once for each GPU and count.
func (w *weighing) predict(g GPU, count int) Estimate {
	key := place{g.Name, count}
	e, ok := w.known[key]
	if !ok {
		e = w.predictor.Predict(w.Need, g, count)
		w.known[key] = e
	}
	return e
}

// fits notes why an estimate cannot be used.
func (w *weighing) fits(machine string, e Estimate) bool {
	why := e.Why
	switch {
	case e.usable():
		return true
	case e.Fits:
		why = fmt.Sprintf("its predicted time is %g s, within %g and %g, which is none", e.Median, e.Low, e.High)
	case why == "":
		why = "it does not fit"
	}
	if _, ok := w.unfit[machine]; !ok {
		w.unfitted = append(w.unfitted, machine)
	}
	w.unfit[machine] = why
	return false
}

// compare orders options by the objective, those that keep the limits first.
func (w *weighing) compare(a, b *Option) int {
	if a.Kept != b.Kept {
		if a.Kept {
			return -1
		}
		return 1
	}
	if !a.Kept { // the likeliest first
		if d := cmp.Compare(min(b.InTime, b.InBudget), min(a.InTime, a.InBudget)); d != 0 {
			return d
		}
	}
	if w.Objective == Fastest {
		return sooner(a, b)
	}
	return cmp.Or(cmp.Compare(a.Cost, b.Cost), cmp.Compare(a.Seconds90, b.Seconds90))
}

// sooner orders options by their time, and then by their cost.
func sooner(a, b *Option) int {
	return cmp.Or(cmp.Compare(a.Seconds90, b.Seconds90), cmp.Compare(a.Cost, b.Cost))
}

// decision makes the record of sorted options.
func (w *weighing) decision() *Decision {
	best := w.shown(w.options[0])
	d := &Decision{
		Need: w.Need, Objective: w.Objective, Deadline: w.Deadline.Seconds(), Budget: w.Budget, At: w.At,
		Best: best, Confidence: min(best.InTime, best.InBudget), Lost: []Loss{},
		Front: w.front(), Considered: len(w.options), Offers: w.offers, Pruned: w.pruned,
		Assumed: w.Assume.List(),
	}
	for _, o := range w.options[1:min(1+mostLost, len(w.options))] {
		d.Lost = append(d.Lost, w.loss(&best, o))
	}
	for i := range w.Here {
		watts, from := w.Here[i].watts(&w.Assume)
		d.Power = append(d.Power, fmt.Sprintf("%s: %g W: %s", w.Here[i].Name, watts, from))
	}
	for _, machine := range w.unfitted {
		d.Unfit = append(d.Unfit, machine+": "+w.unfit[machine])
	}
	d.caveats(w)
	return d
}

// front returns the options that no other beats in both the time that is kept with
// confidence and the expected cost, the fastest first.
func (w *weighing) front() []Option {
	sorted := slices.Clone(w.options)
	slices.SortStableFunc(sorted, sooner)
	kept := sorted[:0]
	for _, o := range sorted {
		if len(kept) == 0 || o.Cost < kept[len(kept)-1].Cost {
			kept = append(kept, o)
		}
	}
	out := make([]Option, len(kept))
	for i, o := range kept {
		out[i] = w.shown(o)
	}
	return out
}

// loss says why an option was not chosen.
func (w *weighing) loss(best, o *Option) Loss {
	l := Loss{Option: w.shown(o)}
	saved := (best.Seconds90 - o.Seconds90) / 3600
	if saved > 0 && o.Cost > best.Cost {
		l.CostBenefit = (o.Cost - best.Cost) / saved
	}
	switch {
	case o.InTime < w.Assume.Confidence:
		l.Confidence = 1 - o.InTime
		l.Reason = fmt.Sprintf("keeps the deadline with probability %.2f only", o.InTime)
	case o.InBudget < w.Assume.Confidence:
		l.Confidence = 1 - o.InBudget
		l.Reason = fmt.Sprintf("keeps the budget with probability %.2f only", o.InBudget)
	case w.Objective == Fastest:
		l.Confidence = less(best.Seconds, best.Seconds90, o.Seconds, o.Seconds90, w.Assume.Confidence)
		l.Reason = fmt.Sprintf("takes %s as long", ratio(o.Seconds90, best.Seconds90))
		if o.Cost < best.Cost {
			l.Reason += fmt.Sprintf(", for $%s less", money(best.Cost-o.Cost))
		} else if o.Cost > best.Cost {
			l.Reason += fmt.Sprintf(", for $%s more", money(o.Cost-best.Cost))
		}
	default:
		l.Confidence = less(best.Cost, best.Cost90, o.Cost, o.Cost90, w.Assume.Confidence)
		l.Reason = fmt.Sprintf("costs %s as much", ratio(o.Cost, best.Cost))
		switch {
		case saved > 0:
			l.Reason += fmt.Sprintf("; each hour saved would cost $%s", money(l.CostBenefit))
		case saved < 0:
			l.Reason += " and takes longer"
		}
	}
	return l
}

// less returns the probability that a is less than b, both given by a middle and a
// quantile of q, taken for independent and log-normal.
func less(a, aq, b, bq, q float64) float64 {
	if a <= 0 || b <= 0 {
		if a <= b {
			return 1
		}
		return 0
	}
	z := math.Sqrt2 * math.Erfinv(2*q-1)
	s := math.Hypot(math.Log(max(aq/a, 1)), math.Log(max(bq/b, 1))) / max(z, 1e-9)
	if s == 0 {
		switch {
		case a < b:
			return 1
		case a > b:
			return 0
		}
		return 0.5
	}
	return normal(math.Log(b/a) / s)
}

// ratio writes how many times a is b.
func ratio(a, b float64) string {
	if b <= 0 || a/b >= 1000 {
		return "many times"
	}
	if a/b < 1.005 {
		return "about"
	}
	return fmt.Sprintf("%.3g times", a/b)
}

// money writes US dollars with at least two digits that count.
func money(usd float64) string {
	switch {
	case usd == 0:
		return "0"
	case usd < 0.0995:
		return fmt.Sprintf("%.2g", usd)
	case usd < 1000:
		return fmt.Sprintf("%.2f", usd)
	}
	return fmt.Sprintf("%.0f", usd)
}

// caveats names the stale prices and unverified fields behind what the decision shows.
func (d *Decision) caveats(w *weighing) {
	seen := map[string]bool{}
	note := func(o *Option) {
		if o.Offer == nil || seen[o.Offer.key()] {
			return
		}
		seen[o.Offer.key()] = true
		name := o.Offer.Cloud + " " + o.Offer.Type
		if o.Stale {
			d.Stale = append(d.Stale, fmt.Sprintf("%s: price of %s", name, o.Offer.PriceDate.Format(time.DateOnly)))
		}
		if o.Offer.Unverified != "" {
			d.Unverified = append(d.Unverified, name+": "+o.Offer.Unverified)
		}
		if o.GPU.Unverified != "" && !seen[o.GPU.Name] {
			d.Unverified = append(d.Unverified, o.GPU.Name+": "+o.GPU.Unverified)
		}
		seen[o.GPU.Name] = true
	}
	note(&d.Best)
	for i := range d.Lost {
		note(&d.Lost[i].Option)
	}
	for i := range d.Front {
		note(&d.Front[i])
	}
}
