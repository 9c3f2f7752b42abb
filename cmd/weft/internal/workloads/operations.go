package workloads

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/weft-run/weft/workload"
)

// Operation is an operation of one of the mathematical domains, which is a workload with flags.
type Operation struct {
	Domain, Name string
	workload     string
	// flags are those of the workload, with {n} for a number of elements, {side} for the side of a
	// square of as many, and {k} and {of} for the Gr(k, of) with about as many fixed points.
	flags string
}

// operations are those of the nine domains, in the order they are shown. A new one is a new line.
var operations = []Operation{
	{"geometric algebra", "geometric_product", "clifford", "--op product --count {n}"},
	{"geometric algebra", "rotor_application", "clifford", "--op rotor --count {n}"},
	{"geometric algebra", "multivector_normalization", "clifford", "--op normalize --count {n}"},
	{"tropical algebra", "tropical_matrix_multiply", "tropical", "--size {side}"},
	{"tropical algebra", "tropical_neural_network", "tropical-net", "--inputs 512 --hidden 16 --outputs 4 --steps 1 --batch {n}"},
	{"automatic differentiation", "forward_mode_ad", "autodiff", "--problem rosenbrock --dims 2 --count {n}"},
	{"automatic differentiation", "batch_gradients", "autodiff", "--problem helmholtz --dims 8 --count {n}"},
	{"information geometry", "fisher_information", "fisher", "--points 1000 --features {side}"},
	{"information geometry", "bregman_divergence", "bregman", "--dim 8 --pairs {n}"},
	{"fusion systems", "tdc_fusion", "fusion", "--bind --records {n}"},
	{"network analysis", "graph_neural_network", "network", "--problem layers --features 8 --nodes {n}"},
	{"cellular automata", "ca_evolution", "automata", "--steps 16 --rows {side} --cols {side}"},
	{"relativistic physics", "spacetime_operations", "relativity", "--problem boosts --count {n}"},
	{"enumerative geometry", "intersection_theory", "enumerative", "--problem degree --k {k} --n {of}"},
}

// Operations returns all operations.
func Operations() []Operation { return slices.Clone(operations) }

// Job makes the operation on about n elements, as [Job] does.
func (o Operation) Job(ctx context.Context, n int) (workload.Job, error) {
	w, ok := Find(o.workload)
	if !ok {
		return nil, fmt.Errorf("%s: there is no workload %s", o.Name, o.workload)
	}
	f := pflag.NewFlagSet(o.Name, pflag.ContinueOnError)
	order := Flags(f, w)
	side, k, of := max(1, int(math.Round(math.Sqrt(float64(n))))), 0, 0
	if strings.Contains(o.flags, "{of}") {
		k, of = grassmannian(n)
	}
	values := strings.NewReplacer("{n}", strconv.Itoa(n), "{side}", strconv.Itoa(side), "{k}", strconv.Itoa(k), "{of}", strconv.Itoa(of))
	if err := f.Parse(strings.Fields(values.Replace(o.flags))); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Name, err)
	}
	return Job(ctx, order)
}

// grassmannian is the Gr(k, of) with k of 2 to 5 whose number of fixed points is nearest to n, as
// a ratio.
func grassmannian(n int) (k, of int) {
	off := math.Inf(1)
	for i := 2; i <= 5; i++ {
		points := 1. // of Gr(i, i)
		for j := i + 1; j <= 64; j++ {
			points *= float64(j) / float64(j-i)
			if d := math.Abs(math.Log(points / float64(n))); d < off {
				k, of, off = i, j, d
			}
		}
	}
	return k, of
}
