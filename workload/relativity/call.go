package relativity

import (
	"context"
	"fmt"
	"math"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload"
)

// Particle is the initial state of a test particle: a radius, a radial velocity r′ in proper
// time, and an angular momentum.
type Particle struct {
	R, Velocity, AngularMomentum float64
	// Step is the first step in proper time, or the only one without a tolerance.
	Step float64
}

// Periapsis returns the particle at the periapsis of an orbit, with a step that is a part of
// the period that Newton's orbit has. See [Precession] for p and e.
func Periapsis(p, e float64, steps int) (Particle, error) {
	if _, err := Precession(p, e); err != nil {
		return Particle{}, err
	}
	if !(e >= 1e-6) {
		return Particle{}, fmt.Errorf("relativity: e = %v: %w: a circle has no periapsis; e must be 1e-6 or more", e, workload.ErrConfig)
	}
	if steps < 1 {
		return Particle{}, fmt.Errorf("relativity: %d steps: %w: there must be 1 or more", steps, workload.ErrConfig)
	}
	o := particle(p, e, steps)
	return Particle{o[0], o[1], o[2], o[3]}, nil
}

// Follow follows particles to a periapsis on the devices of a runtime that was opened with
// [Funcs] among its kernels. Of the configuration Turns, Steps and Tolerance count: with no
// tolerance all steps are a particle's own, of which it has 2·Turns·Steps at most. A particle
// that is not outside of the horizon, or not finite, is an error that wraps [workload.ErrConfig]; one
// that falls in is no error, and its orbit says so.
func Follow(ctx context.Context, rt *weft.Runtime, particles []Particle, c Config) ([]Orbit, error) {
	c.Problem, c.Count = Orbits, len(particles)
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	j := &orbitJob{c: c, out: make([]float64, orbitOut*c.Count)}
	for i, p := range particles {
		if !(p.R > horizon) || !finite(p.R, p.Velocity, p.AngularMomentum, p.Step) || !(p.Step > 0) {
			return nil, fmt.Errorf("relativity: particle %d, %+v: %w: its numbers must be finite, its radius above %d and its step above 0", i, p, workload.ErrConfig, horizon)
		}
		j.in = append(j.in, p.R, p.Velocity, p.AngularMomentum, p.Step)
	}
	if _, err := workload.Call(ctx, rt, j.declare(), "relativity"); err != nil {
		return nil, err
	}
	return j.Orbits(), nil
}

func finite(numbers ...float64) bool {
	for _, v := range numbers {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}

// Boost returns events t, x, y, z as they are in frames that move with velocities, three
// numbers each, like Follow. A speed that is not below one is an error that wraps [workload.ErrConfig],
// as are numbers that are not whole events.
func Boost(ctx context.Context, rt *weft.Runtime, events, velocities []float64) ([]float64, error) {
	j, err := boosts(events, events, velocities)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(velocities); i += 3 {
		if v := velocities[i : i+3]; !(v[0]*v[0]+v[1]*v[1]+v[2]*v[2] < 1) {
			return nil, fmt.Errorf("relativity: velocity %d, %v: %w: its speed must be below 1", i/3, v, workload.ErrConfig)
		}
	}
	if _, err := workload.Call(ctx, rt, j, "relativity"); err != nil {
		return nil, err
	}
	return j.out, nil
}

// Minkowski returns the products t t′ − x x′ − y y′ − z z′ of pairs of events, like Boost.
func Minkowski(ctx context.Context, rt *weft.Runtime, x, y []float64) ([]float64, error) {
	j, err := boosts(x, y, make([]float64, len(x)/4*3))
	if err != nil {
		return nil, err
	}
	if _, err := workload.Call(ctx, rt, j, "relativity"); err != nil {
		return nil, err
	}
	return j.products, nil
}

// boosts is the job of a caller's events.
func boosts(x, y, v []float64) (*boostJob, error) {
	if len(x)%4 != 0 || len(y) != len(x) || len(v) != len(x)/4*3 {
		return nil, fmt.Errorf("relativity: events of %d and %d numbers with velocities of %d: %w: events have 4 and velocities 3, as many of each", len(x), len(y), len(v), workload.ErrConfig)
	}
	c := Config{Problem: Boosts, Count: len(x) / 4}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return (&boostJob{c: c, x: x, y: y, v: v, out: make([]float64, len(x)), products: make([]float64, c.Count)}).declare(), nil
}
