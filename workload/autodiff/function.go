package autodiff

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
)

// Function is one or several expressions of the same variables, compiled once. It may be used
// by several goroutines at a time.
type Function struct {
	variables []string
	index     map[string]int
	exprs     []Expr

	mu       sync.Mutex
	programs map[int]*program // of all derivatives, by directions to a pass
}

// Compile makes a function of expressions. Its derivatives are in the order of the variables; every
// variable of the expressions must be listed, and once only. A variable that is missing, a number
// that is not finite, or an expression that is too large is an error that wraps [ErrExpr].
func Compile(variables []string, exprs ...Expr) (*Function, error) {
	f, err := newFunction(variables, exprs)
	if err == nil {
		_, err = f.program(MaxDirections)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// newFunction is Compile without a program, which is made when it is needed.
func newFunction(variables []string, exprs []Expr) (*Function, error) {
	f := &Function{variables: slices.Clone(variables), exprs: slices.Clone(exprs), index: make(map[string]int)}
	for i, name := range variables {
		if _, twice := f.index[name]; twice {
			return nil, fmt.Errorf("autodiff: variable %q: %w: it is there twice", short(name), ErrExpr)
		}
		f.index[name] = i
	}
	switch {
	case len(exprs) < 1 || len(exprs) > maxOutputs:
		return nil, fmt.Errorf("autodiff: %d expressions: %w: there must be 1 to %d", len(exprs), ErrExpr, maxOutputs)
	case len(variables) < 1:
		return nil, fmt.Errorf("autodiff: no variable: %w: there is nothing to derive by", ErrExpr)
	case len(variables) > maxVariables:
		return nil, fmt.Errorf("autodiff: %d variables: %w: there may be %d", len(variables), ErrExpr, maxVariables)
	}
	seen := make(map[*node]bool)
	for i, e := range exprs {
		if e.n == nil {
			return nil, fmt.Errorf("autodiff: expression %d is the zero Expr: %w", i, ErrExpr)
		}
		if e.n.depth > maxNodes {
			return nil, fmt.Errorf("autodiff: expression %d: %w: its operations are within one another more than %d deep", i, ErrExpr, maxNodes)
		}
		if err := f.look(e.n, seen); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// look errs for an expression that is too large, a number that is not finite or an unlisted variable.
func (f *Function) look(n *node, seen map[*node]bool) error {
	if seen[n] {
		return nil
	}
	if seen[n] = true; len(seen) > maxNodes {
		return fmt.Errorf("autodiff: %w: it may have %d numbers, variables and operations", ErrExpr, maxNodes)
	}
	if n.op == opNumber && (math.IsNaN(n.number) || math.IsInf(n.number, 0)) {
		return fmt.Errorf("autodiff: the number %v: %w: numbers must be finite", n.number, ErrExpr)
	}
	if _, ok := f.index[n.name]; n.op == opVariable && !ok {
		return fmt.Errorf("autodiff: %q is not among the variables %s: %w", short(n.name), short(strings.Join(f.variables, ", ")), ErrExpr)
	}
	for _, m := range []*node{n.a, n.b} {
		if m != nil {
			if err := f.look(m, seen); err != nil {
				return err
			}
		}
	}
	return nil
}

// Variables are the names of the variables, in the order of a point's numbers.
func (f *Function) Variables() []string { return slices.Clone(f.variables) }

// Outputs is the number of expressions.
func (f *Function) Outputs() int { return len(f.exprs) }

// String writes the expressions as Parse reads them.
func (f *Function) String() string {
	texts := make([]string, len(f.exprs))
	for i, e := range f.exprs {
		texts[i] = e.String()
	}
	return strings.Join(texts, "; ")
}

// program compiles all derivatives, with at most the given number of directions in a pass.
func (f *Function) program(most int) (*program, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.programs[most]; p != nil {
		return p, nil
	}
	p, err := newProgram(len(f.variables), f.index, f.exprs, units(len(f.variables)), most)
	if err != nil {
		return nil, err
	}
	if f.programs == nil {
		f.programs = make(map[int]*program)
	}
	f.programs[most] = p
	return p, nil
}

// units are the directions of the variables.
func units(n int) [][]float64 {
	all := make([]float64, n*n)
	out := make([][]float64, n)
	for i := range out {
		out[i] = all[i*n : (i+1)*n]
		out[i][i] = 1
	}
	return out
}
