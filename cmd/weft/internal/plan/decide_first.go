package plan

import "math"

// plus is the sum of two quantities that are late together.
func (x spread) plus(y spread) spread {
	median := x.median + y.median
	low, high := x.quantile(0.05)+y.quantile(0.05), x.quantile(0.95)+y.quantile(0.95)
	return spread{median, math.Log(median/low) / z90, math.Log(high/median) / z90}
}

// addFirst adds the option in which the first tasks of the job run here and the others on a
// rented machine, which is rented when those are done. Of both the predicted time is the part
// of the whole job's that these tasks are of its work.
func (w *weighing) addFirst(r *rental, f *First) {
	a := &w.Assume
	share, rest := f.share(&w.Need)
	if share == 0 || rest == 0 {
		return
	}
	there := r.there.share(rest)
	o := &Option{Kind: Hybrid, Here: r.here.Name, First: f, Offer: r.offer, GPU: r.gpu, GPUs: r.count, Share: rest, Estimate: r.takes,
		Start: a.Start, Upload: f.Upload / a.Uplink, Download: w.Need.Download / a.Downlink, Egress: w.Need.Download / 1e9 * a.Egress,
		Stale: r.offer.stale(w.At, a.Stale)}
	if r.offer.OnSpot {
		save := float64(w.Need.State) / a.Checkpoint
		spot := onSpot(there.median, a.Spot/3600, a.Start+save, save)
		if !(spot.Factor < 1e3) {
			return
		}
		o.Spot = &spot
		there = there.times(spot.Factor, spot.Spread)
	}
	fixed := o.Start + o.Upload + o.Download
	here := w.hereEnd(r.here, r.atHome, share)
	o.Energy = here.cost(here.x.mean())
	w.weigh(o, []end{{fixed: fixed, x: here.x.plus(there)}},
		[]end{{fixed: fixed, x: there, rate: r.offer.Price() / 3600, once: o.Egress, billing: a.Billing}, here})
	w.options = append(w.options, o)
}
