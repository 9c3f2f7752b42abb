package enumerative

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/workload"
)

// The problems.
const (
	// Degree is the degree of Gr(k,n) in its Plücker embedding.
	Degree = "degree"
	// Hypersurface is the number of linear spaces of dimension k−1 on a general hypersurface
	// in a projective space of dimension n−1.
	Hypersurface = "hypersurface"
	// Schubert is the number of points in an intersection of Schubert classes.
	Schubert = "schubert"
)

var problems = []string{Degree, Hypersurface, Schubert}

// Problems are the names a Config may have as its Problem.
func Problems() []string { return slices.Clone(problems) }

// Limits: a fixed point is a 32-bit number, its coordinates and determinants are kept by a
// thread, and partial sums by the host.
const (
	maxK       = 16
	maxN       = 64
	maxPoints  = 1 << 28
	maxClasses = 6
	maxForms   = 1 << 10 // linear forms of a hypersurface's class
)

// Config describes what is counted.
type Config struct {
	Problem string // one of Problems
	K, N    int    // of Gr(k,n)
	// Degree is the degree of the hypersurface; 0 means the one on which the spaces are
	// finitely many. Other problems have none.
	Degree int
	// Classes are the partitions of Schubert classes: parts in descending order, at most K of
	// them, each at most N−K. Together they must have K·(N−K) boxes. Other problems have none.
	Classes [][]int
}

// ParseClasses reads partitions as "2,1 2,1 1": parts are divided by commas, partitions by
// spaces.
func ParseClasses(s string) (out [][]int, err error) {
	for _, word := range strings.Fields(s) {
		var parts []int
		for _, p := range strings.Split(word, ",") {
			n, err := strconv.Atoi(p)
			if err != nil || n < 0 {
				return nil, fmt.Errorf("enumerative: classes %q: %w: %q is no part of a partition; write them as \"2,1 2,1 1\"", s, workload.ErrConfig, p)
			}
			parts = append(parts, n)
		}
		out = append(out, parts)
	}
	return out, nil
}

// Validate returns an error for a configuration that cannot be counted.
func (c Config) Validate() error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("enumerative: "+format+": %w: %s", append(args[:len(args)-1:len(args)-1], workload.ErrConfig, args[len(args)-1])...)
	}
	switch {
	case !slices.Contains(problems, c.Problem):
		return wrong("no problem %q", c.Problem, "there is "+strings.Join(problems, ", ")+", and "+Curves+" by NewCurves")
	case c.K > 0 && c.K >= c.N:
		return wrong("Gr(%d,%d)", c.K, c.N, "k must be less than n")
	case c.K < 1 || c.K > maxK || c.N > maxN:
		return wrong("Gr(%d,%d)", c.K, c.N, fmt.Sprintf("k must be 1 to %d and n at most %d", maxK, maxN))
	case c.points() > maxPoints:
		return wrong("Gr(%d,%d) has %d fixed points", c.K, c.N, c.points(), fmt.Sprintf("at most %d are taken; make n smaller", maxPoints))
	case c.Problem != Hypersurface && c.Degree != 0:
		return wrong("degree %d of problem %s", c.Degree, c.Problem, "only "+Hypersurface+" has a degree")
	case c.Degree > maxForms: // of points on a line any degree has finitely many
		return wrong("degree %d", c.Degree, fmt.Sprintf("it must be at most %d", maxForms))
	case c.Problem != Schubert && len(c.Classes) > 0:
		return wrong("%d classes of problem %s", len(c.Classes), c.Problem, "only "+Schubert+" has classes")
	}
	switch c.Problem {
	case Hypersurface:
		if d := c.hypersurface(); d == 0 || c.Degree != 0 && forms(c.Degree, c.K) != c.dim() {
			of, hint := "", fmt.Sprintf("there are finitely many with degree %d", d)
			if d == 0 {
				near := c.withFinite()
				hint = fmt.Sprintf("no degree has finitely many; n %d has, with degree %d", near.N, near.hypersurface())
			}
			if c.Degree != 0 {
				of = fmt.Sprintf(" of degree %d", c.Degree)
			}
			return wrong("spaces of dimension %d on a hypersurface%s in a space of dimension %d", c.K-1, of, c.N-1, hint)
		}
	case Schubert:
		return c.validClasses()
	}
	return nil
}

// validClasses reports partitions that do not fit.
func (c Config) validClasses() error {
	if len(c.Classes) < 1 || len(c.Classes) > maxClasses {
		return fmt.Errorf("enumerative: %s: %w: there must be 1 to %d, as \"2,1 2,1 2,1\" of Gr(3,6)", text.Count(len(c.Classes), "class"), workload.ErrConfig, maxClasses)
	}
	boxes := 0
	for _, parts := range c.Classes {
		if len(parts) > c.K {
			return fmt.Errorf("enumerative: class %v: %w: it may have %d parts at most, k", parts, workload.ErrConfig, c.K)
		}
		for i, p := range parts {
			if p < 0 || p > c.N-c.K || i > 0 && p > parts[i-1] {
				return fmt.Errorf("enumerative: class %v: %w: its parts must descend from %d at most, n−k", parts, workload.ErrConfig, c.N-c.K)
			}
			boxes += p
		}
	}
	if boxes != c.dim() {
		return fmt.Errorf("enumerative: classes with %d boxes: %w: Gr(%d,%d) has dimension %d, and they must have as many", boxes, workload.ErrConfig, c.K, c.N, c.dim())
	}
	return nil
}

// hypersurface is the degree with finitely many spaces, 0 if there is none.
func (c Config) hypersurface() int {
	for d := 1; d <= maxForms; d++ {
		if forms(d, c.K) == c.dim() {
			return d
		}
	}
	return 0
}

// withFinite is c with an n for which some degree has finitely many spaces: a cubic or the next
// degree above where there is one within the limits, else one below.
func (c Config) withFinite() Config {
	for _, d := range []int{3, 4, 5, 6, 7, 8, 9, 2} {
		if f := forms(d, c.K); f < maxForms && f%c.K == 0 {
			near := c
			near.N, near.Degree = c.K+f/c.K, 0
			if near.N <= maxN && near.points() <= maxPoints && near.hypersurface() != 0 {
				return near
			}
		}
	}
	c.N, c.Degree = c.K+1, 0 // hyperplanes
	return c
}

func (c Config) withDefaults() Config {
	if c.Problem == Hypersurface && c.Degree == 0 {
		c.Degree = c.hypersurface()
	}
	return c
}

// forms is the number of monomials of degree d in k variables, or maxForms if there are more.
func forms(d, k int) int {
	n := new(big.Int).Binomial(int64(d+k-1), int64(k-1))
	if d < 1 || !n.IsInt64() || n.Int64() > maxForms {
		return maxForms
	}
	return int(n.Int64())
}

// dim is the dimension of Gr(k,n).
func (c Config) dim() int { return c.K * (c.N - c.K) }

// points is the number of fixed points, or more than maxPoints.
func (c Config) points() int64 {
	n := new(big.Int).Binomial(int64(c.N), int64(c.K))
	if !n.IsInt64() {
		return maxPoints + 1
	}
	return n.Int64()
}

// Bytes is the host memory that the job takes: a partial sum for each chunk and prime, and
// the tables.
func (c Config) Bytes() float64 {
	points := 1.
	for i := range min(c.K, maxN) {
		points *= float64(c.N-i) / float64(i+1)
	}
	if c.Validate() != nil {
		return 4 * max(points, 1) // which New refuses
	}
	c = c.withDefaults()
	p := c.params()
	return 4 * (float64(p.primes)*float64(chunks(c.points())+int64(p.tableLen())) + float64(len(c.space())))
}

// bound is above the integral. An integral is the coefficient of Π x^(n−1) in
// f·Π_{i≠j}(x_i − x_j) ÷ k!, and no coefficient is above the sum of all, which is f(1,…,1) for
// f, whose coefficients are positive, and 2 for each other factor.
func (c Config) bound() *big.Int {
	one := big.NewInt(1)
	f := new(big.Int).Set(one)
	switch c.Problem {
	case Degree:
		f.Exp(big.NewInt(int64(c.K)), big.NewInt(int64(c.dim())), nil)
	case Hypersurface:
		f.Exp(big.NewInt(int64(c.Degree)), big.NewInt(int64(c.dim())), nil)
	case Schubert:
		for _, parts := range c.Classes {
			f.Mul(f, tableaux(parts, c.K))
		}
	}
	f.Lsh(f, uint(c.K*(c.K-1)))
	return f.Div(f, new(big.Int).MulRange(1, int64(c.K))).Add(f, one)
}

// tableaux is the number of semistandard tableaux of a shape with entries up to k, which is
// its Schur polynomial at (1,…,1), by Weyl's formula.
func tableaux(parts []int, k int) *big.Int {
	part := func(i int) int {
		if i < len(parts) {
			return parts[i]
		}
		return 0
	}
	num, den := big.NewInt(1), big.NewInt(1)
	for i := range k {
		for j := i + 1; j < k; j++ {
			num.Mul(num, big.NewInt(int64(part(i)-part(j)+j-i)))
			den.Mul(den, big.NewInt(int64(j-i)))
		}
	}
	return num.Div(num, den)
}
