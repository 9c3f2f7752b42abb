package relativity

import "github.com/weft-run/weft"

// flight is eight orbits that take their steps together: orbitsAVX512 knows where its fields are.
type flight struct {
	r, v, phi, tau, drift  [8]float64
	l, l2, h, half, sixth  [8]float64
	first                  [8]float64
	one, two, three, clear float64 // clear is all bits but the sign
}

// load puts an orbit into a lane. A step of zero leaves it where it is.
func (f *flight) load(i int, o *path, h float64) {
	f.r[i], f.v[i], f.phi[i], f.tau[i], f.drift[i] = o.r, o.v, o.phi, o.tau, o.drift
	f.l[i], f.l2[i], f.h[i], f.half[i], f.sixth[i], f.first[i] = o.l, o.l*o.l, h, h/2, h/6, o.first
}

// store takes an orbit out of a lane after some steps.
func (f *flight) store(i int, o *path, steps int) {
	o.r, o.v, o.phi, o.tau, o.drift = f.r[i], f.v[i], f.phi[i], f.tau[i], f.drift[i]
	o.round += steps
}

// followAbreast does the work of follow for several orbits with fixed steps, eight at a time. Steps that
// end a turn or an orbit, one of some thousand, are taken by [path.next]. When an orbit ends the next
// takes its lane.
func followAbreast(c *weft.Call, out, in []float64, p *orbitParams) {
	const most = 1 << 14 // steps between looks whether the call was stopped
	count, begun := len(in)/orbitIn, 0
	var paths [8]path
	var at [8]int // of each path, or -1
	f := newFlight()
	begin := func(i int) {
		if at[i] = -1; begun < count {
			at[i] = begun
			paths[i] = newPath(in[orbitIn*begun:])
			begun++
		} else {
			f.load(i, &path{state: state{r: 2 * horizon}, first: 1}, 0)
		}
	}
	for i := range paths {
		begin(i)
	}
	for !c.Stopped() {
		steps, active := most, false
		for i := range paths {
			if at[i] >= 0 {
				f.load(i, &paths[i], paths[i].h)
				active = true
				steps = min(steps, p.rounds-paths[i].round)
			}
		}
		if !active {
			return
		}
		steps = f.advance(steps)
		for i := range paths {
			if at[i] < 0 {
				continue
			}
			f.store(i, &paths[i], steps)
			if !paths[i].ended(p) {
				paths[i].next(p)
			}
			if paths[i].ended(p) {
				paths[i].write(out[orbitOut*at[i]:])
				begin(i)
			}
		}
	}
}
