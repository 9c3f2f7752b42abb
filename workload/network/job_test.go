package network_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/network"
)

// numbers are the results of a job.
func numbers(j workload.Job) []byte {
	switch j := j.(type) {
	case *network.RankJob:
		return slices.Concat(workloadtest.Bytes(j.Given()), workloadtest.Bytes([]float64{j.Residual()}))
	case *network.LayersJob:
		return workloadtest.Bytes(j.Result(1).Data)
	}
	d := j.(*network.DistanceJob)
	if c := d.Closeness(); c != nil {
		return slices.Concat(workloadtest.Bytes(d.Distances().Data), workloadtest.Bytes(c))
	}
	medoids, labels := d.Medoids()
	return slices.Concat(workloadtest.Bytes(medoids), workloadtest.Bytes(labels))
}

var configs = []network.Config{
	{Problem: network.PageRank, Nodes: 700, Steps: 7, Seed: 1},
	{Problem: network.PageRank, Graph: "miserables", Steps: 1},
	{Problem: network.PageRank, Graph: "davis", Steps: 2},
	{Problem: network.Layers, Nodes: 250, Edges: 5, Features: 45, Seed: 2},
	{Problem: network.Layers, Graph: "karate", Features: 8, Layers: 3},
	{Problem: network.Closeness, Nodes: 101, Seed: 3},
	{Problem: network.Closeness, Graph: "davis"},
	{Problem: network.Medoids, Nodes: 101, K: 5, Steps: 3, Seed: 4},
	{Problem: network.Medoids, Graph: "miserables", K: 3, Steps: 2},
}

func TestJobOnDevices(t *testing.T) {
	for _, c := range configs {
		workloadtest.Invariant(t, network.Funcs(), func() (workload.Job, error) { return network.New(c) }, numbers)
	}
}

// reference holds the results of networkx and numpy: see testdata/README.md.
type reference struct {
	Ranks, Closeness, Layer []float64
	Medoids, Labels         []int
	Edges                   [][2]int
}

func references(t *testing.T) map[string]reference {
	t.Helper()
	text, err := os.ReadFile("testdata/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]reference
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func open(t *testing.T, name string) *network.Graph {
	t.Helper()
	return workloadtest.New[*network.Graph](t)(network.Open(name, ""))
}

func near(t *testing.T, what string, got, want []float64, within float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, want %d", what, len(got), len(want))
	}
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= within) {
			t.Errorf("%s: number %d is %v, want %v", what, i, got[i], want[i])
			return
		}
	}
}

// Ranks are those of networkx, with weights, with nodes that have no edges, and directed.
func TestRanks(t *testing.T) {
	rt := workloadtest.Open(t, 2, network.Funcs())
	for name, want := range references(t) {
		var g *network.Graph
		if name == "directed" {
			var text strings.Builder
			fmt.Fprintln(&text, "%%MatrixMarket matrix coordinate pattern general")
			fmt.Fprintln(&text, len(want.Ranks), len(want.Ranks), len(want.Edges))
			for _, e := range want.Edges {
				fmt.Fprintln(&text, e[0]+1, e[1]+1)
			}
			g = workloadtest.New[*network.Graph](t)(network.Read(strings.NewReader(text.String()), "", ""))
		} else {
			g = open(t, name)
		}
		got, err := network.Rank(t.Context(), rt, g, network.Config{Tolerance: 1e-13})
		if err != nil {
			t.Fatal(err)
		}
		near(t, name, got, want.Ranks, 1e-12)
	}
}

// features are numbers that bench/network.py makes too.
func features(rows, cols int) workload.Matrix {
	m := workload.Matrix{Rows: rows, Cols: cols}
	for i := range rows {
		for j := range cols {
			m.Data = append(m.Data, float32((7*i+3*j)%11-5)/8)
		}
	}
	return m
}

// Two layers of different widths are those of dense matrices.
func TestLayers(t *testing.T) {
	rt := workloadtest.Open(t, 3, network.Funcs())
	for name, want := range references(t) {
		if name == "directed" {
			continue
		}
		g := open(t, name)
		got, err := network.Convolve(t.Context(), rt, g, features(g.Rows(), 5), features(5, 3), features(3, 4))
		if err != nil {
			t.Fatal(err)
		}
		var numbers []float64
		for _, v := range got.Data {
			numbers = append(numbers, float64(v))
		}
		near(t, name, numbers, want.Layer, 1e-6)
	}
}

// Closeness and medoids are those of networkx and numpy.
func TestDistances(t *testing.T) {
	rt := workloadtest.Open(t, 2, network.Funcs())
	for name, want := range references(t) {
		if name == "directed" {
			continue
		}
		g := open(t, name)
		got, err := network.Close(t.Context(), rt, g)
		if err != nil {
			t.Fatal(err)
		}
		var numbers []float64
		for _, v := range got {
			numbers = append(numbers, float64(v))
		}
		near(t, name, numbers, want.Closeness, 1e-6)
		medoids, labels, err := network.Cluster(t.Context(), rt, g, network.Config{K: 3})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(medoids, want.Medoids, func(a uint32, b int) bool { return int(a) == b }) ||
			!slices.EqualFunc(labels, want.Labels, func(a uint32, b int) bool { return int(a) == b }) {
			t.Errorf("%s: medoids %v and labels %v, want %v and %v", name, medoids, labels, want.Medoids, want.Labels)
		}
	}
	if _, _, err := network.Cluster(t.Context(), rt, open(t, "karate"), network.Config{K: 35}); !errors.Is(err, workload.ErrConfig) {
		t.Errorf("35 medoids of 34 nodes: %v", err)
	}
}

// Whichever node is in the middle of a star is the medoid of all, and of two stars both are: no
// node is left out.
func TestEveryNodeIsAMedoid(t *testing.T) {
	rt := workloadtest.Open(t, 2, network.Funcs())
	for at := range uint32(66) {
		var text strings.Builder
		for i := range uint32(66) {
			if i != at {
				fmt.Fprintln(&text, at, i)
			}
		}
		star := workloadtest.New[*network.Graph](t)(network.Read(strings.NewReader(text.String()), "", ""))
		medoids, labels, err := network.Cluster(t.Context(), rt, star, network.Config{K: 1})
		if err != nil || medoids[0] != at || slices.Max(labels) != 0 {
			t.Errorf("the medoid of a star around %d is %v, labels %v: %v", at, medoids, labels, err)
		}
	}
	const n = 9
	for at := range uint32(n) { // two stars with a path between them
		other := (at + n/2) % n
		var text strings.Builder
		for i := range uint32(n) {
			switch i {
			case at, other:
			default:
				fmt.Fprintln(&text, []uint32{at, other}[i%2], i)
			}
		}
		fmt.Fprintln(&text, at, n)
		fmt.Fprintln(&text, n, n+1)
		fmt.Fprintln(&text, n+1, other)
		stars := workloadtest.New[*network.Graph](t)(network.Read(strings.NewReader(text.String()), "", ""))
		medoids, _, err := network.Cluster(t.Context(), rt, stars, network.Config{K: 2})
		slices.Sort(medoids)
		if err != nil || !slices.Equal(medoids, []uint32{min(at, other), max(at, other)}) {
			t.Errorf("the medoids of stars around %d and %d are %v: %v", at, other, medoids, err)
		}
	}
}

// Nodes that nothing joins are far, and closeness counts the part that is reached.
func TestParts(t *testing.T) {
	rt := workloadtest.Open(t, 2, network.Funcs())
	g := workloadtest.New[*network.Graph](t)(network.Read(strings.NewReader("0 1\n1 2\n3 4\n5 5\n"), "", ""))
	got, err := network.Close(t.Context(), rt, g)
	if err != nil {
		t.Fatal(err)
	}
	// networkx.closeness_centrality
	want := []float32{2. / 3 * 2 / 5, 1. * 2 / 5, 2. / 3 * 2 / 5, 1. / 5, 1. / 5, 0}
	if !slices.EqualFunc(got, want, func(a, b float32) bool { return math.Abs(float64(a-b)) < 1e-6 }) {
		t.Errorf("closeness %v, want %v", got, want)
	}
}

// A wrong number is found, in the last step and before it.
func TestCheckFinds(t *testing.T) {
	for _, c := range configs[:2] {
		j := workloadtest.New[workload.Job](t)(network.New(c)).(*network.RankJob)
		workloadtest.Finds(t, network.Funcs(), j, "rank", func() { j.Given()[17] *= 1 + 1e-12 }, network.ErrWrong)
		workloadtest.Finds(t, network.Funcs(), j, "rank that is not a number", func() { j.Given()[3] = math.NaN() }, network.ErrWrong)
	}
	j := workloadtest.New[workload.Job](t)(network.New(configs[3])).(*network.LayersJob)
	last := j.Result(1).Data
	workloadtest.Finds(t, network.Funcs(), j, "feature", func() { last[500] += 1e-4 }, network.ErrWrong)
	workloadtest.Finds(t, network.Funcs(), j, "feature of the first layer", func() { j.Result(0).Data[40] += 1e-4 }, network.ErrWrong)
}

// A wrong distance, closeness, medoid or label is found.
func TestCheckFindsDistances(t *testing.T) {
	for _, c := range configs[5:] {
		j := workloadtest.New[workload.Job](t)(network.New(c)).(*network.DistanceJob)
		find := func(what string, spoil func()) {
			workloadtest.Finds(t, network.Funcs(), j, what, spoil, network.ErrWrong)
		}
		find("distance", func() { j.Distances().Data[77] += 1e-5 })
		if c.Problem == network.Closeness {
			find("closeness", func() { j.Closeness()[9] *= 1 + 1e-4 })
			continue
		}
		medoids, labels := j.Medoids()
		find("medoid", func() { medoids[1] = (medoids[1] + 1) % 70 })
		find("sum that does not change a medoid", func() { j.Sums()[33] *= 1.0001 })
		find("label", func() { labels[60] = (labels[60] + 1) % 3 })
		find("medoid to begin with", func() { j.Start()[0]++ })
	}
}

// Too few steps are an error, and calls take as many steps as are needed.
func TestUnfinished(t *testing.T) {
	rt := workloadtest.Open(t, 1, network.Funcs())
	j := workloadtest.New[workload.Job](t)(network.New(network.Config{Problem: network.PageRank, Nodes: 300, Steps: 3})).(*network.RankJob)
	workloadtest.Run(t, rt, j)
	if err := j.Unfinished(); !errors.Is(err, network.ErrUnfinished) {
		t.Errorf("3 steps: %v", err)
	}
	if err := j.Check(); err != nil {
		t.Error(err)
	}
	g := workloadtest.New[*network.Graph](t)(network.RMAT(300, 8, 1))
	ranks, err := network.Rank(t.Context(), rt, g, network.Config{Damping: 0.99, Tolerance: 1e-12})
	sum := 0.
	for _, r := range ranks {
		sum += r
	}
	if err != nil || math.Abs(sum-1) > 1e-12 {
		t.Errorf("ranks have a sum of %v: %v", sum, err)
	}
}

// The check takes closeness where a node reaches one other, one edge away.
func TestPairs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pairs.txt")
	if err := os.WriteFile(file, []byte("0 1\n2 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	j := workloadtest.New[workload.Job](t)(network.New(network.Config{Problem: network.Closeness, Graph: file})).(*network.DistanceJob)
	workloadtest.Run(t, workloadtest.Open(t, 1, network.Funcs()), j)
	if err := j.Check(); err != nil {
		t.Error(err)
	}
	// networkx.closeness_centrality
	if got := j.Closeness(); !slices.Equal(got, []float32{1. / 3, 1. / 3, 1. / 3, 1. / 3}) {
		t.Errorf("closeness %v, want 1/3", got)
	}
}

// Weights of layers have a row for each feature before them, and a column at least.
func TestConvolveRefuses(t *testing.T) {
	rt := workloadtest.Open(t, 1, network.Funcs())
	g := open(t, "karate")
	for _, c := range []struct {
		features int
		weights  workload.Matrix
		good     bool
	}{
		{3, features(3, 2), true}, {3, features(2, 2), false}, {3, features(3, 0), false}, {0, features(0, 2), false},
		{1, features(1, 1024), true}, {1, features(1, 1025), false}, {1025, features(1025, 1), false},
	} {
		_, err := network.Convolve(t.Context(), rt, g, features(g.Rows(), c.features), c.weights)
		if (err == nil) != c.good || err != nil && !errors.Is(err, workload.ErrConfig) {
			t.Errorf("%d features, weights %d × %d: %v", c.features, c.weights.Rows, c.weights.Cols, err)
		}
	}
}

func TestRefused(t *testing.T) {
	for want, c := range map[string]network.Config{
		"no problem":         {Problem: "x", Nodes: 10},
		"name one":           {Problem: network.PageRank},
		"2 to":               {Problem: network.PageRank, Nodes: 1},
		"edges for each":     {Problem: network.PageRank, Nodes: 10, Edges: -1},
		"only graphs that":   {Problem: network.PageRank, Graph: "karate", Edges: 3},
		"steps":              {Problem: network.PageRank, Nodes: 10, Steps: -1},
		"it has none":        {Problem: network.Layers, Nodes: 10, Steps: 3},
		"above 0":            {Problem: network.PageRank, Nodes: 10, Damping: 1},
		"positive":           {Problem: network.PageRank, Nodes: 10, Tolerance: math.NaN()},
		"no damping":         {Problem: network.Layers, Nodes: 10, Damping: 0.5},
		"layers of":          {Problem: network.Layers, Nodes: 10, Layers: -2},
		"no layers":          {Problem: network.PageRank, Nodes: 10, Layers: 2},
		"medoids of":         {Problem: network.Medoids, Nodes: 10, K: 11},
		"no medoids":         {Problem: network.Layers, Nodes: 10, K: 1},
		"2 to 32768":         {Problem: network.Closeness, Nodes: 1 << 20},
		"no such file":       {Problem: network.PageRank, Graph: "none"},
		"shipped graphs are": {Problem: network.PageRank, Graph: "none"},
	} {
		if _, err := network.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		} else if c.Graph != "none" && !errors.Is(err, workload.ErrConfig) {
			t.Errorf("%+v: %v is no workload.ErrConfig", c, err)
		}
	}
	// The limits that these name are taken.
	for _, c := range []network.Config{
		{Problem: network.PageRank, Nodes: 2, Edges: 1}, {Problem: network.Closeness, Nodes: 2}, {Problem: network.Closeness, Nodes: 32768}, {Problem: network.Medoids, Nodes: 10, K: 10},
	} {
		if err := c.Validate(); err != nil {
			t.Error(err)
		}
	}
}
