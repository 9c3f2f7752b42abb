package reservoir

import (
	"fmt"
	"math"

	"github.com/weft-run/weft/internal/philox"
)

// Spike is an event on a channel of input.
type Spike struct {
	Channel   int
	Time      float64 // milliseconds from the beginning of the pattern
	Amplitude float64 // beyond that of a plain spike, which is one
}

// Pattern is a number of spikes within a time.
type Pattern struct {
	Spikes   []Spike
	Duration float64 // milliseconds
}

// Validate returns ErrParams if a pattern is empty, has no duration, or has a
// spike outside its duration or the given number of channels.
func (p Pattern) Validate(channels int) error {
	if !(p.Duration > 0) || !finite(p.Duration) {
		return fmt.Errorf("reservoir: pattern of %v ms: give it a duration above zero: %w", p.Duration, ErrParams)
	}
	if len(p.Spikes) == 0 {
		return fmt.Errorf("reservoir: pattern without spikes: %w", ErrParams)
	}
	for i, s := range p.Spikes {
		if s.Channel < 0 || s.Channel >= channels {
			return fmt.Errorf("reservoir: spike %d is on channel %d of %d: %w", i, s.Channel, channels, ErrParams)
		}
		if !(s.Time >= 0 && s.Time < p.Duration) || !finite(s.Amplitude) {
			return fmt.Errorf("reservoir: spike %d at %v ms with amplitude %v is outside the pattern's %v ms or not finite: %w",
				i, s.Time, s.Amplitude, p.Duration, ErrParams)
		}
	}
	return nil
}

// bin returns the number of the interval a spike is in, of bins equal ones.
func (p Pattern) bin(s Spike, bins int) int {
	return min(int(s.Time/(p.Duration/float64(bins))), bins-1)
}

// Bins adds the spikes of a valid pattern to the input of a run. u has a row of batch
// values for each of the channels and steps, and the pattern's are in one column, which
// must be zero before.
func (p Pattern) Bins(u []float32, steps, channels, batch, column int) {
	for _, s := range p.Spikes {
		at := (p.bin(s, steps)*channels+s.Channel)*batch + column
		u[at] += float32(1 + s.Amplitude)
	}
}

// Histogram sets the input of a single step to the shares of a valid pattern's
// spikes in as many intervals as there are channels. It forgets which channel a
// spike was on, so that patterns which differ in nothing else cannot be told
// apart: it exists for compatibility, and Bins is what to use.
func (p Pattern) Histogram(u []float32, channels, batch, column int) {
	var sum float64
	for c := range channels {
		u[c*batch+column] = 0
	}
	for _, s := range p.Spikes {
		u[p.bin(s, channels)*batch+column] += float32(1 + s.Amplitude)
		sum += 1 + s.Amplitude
	}
	if sum == 0 {
		return
	}
	for c := range channels {
		u[c*batch+column] /= float32(sum)
	}
}

// Encoder turns values between 0 and 1, one for each channel or group of
// channels, into spikes. Draws are functions of the seed and of the pattern's
// number, so a pattern is the same whoever encodes it.
type Encoder struct {
	Seed     uint32
	Duration float64 // milliseconds
}

// check returns ErrParams if the values cannot be encoded.
func (e Encoder) check(values []float64) error {
	if !(e.Duration > 0) || !finite(e.Duration) {
		return fmt.Errorf("reservoir: encode over %v ms: give a duration above zero: %w", e.Duration, ErrParams)
	}
	for i, v := range values {
		if !(v >= 0 && v <= 1) {
			return fmt.Errorf("reservoir: encode value %d: %v is not between 0 and 1: %w", i, v, ErrParams)
		}
	}
	return nil
}

// draw returns the n-th random number in (0, 1) of a channel of a pattern.
func (e Encoder) draw(pattern uint64, channel, n int) float64 {
	return philox.Unit(philox.Source{Seed: e.Seed, Stream: streamEncode}.Uint32(pattern, uint32(channel), uint32(n)))
}

// Rate encodes each value as a Poisson process of 1 to 100 Hz.
func (e Encoder) Rate(values []float64, pattern uint64) (Pattern, error) {
	p := Pattern{Duration: e.Duration}
	if err := e.check(values); err != nil {
		return p, err
	}
	for c, v := range values {
		perMS := (1 + 99*v) / 1000
		for n, t := 0, 0.0; ; n++ {
			t -= math.Log(e.draw(pattern, c, n)) / perMS
			if t >= e.Duration {
				break
			}
			p.Spikes = append(p.Spikes, Spike{Channel: c, Time: t})
		}
	}
	return p, nil
}

// Temporal encodes each value as the delay of one spike: 50 ms times the value,
// and 2 ms for each channel before. Spikes after the duration are left out.
func (e Encoder) Temporal(values []float64) (Pattern, error) {
	p := Pattern{Duration: e.Duration}
	if err := e.check(values); err != nil {
		return p, err
	}
	for c, v := range values {
		if t := 50*v + 2*float64(c); t < e.Duration {
			p.Spikes = append(p.Spikes, Spike{Channel: c, Time: t})
		}
	}
	return p, nil
}

// Population encodes each value by a group of channels, each of which prefers a
// value and spikes at a random time with a probability of 0.8 at its own value,
// falling off as a Gaussian of a sixth of the group.
func (e Encoder) Population(values []float64, group int, pattern uint64) (Pattern, error) {
	p := Pattern{Duration: e.Duration}
	if err := e.check(values); err != nil {
		return p, err
	}
	if group <= 0 {
		return p, fmt.Errorf("reservoir: population of %d channels: have at least one: %w", group, ErrParams)
	}
	sigma := float64(group) / 6
	for i, v := range values {
		for k := range group {
			c := i*group + k
			d := (float64(k) - v*float64(group-1)) / sigma
			if e.draw(pattern, c, 0) < 0.8*math.Exp(-d*d/2) {
				p.Spikes = append(p.Spikes, Spike{Channel: c, Time: e.Duration * e.draw(pattern, c, 1)})
			}
		}
	}
	return p, nil
}

// Phase encodes each value as the phase of a spike in every period of a 40 Hz
// oscillation, with a jitter of up to 1 ms. Spikes outside the duration are left
// out.
func (e Encoder) Phase(values []float64, pattern uint64) (Pattern, error) {
	p := Pattern{Duration: e.Duration}
	if err := e.check(values); err != nil {
		return p, err
	}
	const period = 25
	for c, v := range values {
		for n := 0; float64(n)*period < e.Duration; n++ {
			t := (float64(n)+v)*period + 2*e.draw(pattern, c, n) - 1
			if t >= 0 && t < e.Duration {
				p.Spikes = append(p.Spikes, Spike{Channel: c, Time: t})
			}
		}
	}
	return p, nil
}
