package relativity

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/signature"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/workload"
)

// The problems.
const (
	Orbits = "orbits"
	Light  = "light"
	Boosts = "boosts"
	Bodies = "bodies"
)

var problems = []string{Orbits, Light, Boosts, Bodies}

// things are the names of the particles that a problem counts.
var things = map[string]string{Orbits: Orbits, Light: "rays", Boosts: Boosts, Bodies: Bodies}

// Problems are the names a Config may have as its Problem.
func Problems() []string { return slices.Clone(problems) }

// errWrong is returned by the checks of jobs for particles that are elsewhere.
var errWrong = errors.New("not the particles")

// Limits: what launches and memory allow, and the steps that a device may take in one launch.
const (
	maxCount  = 1 << 24
	maxSteps  = 1 << 15
	maxBodies = 1 << 19
	maxStates = 1 << 25 // bodies times steps, all of which are kept
	// maxBodySteps is the most steps of bodies, each of which is a task for every device.
	maxBodySteps = 1 << 12
	// rayTurns is the most half turns of a ray.
	rayTurns = 16
)

// Config describes the computation.
type Config struct {
	Problem string // one of Problems
	Count   int    // orbits, rays, events or bodies
	// Steps of bodies, of half a turn of a ray, or of an orbit: with a fixed step those of one turn,
	// with a tolerance the most for all turns; 0 means 4,096, 1,024 for rays and 16 for bodies.
	// Boosts have none.
	Steps int
	// Turns is the number of times an orbit returns to its periapsis; 0 means once. Other problems
	// have none.
	Turns int
	// Tolerance is the error that a step of an orbit may have, relative to its state; 0 means a
	// fixed step. Others have none.
	Tolerance float64
	Seed      uint32
}

func (c Config) withDefaults() Config {
	switch c.Problem {
	case Orbits:
		if c.Steps == 0 {
			c.Steps = 4096
		}
		if c.Turns == 0 {
			c.Turns = 1
		}
	case Light:
		if c.Steps == 0 {
			c.Steps = 1024
		}
	case Bodies:
		if c.Steps == 0 {
			c.Steps = 16
		}
	}
	return c
}

// Validate returns an error for a configuration that cannot be computed.
func (c Config) Validate() error {
	c = c.withDefaults()
	most := maxCount
	if c.Problem == Bodies {
		most = maxBodies
	}
	switch {
	case !slices.Contains(problems, c.Problem):
		return fmt.Errorf("relativity: no problem %q: %w: there is %s", c.Problem, workload.ErrConfig, strings.Join(problems, ", "))
	case c.Count < 1 || c.Count > most:
		return fmt.Errorf("relativity: %d %s: %w: there must be 1 to %d", c.Count, things[c.Problem], workload.ErrConfig, most)
	case c.Problem != Orbits && c.Turns != 0:
		return fmt.Errorf("relativity: %s of %s: %w: only %s have turns", text.Count(c.Turns, "turn"), c.Problem, workload.ErrConfig, Orbits)
	case c.Problem != Orbits && c.Tolerance != 0:
		return fmt.Errorf("relativity: a tolerance of %s: %w: only %s have one", c.Problem, workload.ErrConfig, Orbits)
	case c.Problem == Boosts && c.Steps != 0:
		return fmt.Errorf("relativity: %s of %s: %w: they have none", text.Count(c.Steps, "step"), c.Problem, workload.ErrConfig)
	case c.Problem == Light && (c.Steps < 16 || c.rounds() > maxSteps):
		return fmt.Errorf("relativity: %s for half a turn of light: %w: there must be 16 to %d", text.Count(c.Steps, "step"), workload.ErrConfig, maxSteps/rayTurns)
	case c.Problem == Bodies && (c.Steps < 1 || c.Steps > min(maxStates/c.Count, maxBodySteps)):
		return fmt.Errorf("relativity: %s of %s: %w: there must be 1 to %d, since all are kept", text.Count(c.Steps, "step"), text.Count(c.Count, "body"), workload.ErrConfig, min(maxStates/c.Count, maxBodySteps))
	}
	if c.Problem == Orbits {
		return c.validOrbits()
	}
	return nil
}

// validOrbits reports steps that orbits do not take.
func (c Config) validOrbits() error {
	switch {
	case c.Tolerance != 0 && !(c.Tolerance >= 1e-15 && c.Tolerance <= 1e-2):
		return fmt.Errorf("relativity: tolerance %v: %w: it must be 0, for a fixed step, or 1e-15 to 0.01", c.Tolerance, workload.ErrConfig)
	case c.Turns < 1 || c.Steps < 16 || c.Steps > maxSteps:
		return fmt.Errorf("relativity: %s with %s: %w: there must be 1 turn or more, and 16 to %d steps", text.Count(c.Turns, "turn"), text.Count(c.Steps, "step"), workload.ErrConfig, maxSteps)
	case c.Turns > maxSteps || c.rounds() > maxSteps:
		return fmt.Errorf("relativity: %s of %d steps each: %w: there may be %d steps in all", text.Count(c.Turns, "turn"), c.Steps, workload.ErrConfig, maxSteps)
	}
	return nil
}

// rounds is the most steps of an orbit or a ray. With a fixed step a turn takes somewhat more than
// Steps, because these divide a turn of Newton's orbit. Light circles less than 8 times for every
// float64 that differs from [Critical].
func (c Config) rounds() int {
	switch {
	case c.Problem == Light:
		return rayTurns * c.Steps
	case c.Tolerance != 0:
		return c.Steps
	}
	return 2 * c.Turns * c.Steps
}

// Bytes is the host memory that the job takes.
func (c Config) Bytes() float64 {
	c = c.withDefaults()
	n := float64(c.Count)
	switch c.Problem {
	case Orbits:
		return 8 * (orbitIn + orbitOut) * n
	case Light:
		return 8 * (1 + rayOut) * n
	case Bodies:
		return n * (16 + 12 + 24*float64(max(c.Steps, 1)))
	}
	return 8 * (4 + 4 + 3 + 5) * n
}

// New draws particles by logical index. The job is a [workload.Job].
func New(c Config) (workload.Job, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	switch c = c.withDefaults(); c.Problem {
	case Orbits:
		return newOrbits(c), nil
	case Light:
		return newLight(c), nil
	case Boosts:
		return newBoosts(c), nil
	}
	return newBodies(c), nil
}

// Funcs are the Go kernels of this workload.
func Funcs() map[string]weft.Func { return signature.Funcs(kernels) }

var kernels = []signature.Kernel{orbitsKernel, lightKernel, boostsKernel, bodiesKernel}

// Streams of random numbers.
const (
	streamOrbits = iota
	streamEvents
	streamBodies
	streamLight
)
