package network_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/network"
)

// listed is a line of a file.
type listed struct {
	from, to int
	weight   float64
}

// listing is a file of edges of which some are repeated, in one of the formats that may have those.
type listing struct {
	format              string // "edges" or a MatrixMarket field
	nodes               int
	weighted, symmetric bool
	lines               []listed
}

// drawListing draws a listing: few nodes, so that edges are repeated, with one another and turned round, and
// some from a node to itself. Weights are multiples of an eighth, so that their sums are exact.
func drawListing(r *rand.Rand) listing {
	l := listing{nodes: 1 + r.IntN(6), weighted: r.IntN(3) > 0, symmetric: r.IntN(2) == 0}
	if l.format = network.MatrixMarket; !l.symmetric && r.IntN(2) == 0 {
		l.format = network.Edges
	}
	for range 1 + r.IntN(20) {
		e := listed{r.IntN(l.nodes), r.IntN(l.nodes), 1}
		if l.weighted {
			e.weight = float64(1+r.IntN(80)) / 8
		}
		l.lines = append(l.lines, e)
	}
	return l
}

func (l listing) text() string {
	var b strings.Builder
	first := 0
	if l.format == network.MatrixMarket {
		field, symmetry := "pattern", "general"
		if l.weighted {
			field = "real"
		}
		if l.symmetric {
			symmetry = "symmetric"
		}
		first = 1
		fmt.Fprintf(&b, "%%%%MatrixMarket matrix coordinate %s %s\n%d %d %d\n", field, symmetry, l.nodes, l.nodes, len(l.lines))
	}
	for _, e := range l.lines {
		fmt.Fprint(&b, e.from+first, " ", e.to+first)
		if l.weighted {
			fmt.Fprint(&b, " ", e.weight)
		}
		fmt.Fprintln(&b)
	}
	return b.String()
}

// dense is the matrix that a listing describes, by a table with all its entries, and how many lines are
// repeated.
func (l listing) dense(rule network.Repeated) (of [][]float64, repeated int) {
	of = make([][]float64, l.nodes)
	for i := range of {
		of[i] = make([]float64, l.nodes)
	}
	put := func(i, j int, w float64) {
		if rule == network.RepeatedLast {
			of[i][j] = 0
		}
		of[i][j] += w
	}
	for _, e := range l.lines {
		if of[e.from][e.to] > 0 {
			repeated++
		}
		if put(e.from, e.to, e.weight); l.symmetric && e.from != e.to {
			put(e.to, e.from, e.weight)
		}
	}
	return of, repeated
}

// A matrix has for every entry the sum of what the lines of a file say of it, or the last, in every format
// and order of lines; where an entry is repeated is known.
func TestRepeated(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	seen := map[string]int{}
	for range 2000 {
		l := drawListing(r)
		for _, rule := range []network.Repeated{"", network.RepeatedSum, network.RepeatedLast, network.RepeatedError} {
			want, repeated := l.dense(rule)
			g, err := network.Read(strings.NewReader(l.text()), "", rule)
			if rule == network.RepeatedError && repeated > 0 {
				if !errors.Is(err, network.ErrGraph) || !strings.Contains(err.Error(), "leave all but one out") || strings.Contains(err.Error(), "\n") {
					t.Fatalf("%s: %v", l.text(), err)
				}
				continue
			}
			if err != nil {
				t.Fatalf("%s: %v", l.text(), err)
			}
			got := make([][]float64, g.Rows())
			for i := range got {
				got[i] = make([]float64, l.nodes)
				columns, values := g.Row(i)
				for k, c := range columns {
					if got[i][c] = 1; values != nil {
						got[i][c] = values[k]
					}
				}
			}
			want = want[:g.Rows()] // a list of edges says nothing of nodes behind the last that it names
			if fmt.Sprint(got) != fmt.Sprint(want) || g.Repeated != repeated {
				t.Fatalf("%q of\n%s is %v with %d repeated, want %v with %d", rule, l.text(), got, g.Repeated, want, repeated)
			}
			seen[fmt.Sprint(l.format, l.weighted, l.symmetric, repeated > 0)]++
		}
	}
	if len(seen) != 3*2*2 {
		t.Errorf("only %v were drawn", seen)
	}
}

// Weights of repeated edges have the same sum, to the last bit, in every order of lines.
func TestRepeatedInAnyOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 2))
	lines := make([]string, 50)
	for i := range lines {
		lines[i] = fmt.Sprintf("%d %d %v\n", i%2, i%3, r.ExpFloat64())
	}
	var want string
	for range 50 {
		r.Shuffle(len(lines), func(i, k int) { lines[i], lines[k] = lines[k], lines[i] })
		g := workloadtest.New[*network.Graph](t)(network.Read(strings.NewReader(strings.Join(lines, "")), "", ""))
		if got := rows(g); want == "" {
			want = got
		} else if got != want {
			t.Fatalf("%s in one order and %s in another", want, got)
		}
	}
}

// Jobs follow the rule, say how many repeated edges there were, and keep results of their own rule.
func TestRepeatedInJobs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "edges.txt")
	if err := os.WriteFile(file, []byte("0 1 1\n0 2 1\n1 0 1\n2 0 1\n0 1 3\n0 2 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		problem, said string
		rule          network.Repeated
	}{
		{network.PageRank, "edges.txt, 4 edges (2 repeated, whose weights are added)", ""},
		{network.PageRank, "edges.txt, 4 edges (2 repeated, of which the last count)", network.RepeatedLast},
		{network.Layers, "edges.txt, 4 edges (2 repeated, whose weights are added)", network.RepeatedSum},
		{network.Closeness, "edges.txt, 3 nodes, 2 repeated edges", ""},
		{network.Medoids, "edges.txt, 3 nodes, 2 repeated edges", ""},
	} {
		config := network.Config{Problem: c.problem, Graph: file, Repeated: c.rule}
		if c.problem == network.Medoids {
			config.K = 2
		}
		j, err := network.New(config)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(j.Name(), c.said) {
			t.Errorf("%s by %q: %q, want %q", c.problem, c.rule, j.Name(), c.said)
		}
		workloadtest.Run(t, workloadtest.Open(t, 2, network.Funcs()), j)
		if err := j.Check(); err != nil {
			t.Error(err)
		}
		if rank, ok := j.(*network.RankJob); ok {
			// A third of node 0's weights leads to node 2 with sums, a fourth with last ones.
			ranks := rank.Ranks()
			want := map[network.Repeated]float64{"": 4. / 2, network.RepeatedLast: 3. / 1}[c.rule]
			if got := (ranks[1] - 0.05) / (ranks[2] - 0.05); got < want-1e-3 || got > want+1e-3 {
				t.Errorf("by %q node 1 gets %v times what node 2 gets from node 0, want %v", c.rule, got, want)
			}
		}
	}
	for want, c := range map[string]network.Config{
		"is there 2 times":       {Problem: network.PageRank, Graph: file, Repeated: network.RepeatedError},
		`by "first": use sum`:    {Problem: network.PageRank, Graph: file, Repeated: "first"},
		"only graphs in files":   {Problem: network.PageRank, Nodes: 10, Repeated: network.RepeatedSum},
		`edges by "x": use sum,`: {Problem: network.Layers, Graph: "karate", Repeated: "x"},
	} {
		if _, err := network.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
	if _, err := network.Read(strings.NewReader("0 1\n"), "", "x"); !errors.Is(err, workload.ErrConfig) {
		t.Errorf("a rule that there is none of: %v", err)
	}
}
