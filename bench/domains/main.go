// Domains computes what bench/domains.py asks for, through the calls that any program makes. It reads
// a request from standard input and writes the results to standard output, both as JSON.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"os"
	"strings"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/autodiff"
	"github.com/weft-run/weft/workload/clifford"
	"github.com/weft-run/weft/workload/enumerative"
	"github.com/weft-run/weft/workload/network"
	"github.com/weft-run/weft/workload/relativity"
)

// request lists the computations.
type request struct {
	Devices  string
	Products []struct {
		P, Q  int
		X, Y  []float32
		Angle float64   // of the rotor
		Plane []float64 // of the rotor
	}
	Expressions []struct {
		Text      string
		Variables []string
		Points    []float64
	}
	Graphs []struct {
		Text     string // edges from and to nodes
		Features workload.Matrix
		Weights  []workload.Matrix
		K        int
	}
	Orbits     [][2]float64 // p and e
	Impacts    []float64
	Events     []float64
	Velocities []float64
	Integrals  []enumerative.Config
	Curves     []int // degrees
}

func main() {
	out, err := compute(context.Background())
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// result is the results of each part of a request, by its name.
type result map[string][]any

func compute(ctx context.Context) (result, error) {
	var r request
	if err := json.NewDecoder(os.Stdin).Decode(&r); err != nil {
		return nil, fmt.Errorf("domains: the request on standard input: %w", err)
	}
	funcs := map[string]weft.Func{}
	for _, f := range []map[string]weft.Func{clifford.Funcs(), autodiff.Funcs(), network.Funcs(), relativity.Funcs(), enumerative.Funcs()} {
		maps.Copy(funcs, f)
	}
	rt, err := weft.Open(ctx, weft.Options{Devices: r.Devices, Funcs: funcs, NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		return nil, err
	}
	defer rt.Close()
	out := result{}
	for _, part := range []func(context.Context, *weft.Runtime, *request, result) error{algebras, derivatives, graphs, spacetime, counts} {
		if err := part(ctx, rt, &r, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (r result) add(name string, v any) { r[name] = append(r[name], v) }

func algebras(ctx context.Context, rt *weft.Runtime, r *request, out result) error {
	for _, p := range r.Products {
		a, err := clifford.NewAlgebra(p.P, p.Q)
		if err != nil {
			return err
		}
		rotor, err := a.Rotor(p.Angle, p.Plane)
		if err != nil {
			return err
		}
		product, err := clifford.Mul(ctx, rt, a, p.X, p.Y)
		if err != nil {
			return err
		}
		turned, err := clifford.Turn(ctx, rt, a, rotor, p.X)
		if err != nil {
			return err
		}
		exp := make([]float64, a.Size())
		if err := a.Exp(exp, p.Plane); err != nil {
			return err
		}
		var blades []string
		for i := range a.Size() {
			blades = append(blades, a.Blade(i))
		}
		out.add("products", map[string]any{"blades": blades, "product": product, "turned": turned, "exp": exp})
	}
	return nil
}

func derivatives(ctx context.Context, rt *weft.Runtime, r *request, out result) error {
	for _, e := range r.Expressions {
		f, err := autodiff.Parse(e.Text, e.Variables...)
		if err != nil {
			return err
		}
		values, gradients, err := autodiff.Gradient(ctx, rt, f, e.Points)
		if err != nil {
			return err
		}
		out.add("expressions", map[string]any{"values": values, "gradients": gradients})
	}
	return nil
}

func graphs(ctx context.Context, rt *weft.Runtime, r *request, out result) error {
	for _, q := range r.Graphs {
		g, err := network.Read(strings.NewReader(q.Text), network.Edges, "")
		if err != nil {
			return err
		}
		both := g.Undirected()
		ranks, err := network.Rank(ctx, rt, g, network.Config{Tolerance: 1e-13})
		if err != nil {
			return err
		}
		layers, err := network.Convolve(ctx, rt, both, q.Features, q.Weights...)
		if err != nil {
			return err
		}
		res := map[string]any{"ranks": ranks, "layers": layers.Data}
		if q.K > 0 {
			if res["closeness"], err = network.Close(ctx, rt, both); err != nil {
				return err
			}
			if res["medoids"], res["labels"], err = network.Cluster(ctx, rt, both, network.Config{K: q.K}); err != nil {
				return err
			}
		}
		out.add("graphs", res)
	}
	return nil
}

func spacetime(ctx context.Context, rt *weft.Runtime, r *request, out result) error {
	var particles []relativity.Particle
	for _, o := range r.Orbits {
		p, err := relativity.Periapsis(o[0], o[1], 4096)
		if err != nil {
			return err
		}
		particles = append(particles, p)
	}
	orbits, err := relativity.Follow(ctx, rt, particles, relativity.Config{})
	if err != nil {
		return err
	}
	for _, o := range orbits {
		out.add("orbits", o)
	}
	rays, err := relativity.Bend(ctx, rt, r.Impacts, 0)
	if err != nil {
		return err
	}
	for _, ray := range rays {
		out.add("rays", ray.Deflection)
	}
	boosted, err := relativity.Boost(ctx, rt, r.Events, r.Velocities)
	if err != nil {
		return err
	}
	products, err := relativity.Minkowski(ctx, rt, boosted, boosted)
	out.add("boosts", map[string]any{"boosted": boosted, "products": products})
	return err
}

func counts(ctx context.Context, rt *weft.Runtime, r *request, out result) error {
	put := func(name string, n *big.Int, err error) error {
		if err == nil {
			out.add(name, n.String())
		}
		return err
	}
	for _, c := range r.Integrals {
		n, err := enumerative.Of(ctx, rt, c)
		if err := put("integrals", n, err); err != nil {
			return err
		}
	}
	for _, d := range r.Curves {
		n, err := enumerative.CurvesOf(ctx, rt, d)
		if err := put("curves", n, err); err != nil {
			return err
		}
	}
	return nil
}
