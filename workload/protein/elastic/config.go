package elastic

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/weft-run/weft/internal/host"
	"github.com/weft-run/weft/internal/protein/network"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/protein"
)

// ErrUnfinished is wrapped by the errors of the methods Modes and Unfinished of jobs if fewer modes
// than were asked for have converged.
var ErrUnfinished = errors.New("too few steps")

// The networks.
const (
	Gaussian    = "gnm" // Kirchhoff matrix, a row for each residue
	Anisotropic = "anm" // Hessian, three rows for each residue
)

// Config says of which network how many modes are wanted.
type Config struct {
	// Structure is the name of a structure that is shipped, or a file; see protein.Open.
	Structure string
	Select    protein.Select
	// Given, if not nil, is a structure that was read already, for which Structure and Select do not matter.
	Given *protein.Structure
	// Residues, if not zero, is the length of a helix to use instead of a structure.
	Residues int
	Network  string  // Gaussian, which empty means, or Anisotropic
	Cutoff   float64 // in angstrom; 0 means the usual 10 for Gaussian and 15 for Anisotropic
	Modes    int     // how many of the slowest are wanted; 0 means 20. Fewer are found if there are fewer.
	// Steps is the number of steps; 0 means a few more than there are modes, at most 600 for
	// Gaussian and 1500 for Anisotropic.
	Steps int
	Seed  uint32 // what the first vector is drawn from
}

const defaultModes = 20

// mostSteps is the number of steps unless a caller wants more. The matrices of proteins of up
// to 3000 residues have their 20 slowest modes after fewer.
var mostSteps = map[string]int{Gaussian: 600, Anisotropic: 1500}

// spareSteps is the largest number of equal eigenvalues that are expected, each of which takes a step
// more. In a network of at most smallNetwork modes all may be equal.
const (
	spareSteps   = 4
	smallNetwork = 8
)

// maxSteps bounds the memory, which is a vector for each step.
const maxSteps = 20_000

func (c Config) withDefaults() Config {
	if c.Network == "" {
		c.Network = Gaussian
	}
	if c.Cutoff == 0 {
		c.Cutoff = network.GaussianCutoff
		if c.Network == Anisotropic {
			c.Cutoff = network.AnisotropicCutoff
		}
	}
	if c.Modes == 0 {
		c.Modes = defaultModes
	}
	return c
}

// Validate reports a configuration that describes no network. What a file holds is seen by New.
func (c Config) Validate() error {
	c = c.withDefaults()
	switch {
	case (c.Structure != "" || c.Given != nil) == (c.Residues != 0):
		return fmt.Errorf("elastic: a helix of %d residues and structure %q: %w: name one of the two", c.Residues, c.Structure, workload.ErrConfig)
	case c.Residues != 0 && (c.Residues < 4 || c.Residues > network.MaxBeads):
		return fmt.Errorf("elastic: a helix of %d residues: %w: there must be 4 to %d", c.Residues, workload.ErrConfig, network.MaxBeads)
	case c.Given != nil && (c.Given.Len() < 4 || c.Given.Len() > network.MaxBeads):
		return fmt.Errorf("elastic: %s: %w: it has %d residues; there must be 4 to %d", c.Given.Name, workload.ErrConfig, c.Given.Len(), network.MaxBeads)
	case c.Network != Gaussian && c.Network != Anisotropic:
		return fmt.Errorf("elastic: network %q: %w: it must be %s or %s", c.Network, workload.ErrConfig, Gaussian, Anisotropic)
	case !(c.Cutoff > 0) || math.IsInf(c.Cutoff, 1):
		return fmt.Errorf("elastic: cutoff %v Å: %w: it must be a positive number", c.Cutoff, workload.ErrConfig)
	case c.Modes < 0 || c.Steps < 0 || c.Steps > maxSteps:
		return fmt.Errorf("elastic: %d modes, %d steps: %w: neither may be negative, and steps at most %d", c.Modes, c.Steps, workload.ErrConfig, maxSteps)
	}
	return nil
}

// zeros is the number of eigenvalues that are zero: rigid motions cost nothing.
func (c Config) zeros() int {
	if c.Network == Anisotropic {
		return 6
	}
	return 1
}

// perResidue is the number of rows that a residue has.
func (c Config) perResidue() int {
	if c.Network == Anisotropic {
		return 3
	}
	return 1
}

// steps is the number of steps for a number of residues. Modes of equal eigenvalues are found
// from a new vector each, which takes a step: twice as many steps as modes find all there are.
func (c Config) steps(residues int) int {
	modes := max(c.perResidue()*residues-c.zeros(), 1)
	if c.Steps > 0 {
		return min(c.Steps, 2*modes)
	}
	if modes <= smallNetwork {
		return 2 * modes
	}
	return min(mostSteps[c.Network], modes+spareSteps)
}

// Bytes returns the most host memory that the job of a helix takes, and an estimate for a structure
// that was read already, which has more neighbours. Residues of a file and their neighbours are
// unknown before New reads it.
func (c Config) Bytes() float64 {
	c = c.withDefaults()
	if c.Given != nil {
		c.Residues = c.Given.Len()
	}
	n := float64(c.Residues)
	pairs := n * min(math.Floor(c.Cutoff/helixRise), n)
	if c.Residues > math.MaxInt/8 { // no steps are counted: rows alone are too many
		return 24*pairs + 100*n
	}
	return c.bytes(c.Residues, pairs)
}

// bytes is the host memory of a network with some residues and pairs of neighbours: lists of pairs,
// with room for twice as many, the matrix, and a vector for each step, twice because of the check,
// with its sums.
func (c Config) bytes(residues int, pairs float64) float64 {
	n, each := residues*c.perResidue(), float64(c.perResidue())
	entries := 2*pairs + float64(residues)
	steps, block := float64(c.steps(residues)), blockRows(n)
	blocks := float64((n + block - 1) / block)
	rows := blocks * float64(block)
	return 8*entries + 12*entries*each*each + rows*(16*(steps+float64(c.zeros()))+32) + blocks*8*(4*steps+16)
}

// maxProducts is the most products of entries with a vector that a network takes by default, and
// productTime is about what one takes. With the usual cutoffs the largest networks have a tenth of them.
const (
	maxProducts = 1e11
	productTime = 1.3e-9 // seconds
)

// helixRise is the rise of a helix for each residue in angstrom.
const helixRise = 1.5

// open reads or makes the structure.
func (c Config) open() (*protein.Structure, error) {
	switch {
	case c.Given != nil:
		return c.Given, nil
	case c.Residues != 0:
		return protein.Helix(c.Residues), nil
	}
	return protein.Open(c.Structure, c.Select)
}

// enough is host.Enough, but for tests.
var enough = host.Enough

// matrix returns the network's matrix and the vectors that it maps to zero.
func (c Config) matrix(s *protein.Structure) (*network.Matrix, [][]float64, error) {
	fail := func(err error) (*network.Matrix, [][]float64, error) {
		return nil, nil, fmt.Errorf("elastic: %s: %w: %w", s.Name, workload.ErrConfig, err)
	}
	if s.Len() < 4 {
		return fail(fmt.Errorf("it has %d residues; there must be 4", s.Len()))
	}
	xyz := s.Coordinates()
	if s.Len() <= network.MaxBeads { // or network says that there are too many
		pairs := 0
		for range protein.Near(xyz, c.Cutoff) {
			pairs++
		}
		what := fmt.Sprintf("elastic: a network of %d residues and %d springs", s.Len(), pairs)
		bytes := int64(c.bytes(s.Len(), float64(pairs)))
		if err := enough(what, bytes); err != nil {
			return nil, nil, err
		}
		each := float64(c.perResidue())
		if products := (2*float64(pairs) + float64(s.Len())) * each * each * float64(c.steps(s.Len())); c.Steps == 0 && products > maxProducts {
			return fail(fmt.Errorf("%d residues have %d springs at %g Å; %d steps take %.2g products of the matrix's entries, about %v of one core, and %.3g GB of memory: lower the cutoff, or say how many steps to take all the same",
				s.Len(), pairs, c.Cutoff, c.steps(s.Len()), products, time.Duration(products*productTime*float64(time.Second)).Round(time.Second), float64(bytes)/1e9))
		}
	}
	springs, err := network.Kirchhoff(xyz, c.Cutoff)
	if err != nil {
		return fail(err)
	}
	if parts := springs.Parts(); parts > 1 {
		return fail(fmt.Errorf("the %s at %g Å falls into %d parts; raise the cutoff or take one chain", strings.ToUpper(c.Network), c.Cutoff, parts))
	}
	if c.Network == Gaussian {
		return springs, network.Uniform(s.Len()), nil
	}
	null, err := network.Rigid(xyz)
	if err != nil {
		return fail(err)
	}
	hessian, err := network.Hessian(xyz, c.Cutoff)
	if err != nil {
		return fail(err)
	}
	return hessian, null, nil
}
