package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
)

// Kinds of options.
const (
	Local  = "local"  // on devices of this machine
	Cloud  = "cloud"  // on a rented one
	Hybrid = "hybrid" // on both, each with its share of the parts
)

// Option is one way to do a job.
type Option struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"`
	Here  string `json:"here,omitempty"`  // devices of this machine that take part
	Offer *Offer `json:"offer,omitempty"` // nil if nothing is rented
	GPU   GPU    `json:"gpu"`             // of the rented machine, or else of this one
	GPUs  int    `json:"gpus"`            // of them that are used
	// Share is the part of the work that the rented machine does, Parts how many parts
	// of the job that is.
	Share float64 `json:"share"`
	Parts int     `json:"parts,omitempty"`
	// First is the tasks that run here before the others run there; nil for none.
	First *First `json:"first,omitempty"`
	// Estimate is of computing alone: of the whole job where that runs in one place.
	Estimate Estimate `json:"estimate"`
	Spot     *Spot    `json:"spot,omitempty"`
	// Seconds is the median until the result is here, Seconds90 the time that is kept
	// with the asked confidence.
	Seconds   float64 `json:"seconds"`
	Seconds90 float64 `json:"seconds90"`
	Cost      float64 `json:"cost"` // expected, in US dollars
	Cost90    float64 `json:"cost90"`
	// InTime and InBudget are the probabilities of keeping the limits, 1 without one.
	InTime   float64 `json:"in_time"`
	InBudget float64 `json:"in_budget"`
	Kept     bool    `json:"kept"` // both are at least the asked confidence
	// Start, Upload and Download are seconds of the rented machine in addition to computing.
	Start    float64 `json:"start_s,omitempty"`
	Upload   float64 `json:"upload_s,omitempty"`
	Download float64 `json:"download_s,omitempty"`
	Egress   float64 `json:"egress,omitempty"` // part of the cost
	Energy   float64 `json:"energy,omitempty"` // part of the cost
	Stale    bool    `json:"stale,omitempty"`
	// Optimisation, Policy, Memory and Communication say how weft would run it, and Batch is
	// the number of runs under way at a time, as far as memory allows.
	Optimisation  string `json:"optimisation"`
	Batch         int    `json:"batch"`
	Policy        string `json:"policy"`
	Memory        string `json:"memory"`
	Communication string `json:"communication"`

	ends []end // until it is shown
}

// end is one of the machines of an option: its time is a fixed part and a random one, and
// its cost grows with the time.
type end struct {
	fixed   float64 // seconds
	x       spread  // seconds
	rate    float64 // US dollars a second
	once    float64 // US dollars
	billing float64 // seconds that the time is rounded up to for the bill; 0 for none
}

func (e *end) quantile(p float64) float64     { return e.fixed + e.x.quantile(p) }
func (e *end) within(seconds float64) float64 { return e.x.within(seconds - e.fixed) }
func (e *end) cost(seconds float64) float64 {
	if e.billing > 0 {
		seconds = math.Ceil(seconds/e.billing) * e.billing
	}
	return e.once + e.rate*seconds
}

// affords returns the seconds that can be paid for.
func (e *end) affords(usd float64) float64 {
	if e.rate == 0 {
		if usd >= e.once {
			return math.Inf(1)
		}
		return 0
	}
	s := (usd - e.once) / e.rate
	if e.billing > 0 {
		s = math.Floor(s/e.billing*(1+1e-12)) * e.billing
	}
	return s
}

// weigh fills in times, costs and probabilities from the ends of an option: those that must be
// done, and those that are paid for.
func (w *weighing) weigh(o *Option, ends, paid []end) {
	conf := w.Assume.Confidence
	for i := range paid {
		o.Cost += paid[i].cost(paid[i].fixed + paid[i].x.mean())
	}
	o.Cost90 = max(bill(paid, conf), o.Cost)
	o.Seconds90, o.ends = latest(ends, conf), ends
	o.InTime, o.InBudget = w.inTime(ends), w.inBudget(paid)
	o.Kept = o.InTime >= conf && o.InBudget >= conf
}

// bill is the cost that is kept with probability p if both ends are late together, as
// they are where one prediction errs for both.
func bill(ends []end, p float64) (usd float64) {
	for i := range ends {
		usd += ends[i].cost(ends[i].quantile(p))
	}
	return usd
}

// inTime is the probability of keeping the deadline.
func (w *weighing) inTime(ends []end) float64 {
	p := 1.0
	if d := w.Deadline.Seconds(); d > 0 {
		for i := range ends {
			p *= ends[i].within(d)
		}
	}
	return p
}

// inBudget is the probability of keeping the budget, of two ends to a thousandth.
func (w *weighing) inBudget(ends []end) float64 {
	switch {
	case w.Budget == 0:
		return 1
	case len(ends) == 1:
		return ends[0].within(ends[0].affords(w.Budget))
	}
	return float64(sort.Search(1000, func(i int) bool { return bill(ends, (float64(i)+0.5)/1000) > w.Budget })) / 1000
}

// latest returns the time by which all ends are done with probability p. They are taken
// for independent, which is the less favourable view.
func latest(ends []end, p float64) float64 {
	if len(ends) == 1 {
		return ends[0].quantile(p)
	}
	lo, hi := 0.0, 0.0
	each := math.Pow(p, 1/float64(len(ends)))
	for i := range ends {
		lo = max(lo, ends[i].quantile(p))
		hi = max(hi, ends[i].quantile(each))
	}
	// The Illinois variant of the false position: it needs a quarter of the steps of halving.
	all := func(t float64) float64 {
		q := 1.0
		for i := range ends {
			q *= ends[i].within(t)
		}
		return q - p
	}
	atLo, atHi := all(lo), all(hi)
	if atLo >= -1e-9 { // all but one end are done by then for sure
		return lo
	}
	for range 40 {
		if hi-lo <= 1e-6*hi || atHi <= 0 {
			break
		}
		mid := lo + (hi-lo)*min(max(-atLo/(atHi-atLo), 0.01), 0.99) // also where it is a step
		if at := all(mid); at >= 0 {
			hi, atHi, atLo = mid, at, atLo/2
		} else {
			lo, atLo, atHi = mid, at, atHi/2
		}
	}
	return hi
}

// local adds the options of this machine.
func (w *weighing) local() {
	for _, h := range w.Request.Here {
		e := w.here(h)
		if !w.fits(h.Name+" here", e) {
			continue
		}
		o := Option{Name: "here on " + h.Name, Kind: Local, Here: h.Name, GPU: h.GPU, GPUs: h.Count, Estimate: e}
		o.describeHere(&h, &w.Need)
		at := []end{w.hereEnd(&h, e.spread(), 1)}
		w.weigh(&o, at, at)
		o.Energy = o.Cost
		w.options = append(w.options, &o)
	}
}

func (w *weighing) here(h Here) Estimate {
	if h.Estimate != nil {
		return *h.Estimate
	}
	return w.predict(h.GPU, h.Count)
}

// hereEnd is this machine with a share of the work.
func (w *weighing) hereEnd(h *Here, x spread, share float64) end {
	watts, _ := h.watts(&w.Assume)
	return end{x: x.share(share), rate: watts / 1000 / 3600 * w.Assume.EnergyPrice}
}

// machineKey is equal for offers of equal machines.
type machineKey struct {
	gpu  string
	gpus int
}

// cheapest returns the offers without those of an equal machine for more: they would be as fast
// and dearer, alone or together with this machine.
func (w *weighing) cheapest(c *Catalogue) []Offer {
	best := make(map[machineKey]*[2]*Instance) // on demand and spot
	var kept []*[2]*Instance
	for i := range c.Instances {
		n := &c.Instances[i]
		if w.Need.HostBytes > 0 && n.MemoryBytes > 0 && n.MemoryBytes < w.Need.HostBytes {
			w.fits(n.Cloud+" "+n.Type, Estimate{Why: fmt.Sprintf("it needs %d bytes of host memory of %d", w.Need.HostBytes, n.MemoryBytes)})
			continue
		}
		key := machineKey{n.GPU, n.GPUs}
		at, ok := best[key]
		if !ok {
			at = new([2]*Instance)
			best[key] = at
			kept = append(kept, at)
		}
		w.offers++
		if at[0] == nil || n.OnDemand < at[0].OnDemand {
			at[0] = n
		}
		if n.Spot == 0 {
			continue
		}
		w.offers++
		if at[1] == nil || n.Spot < at[1].Spot {
			at[1] = n
		}
	}
	offers := make([]Offer, 0, 2*len(kept))
	for _, at := range kept {
		for i, n := range at {
			if n != nil {
				offers = append(offers, Offer{Instance: *n, OnSpot: i == 1})
			}
		}
	}
	w.pruned = w.offers - len(offers)
	return offers
}

// rented adds the options of rented machines, alone and together with this one.
func (w *weighing) rented(c *Catalogue) error {
	var fastest *Here // of this machine
	var hereTakes Estimate
	for i := range w.Request.Here {
		h := &w.Request.Here[i]
		if e := w.here(*h); e.usable() && (fastest == nil || e.Median < hereTakes.Median) {
			fastest, hereTakes = h, e
		}
	}
	offers := w.cheapest(c)
	w.options = slices.Grow(w.options, 3*len(offers))
	for i := range offers {
		offer := &offers[i]
		gpu, err := c.GPU(offer.GPU)
		if err != nil {
			return fmt.Errorf("%w: %s %s: %w", ErrRequest, offer.Cloud, offer.Type, err)
		}
		e, count := w.best(gpu, offer.GPUs)
		if !e.usable() {
			w.fits(offer.Cloud+" "+offer.Type, e)
			continue
		}
		r := rental{offer: offer, gpu: gpu, takes: e, there: e.spread(), count: count}
		w.add(&r, w.Need.Parts)
		if fastest == nil {
			continue
		}
		r.here, r.atHome = fastest, hereTakes.spread()
		if w.Need.Parts > 1 {
			w.addSplits(&r)
			continue
		}
		for i := range w.Need.First {
			w.addFirst(&r, &w.Need.First[i])
		}
	}
	return nil
}

// best returns the number of an instance's GPUs on which the job is done first: more of
// them may take longer where they exchange much.
func (w *weighing) best(g GPU, most int) (Estimate, int) {
	best, count := w.predict(g, most), most
	for n := most / 2; n > 0; n /= 2 {
		if e := w.predict(g, n); e.Fits && (!best.Fits || e.Median < best.Median) {
			best, count = e, n
		}
	}
	return best, count
}

// rental is a rented machine that does the job, alone or together with this one.
type rental struct {
	offer  *Offer
	gpu    GPU
	takes  Estimate // there
	there  spread   // of takes
	count  int      // GPUs that are used
	here   *Here    // nil if this machine takes no part
	atHome spread   // of the whole job here
}

// split is a number of parts done by a rental, with what follows from it.
type split struct {
	share                    float64
	upload, download, egress float64
	spot                     Spot
	both                     [2]end // there and here
	ends                     []end  // those that take part
}

// split computes what it takes to do some parts on the rented machine. It returns false
// if that would never end.
func (w *weighing) split(r *rental, parts int, s *split) bool {
	a := &w.Assume
	*s = split{share: 1}
	if r.here != nil {
		s.share = float64(parts) / float64(w.Need.Parts)
	}
	s.upload = w.Need.Upload / a.Uplink
	s.download = w.Need.Download * s.share / a.Downlink
	s.egress = w.Need.Download * s.share / 1e9 * a.Egress
	x := r.there.share(s.share)
	if r.offer.OnSpot {
		save := float64(w.Need.State) / a.Checkpoint
		s.spot = onSpot(x.median, a.Spot/3600, a.Start+save, save)
		if !(s.spot.Factor < 1e3) { // also where it is not a number
			return false
		}
		x = x.times(s.spot.Factor, s.spot.Spread)
	}
	s.both[0] = end{fixed: a.Start + s.upload + s.download, x: x, rate: r.offer.Price() / 3600, once: s.egress, billing: a.Billing}
	s.ends = s.both[:1]
	if r.here != nil {
		s.both[1] = w.hereEnd(r.here, r.atHome, 1-s.share)
		s.ends = s.both[:2]
	}
	return true
}

// choice is an option of a rental, with the split that it is of.
type choice struct {
	option Option
	split  split
}

// choice returns memory for a choice. They are made in slabs: there are hundreds in a decision.
func (w *weighing) choice() *choice {
	if len(w.slab) == 0 {
		w.slab = make([]choice, 16)
	}
	c := &w.slab[0]
	w.slab = w.slab[1:]
	return c
}

// add adds the option in which a rental does some parts.
func (w *weighing) add(r *rental, parts int) {
	c := w.choice()
	o, s := &c.option, &c.split
	if !w.split(r, parts, s) {
		w.fits(r.offer.Cloud+" "+r.offer.Type+" spot", Estimate{Why: "without checkpoints it would hardly ever get to its end between interruptions"})
		return
	}
	offer := r.offer // which all options of it share
	*o = Option{Kind: Cloud, Offer: offer, GPU: r.gpu, GPUs: r.count, Share: s.share, Estimate: r.takes,
		Start: w.Assume.Start, Upload: s.upload, Download: s.download, Egress: s.egress,
		Stale: offer.stale(w.At, w.Assume.Stale)}
	if offer.OnSpot {
		o.Spot = &s.spot
	}
	if r.here != nil {
		o.Kind, o.Here, o.Parts = Hybrid, r.here.Name, parts
		o.Energy = s.both[1].cost(s.both[1].x.mean())
	}
	w.weigh(o, s.ends, s.ends)
	w.options = append(w.options, o)
}

// shown returns an option with its name, its median and how it is run, which only those need
// that are shown.
func (w *weighing) shown(o *Option) Option {
	if o.Name == "" {
		o.describe(o.GPUs, o.Offer.Link, &w.Need)
		spot := ""
		if o.Offer.OnSpot {
			spot = ", spot"
		}
		o.Name = fmt.Sprintf("%s %s (%d × %s%s)", o.Offer.Cloud, o.Offer.Type, o.GPUs, o.GPU.Name, spot)
		switch {
		case o.First != nil:
			o.Name = "preprocess here, compute on " + o.Name
		case o.Kind == Hybrid:
			o.Name = "here and " + o.Name
		}
	}
	if o.ends != nil {
		o.Seconds, o.ends = latest(o.ends, 0.5), nil
	}
	if o.Spot != nil {
		spot := *o.Spot // which keeps no slab in memory
		o.Spot = &spot
	}
	return *o
}

// addSplits adds the splits between this machine and a rented one that can matter: the
// one where both are done at the same time, half of that, the smallest with which the
// deadline is kept, and the largest that the budget allows.
func (w *weighing) addSplits(r *rental) {
	all, s := w.Need.Parts, &w.tried
	takes := func(parts int) (there, here float64) {
		if !w.split(r, parts, s) {
			return math.Inf(1), 0
		}
		return s.both[0].fixed + s.both[0].x.median, s.both[1].x.median
	}
	// The first number of parts with which the rented machine is not done first.
	even := 1 + sort.Search(all-2, func(i int) bool { there, here := takes(i + 1); return there >= here })
	if t, h := takes(even); even > 1 {
		if t1, h1 := takes(even - 1); max(t1, h1) < max(t, h) {
			even--
		}
	}
	tries := append(make([]int, 0, 4), even, (even+1)/2)
	keeps := func(parts int, odds func([]end) float64) bool {
		return w.split(r, parts, s) && odds(s.ends) >= w.Assume.Confidence
	}
	if w.Deadline > 0 {
		least := 1 + sort.Search(even-1, func(i int) bool { return keeps(i+1, w.inTime) })
		if least > 1 { // else this machine hardly needs help
			tries = append(tries, least)
		}
	}
	if w.Budget > 0 {
		tries = append(tries, max(sort.Search(even, func(i int) bool { return !keeps(i+1, w.inBudget) }), 1))
	}
	slices.SortFunc(tries, func(a, b int) int { return cmp.Compare(b, a) })
	for _, parts := range slices.Compact(tries) {
		w.add(r, parts)
	}
}
