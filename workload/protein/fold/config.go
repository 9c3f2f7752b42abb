package fold

import (
	"errors"
	"fmt"
	"math"

	"github.com/weft-run/weft/internal/philox"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/protein"
)

// errWrong is returned by [Run.Check] for what the dynamics did not make.
var errWrong = errors.New("not the dynamics")

// Config says what to fold and how. Zero fields have the values in parentheses.
type Config struct {
	// Structure is the name of a structure that is shipped, or of a file ("1CRN").
	Structure string
	// Select says which chain and model of it to take.
	Select protein.Select
	// Steps is the number of time steps of each replica (500,000).
	Steps int
	// Every is the number of steps between two frames, after which replicas may exchange
	// their temperatures (1,000).
	Every int
	// Replicas is the number of trajectories (16).
	Replicas int
	// Low and High are the temperatures of the first and the last replica (0.7 and Low). The
	// ones in between grow by equal factors. If Low and High differ, neighbours on this ladder
	// exchange temperatures.
	Low, High float64
	// Tuned has the temperatures in between moved three times in the first half of the rounds, so that all
	// neighbours on the ladder exchange about equally often. They stay from then on. It is for long runs: by
	// energies from before the chains fold it may do worse than equal factors.
	Tuned bool
	// TimeStep and Friction are parameters of the Langevin equation (0.005 and 0.2).
	TimeStep, Friction float64
	// Seed chooses the random numbers.
	Seed uint32
	// Split says whether to split the one replica that there is over devices, bead by bead (SplitNever).
	Split string
}

// The bounds of a configuration.
const (
	maxSteps    = 1 << 40
	maxFrames   = 1 << 20
	maxReplicas = 1 << 16
	maxBeads    = 100_000
)

// settled returns the configuration with defaults in place of zeros.
func (c Config) settled() Config {
	set := func(v *float64, to float64) {
		if *v == 0 {
			*v = to
		}
	}
	setInt := func(v *int, to int) {
		if *v == 0 {
			*v = to
		}
	}
	if c.Structure == "" {
		c.Structure = "1CRN"
	}
	setInt(&c.Steps, 500_000)
	setInt(&c.Every, 1000)
	setInt(&c.Replicas, 16)
	set(&c.Low, 0.7)
	set(&c.High, c.Low)
	set(&c.TimeStep, 0.005)
	set(&c.Friction, 0.2)
	return c
}

// Validate reports a configuration that can not be run. What a file holds is seen by New.
func (c Config) Validate() error {
	c = c.settled()
	between := func(v, low, high float64) bool { return v >= low && v <= high }
	switch {
	case c.Steps < 1 || c.Steps > maxSteps:
		return fmt.Errorf("fold: %d steps: %w: there must be 1 to %d", c.Steps, workload.ErrConfig, int64(maxSteps))
	case c.Every < 1 || c.Every > c.Steps:
		return fmt.Errorf("fold: %d steps between frames of %d in all: %w: there must be 1 or more, and not more than all", c.Every, c.Steps, workload.ErrConfig)
	case c.Steps/c.Every > maxFrames:
		return fmt.Errorf("fold: %d frames: %w: there may be %d; let more steps be between them", c.Steps/c.Every, workload.ErrConfig, maxFrames)
	case c.Replicas < 1 || c.Replicas > maxReplicas:
		return fmt.Errorf("fold: %d replicas: %w: there must be 1 to %d", c.Replicas, workload.ErrConfig, maxReplicas)
	case !between(c.Low, 1e-3, 100) || !between(c.High, c.Low, 100):
		return fmt.Errorf("fold: temperatures from %v to %v: %w: they must grow, within 0.001 to 100", c.Low, c.High, workload.ErrConfig)
	case c.High > c.Low && c.Replicas < 2:
		return fmt.Errorf("fold: one replica from temperature %v to %v: %w: exchange needs two or more", c.Low, c.High, workload.ErrConfig)
	case c.Tuned && (c.High == c.Low || c.Replicas < 3 || c.Steps/c.Every < tuneLeast):
		return fmt.Errorf("fold: a tuned ladder of %d replicas from temperature %v to %v with %d frames: %w: it needs three or more replicas, two temperatures and %d frames", c.Replicas, c.Low, c.High, c.Steps/c.Every, workload.ErrConfig, tuneLeast)
	case !between(c.TimeStep, 1e-6, 0.02):
		return fmt.Errorf("fold: a time step of %v: %w: it must be 1e-6 to 0.02, beyond which bonds break", c.TimeStep, workload.ErrConfig)
	case !between(c.Friction, 1e-6, 1000):
		return fmt.Errorf("fold: friction %v: %w: it must be 1e-6 to 1000", c.Friction, workload.ErrConfig)
	case c.Split != SplitNever && c.Split != SplitPays && c.Split != SplitAlways:
		return fmt.Errorf("fold: split %q: %w: it must be %s, %s or nothing", c.Split, workload.ErrConfig, SplitPays, SplitAlways)
	case c.Split != SplitNever && c.Replicas != 1:
		return fmt.Errorf("fold: %d replicas of which one trajectory is to be split: %w: there must be 1; several are dealt out whole", c.Replicas, workload.ErrConfig)
	case c.Select.Model < 0:
		return fmt.Errorf("fold: model %d: %w: models have numbers from 1 on", c.Select.Model, workload.ErrConfig)
	}
	return nil
}

// Bytes returns the host memory of a run of a chain of some beads: the state of replicas three
// times, and the records of each frame.
func (c Config) Bytes(beads int) float64 {
	c = c.settled()
	groups, frames := math.Ceil(float64(c.Replicas)/lanes), float64(c.Steps)/float64(c.Every)+1
	return 3*48*lanes*groups*float64(beads) + frames*(12*float64(beads)+(8*seenCount+4)*float64(c.Replicas))
}

// temperatures returns the ladder: each temperature is the one before times the same factor.
func (c Config) temperatures() []float64 {
	t := make([]float64, c.Replicas)
	for i := range t {
		t[i] = c.Low * math.Pow(c.High/c.Low, float64(i)/math.Max(float64(c.Replicas-1), 1))
	}
	return t
}

// exchanges reports whether replicas exchange temperatures.
func (c Config) exchanges() bool { return c.High > c.Low }

// The streams of random numbers in addition to the stream of the motion.
const (
	streamStart    = 2
	streamVelocity = 3
	streamExchange = 4
)

// apart is the initial distance between the lines of chains in angstrom.
const apart = 20

// start sets positions to straight chains, each bead off its line by a fifth of an angstrom or
// so, and velocities to those of a temperature.
func start(m *protein.Model, x, v []float64, seed uint32, replica int, temperature float64) {
	begin := 0
	for c, end := range m.Ends {
		along := 0.0
		for i := begin; i < end; i++ {
			if i > begin {
				d := 0.0
				for k := range 3 {
					e := m.Native[3*i+k] - m.Native[3*i-3+k]
					d += e * e
				}
				along += math.Sqrt(d)
			}
			g := normal(streamStart<<32|uint64(seed), i, uint64(replica), 0)
			x[3*i], x[3*i+1], x[3*i+2] = along+0.2*g[0], apart*float64(c)+0.2*g[1], 0.2*g[2]
			h := normal(streamVelocity<<32|uint64(seed), i, uint64(replica), 0)
			for k := range 3 {
				v[3*i+k] = math.Sqrt(temperature) * h[k]
			}
		}
		begin = end
	}
}

// exchange lets neighbours on the ladder exchange temperatures, after a number of rounds:
// first and second, third and fourth and so on, or from the second on in every other round.
// rung is the rung of each replica, which it changes, and the ratio of velocities with it. It
// returns how many pairs were asked and how many exchanged.
func exchange(rung []int32, scale, energy, temperature []float64, seed uint32, round int) (asked, done int) {
	at := make([]int, len(rung))
	for r, t := range rung {
		at[t] = r
	}
	for r := range scale {
		scale[r] = 1
	}
	source := philox.Source{Seed: seed, Stream: streamExchange}
	for t := round % 2; t+1 < len(rung); t += 2 {
		a, b := at[t], at[t+1]
		asked++
		u := philox.Unit(source.Block(uint64(round), uint32(t), 0)[0])
		if u >= math.Exp((1/temperature[t]-1/temperature[t+1])*(energy[a]-energy[b])) {
			continue
		}
		done++
		rung[a], rung[b] = int32(t+1), int32(t)
		scale[a] = math.Sqrt(temperature[t+1] / temperature[t])
		scale[b] = 1 / scale[a]
	}
	return asked, done
}
