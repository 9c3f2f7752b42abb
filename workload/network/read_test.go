package network_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload/network"
)

// row is a row of a graph as text, as in "0 3:2.5".
func row(g *network.Graph, i int) string {
	columns, values := g.Row(i)
	var out []string
	for k, c := range columns {
		if values == nil {
			out = append(out, fmt.Sprint(c))
		} else {
			out = append(out, fmt.Sprintf("%d:%v", c, values[k]))
		}
	}
	return strings.Join(out, " ")
}

func rows(g *network.Graph) string {
	var out []string
	for i := range g.Rows() {
		out = append(out, row(g, i))
	}
	return strings.Join(out, "/")
}

func TestRead(t *testing.T) {
	for _, c := range []struct{ format, text, want string }{
		{"", "0 1\n1\t2\n", "1/2/"},
		{"", "# one\n% two\n\n 2,0\r\n0 1\n", "1//0"},
		{"", "# one\n% two\n\n 2,0\r\n0 1\n0 1", "1:2//0:1"},
		{network.Edges, "0 1 2.5\n1 0 1e3\n0 1 4", "1:6.5/0:1000"},
		{"", "%%MatrixMarket matrix coordinate real symmetric\n2 2 3\n2 1 3\n1 1 5\n1 2 4\n", "0:5 1:7/0:7"},
		{"", "3 3", "///3"},
		{"", "%%MatrixMarket matrix coordinate pattern symmetric\n% of three\n\n3 3 3\n2 1\n3 3\n3 1\n", "1 2/0/0 2"},
		{"", "%%matrixmarket Matrix Coordinate Real General\n2 2 1\n1 2 0.5\n", "1:0.5/"},
		{"", "%%MatrixMarket matrix coordinate integer general\n2 2 0\n", "/"},
		{network.Metis, "% four\n4 3\n2\n1 3 4\n2\n%\n2\n\n", "1/0 2 3/1/1"},
		{network.Metis, "3 1\n2\n1\n\n", "1/0/"},
		{network.Metis, "2 1 111 2\n9 5 6 2 0.5\n9 5 6 1 0.5\n", "1:0.5/0:0.5"},
		{network.Metis, "2 1 10\n7 2\n7 1", "1/0"},
		{"", "\ufeff0 1\n", "1/"},
		{network.Edges, "\ufeff# one\r\n0 1 2.5\r\n", "1:2.5/"},
		{"", "\ufeff%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n", "1/"},
		{network.Metis, "\ufeff2 1\n2\n1\n", "1/0"},
	} {
		g, err := network.Read(strings.NewReader(c.text), c.format, "")
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
		} else if got := rows(g); got != c.want {
			t.Errorf("%q is %q, want %q", c.text, got, c.want)
		}
	}
}

// Every mistake is refused with the line it is in.
func TestReadRefuses(t *testing.T) {
	const mtx, pattern = "%%MatrixMarket matrix coordinate real general\n", "%%MatrixMarket matrix coordinate pattern general\n"
	for _, c := range []struct{ format, text, want string }{
		{"", "", "line 0: bad graph: there are no edges"},
		{"", "0 1\n\n0 x", `line 3: bad graph: the second node is "x": it must be a whole number from 0 to`},
		{"", "0", "line 1: bad graph: the second node is missing"},
		{"", "0 -1", `line 1: bad graph: the second node is "-1"`},
		{"", "0 99999999999999999999", "line 1: bad graph: the second node"},
		{"", "0 1\n0 1 2", "line 2: bad graph: some edges have weights"},
		{"", "0 1 2\n0 1", "line 2: bad graph: some edges have weights"},
		{"", "0 1 0", `line 1: bad graph: the weight is "0": it must be a positive`},
		{"", "0 1 NaN", "positive finite"},
		{"", "0 1 1e999", "positive finite"},
		{"", "0 1 1 1", `line 1: bad graph: "1" is too much`},
		{"", "0 100000000", "nearly all without an edge"},
		{"", "%%MatrixMarket matrix array real general\n", "line 1: bad graph: it must be %%MatrixMarket matrix coordinate"},
		{"", "%%MatrixMarket matrix coordinate complex general\n", `entries are "complex"`},
		{"", "%%MatrixMarket matrix coordinate real hermitian\n", `the matrix is "hermitian"`},
		{"", mtx, "sizes is missing"},
		{"", mtx + "2 3 1\n1 1 1\n", "line 2: bad graph: 2 rows and 3 columns"},
		{"", mtx + "0 0 0\n", "the number of rows"},
		{"", mtx + "2 2\n", "the number of entries is missing"},
		{"", mtx + "2 2 1 1\n", `"1" is too much`},
		{"", mtx + "2 2 2000000000\n1 1 1\n", "promises 2000000000 entries, and the file has room for 1"},
		{"", mtx + "134217728 134217728 1\n1 1 1\n", "nearly all without an edge"},
		{"", mtx + "2 2 1\n1 3 1\n", `line 3: bad graph: the column is "3"`},
		{"", mtx + "2 2 1\n0 1 1\n", `line 3: bad graph: the row is "0"`},
		{"", mtx + "2 2 1\n1 1\n", "line 3: bad graph: the weight is missing"},
		{"", pattern + "2 2 1\n1 1 5\n", `line 3: bad graph: "5" is too much`},
		{"", pattern + "2 2 1\n1 1\n2 2\n", "line 4: bad graph: there are more than the 1"},
		{"", pattern + "2 2 2\n1 1     \n", "the file ends after 1 of 2 entries"},
		{network.Metis, "", "sizes is missing"},
		{network.Metis, "2", "the number of edges is missing"},
		{network.Metis, "2 1 2\n2\n1\n", "the form is"},
		{network.Metis, "2 1 11 0\n2\n1\n", "the number of weights"},
		{network.Metis, "1000000 1\n2\n1\n", "promises 1000000 nodes"},
		{network.Metis, "2 1000000\n2\n1\n", "promises 1000000 edges"},
		{network.Metis, "2 1\n2\n1\n2\n", "line 4: bad graph: there are more than the 2 nodes"},
		{network.Metis, "3 1\n2\n1  \n", "the file ends after 2 of 3 nodes"},
		{network.Metis, "2 1\n2\n3\n", `line 3: bad graph: a neighbour is "3"`},
		{network.Metis, "2 1\n1\n1\n", "line 2: bad graph: node 1 is its own neighbour"},
		{network.Metis, "3 1\n2\n1 3\n2\n", "more than the 1 edge that"},
		{network.Metis, "3 2 \n2\n1 \n\n   ", "lists 2 ends"},
		{network.Metis, "3 1\n2\n3\n\n", "at both"},
		{network.Metis, "2 1 1\n2 5\n1 6\n", "with one weight"},
		{network.Metis, "2 1 1\n2\n1 6\n", "line 2: bad graph: the weight is missing"},
		{network.Metis, "2 1 10\n\n7 1\n", "line 2: bad graph: a weight of the node is missing"},
		{network.Metis, "2 2\n2 2\n1 1\n", "an edge is listed twice"},
		{"", "0 1 1e308\n1 0 1\n0 1 1e308\n", "the edge from node 0 to node 1 is there 2 times: the weights add up to more than"},
		{"gml", "", `no format "gml"`},
	} {
		g, err := network.Read(strings.NewReader(c.text), c.format, "")
		if err == nil || !errors.Is(err, network.ErrGraph) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, %v; want %q", c.text, g, err, c.want)
		}
	}
}

// Shipped graphs have their known numbers of nodes and edges, and a file gives the graph in it.
func TestOpen(t *testing.T) {
	for name, want := range map[string][2]int{"karate": {34, 2 * 78}, "miserables": {77, 2 * 254}, "davis": {32, 2 * 89}} {
		g := open(t, name)
		if g.Rows() != want[0] || g.Nonzeros() != want[1] || g.Undirected() != g {
			t.Errorf("%s has %d nodes and %d edges, want %v", name, g.Rows(), g.Nonzeros(), want)
		}
		if !slices.Contains(network.Shipped(), name) {
			t.Errorf("%s is not among %v", name, network.Shipped())
		}
	}
	file := filepath.Join(t.TempDir(), "two.metis")
	if err := os.WriteFile(file, []byte("2 1\n2\n1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if g := open(t, file); rows(g) != "1/0" || g.Name != "two.metis" {
		t.Errorf("%s: %q", g.Name, rows(g))
	}
}

// endless is a text without an end, which counts how much of it was read.
type endless struct {
	begin string
	then  byte
	read  int
}

func (e *endless) Read(b []byte) (int, error) {
	n := copy(b, e.begin)
	e.begin = e.begin[n:]
	for i := range b[n:] {
		b[n+i] = e.then
	}
	e.read += len(b)
	return len(b), nil
}

// What is no text, or has a first line without an end, is refused before all of it is read.
func TestEndless(t *testing.T) {
	for _, c := range []struct {
		begin string
		then  byte
		want  string
	}{
		{"", 0, "line 1: bad graph: it has a byte that is zero"},
		{"0 1\n1 2\n", 0, "line 3: bad graph: it has a byte that is zero"},
		{"0 1", ' ', "line 1: bad graph: it has more than 1048576 bytes"},
		{"", '1', "line 1: bad graph: it has more than 1048576 bytes"},
	} {
		e := &endless{begin: c.begin, then: c.then}
		_, err := network.Read(e, "", "")
		if !errors.Is(err, network.ErrGraph) || !strings.Contains(err.Error(), c.want) || e.read > 8<<20 {
			t.Errorf("%q and then %q: %v after %d bytes, want %q", c.begin, c.then, err, e.read, c.want)
		}
	}
	if _, err := network.Open("/dev/zero", ""); err == nil {
		t.Error("/dev/zero is a graph")
	}
	long := "0 1\n# " + strings.Repeat("x", 3<<20) + "\n1 2\n" // of later lines any may be long
	if g, err := network.Read(strings.NewReader(long), "", ""); err != nil || g.Nonzeros() != 2 {
		t.Errorf("%v, %v", g, err)
	}
	if g, err := network.Read(iotest.OneByteReader(strings.NewReader("0 1\n1 2\n")), "", ""); err != nil || g.Nonzeros() != 2 {
		t.Errorf("byte by byte: %v, %v", g, err)
	}
}

// The list of the edges of a graph that is drawn counts as memory.
func TestBytesOfEdges(t *testing.T) {
	c := network.Config{Problem: network.PageRank, Nodes: network.MaxNodes}
	if got, least := c.Bytes(), 12.*16*network.MaxNodes+8*network.MaxNodes; got < least {
		t.Errorf("%.4g bytes, and drawing takes %.4g", got, least)
	}
}

// What a header promises counts as memory before the file is read.
func TestPromised(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.mtx":   "%%MatrixMarket matrix coordinate pattern symmetric\n% x\n1000000 1000000 1000000000\n1 1\n",
		"b.graph": "% x\n1000000 1000000000\n",
		"c.mtx":   "\ufeff%%MatrixMarket matrix coordinate pattern general\n1000000 1000000 1000000000\n1 1\n",
		"d.graph": "\ufeff1000000 1000000000\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := (network.Config{Problem: network.PageRank, Graph: file}).Bytes(); got < 8e9 {
			t.Errorf("%s takes %.3g bytes", name, got)
		}
		if _, err := network.Open(file, ""); !errors.Is(err, network.ErrGraph) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := (network.Config{Problem: network.PageRank, Graph: filepath.Join(dir, "none")}).Bytes(); got != 0 {
		t.Errorf("a file that is not there takes %v bytes", got)
	}
}

// Turned round, a graph has every edge the other way, and undirected both.
func TestTurned(t *testing.T) {
	g := workloadtest.New[*network.Graph](t)(network.Read(strings.NewReader("0 1 3\n1 0 5\n1 2 1\n3 3 2\n"), "", ""))
	if got, want := rows(g.Transposed()), "1:5/0:3/1:1/3:2"; got != want {
		t.Errorf("transposed %q, want %q", got, want)
	}
	if got, want := rows(g.Undirected()), "1:5/0:5 2:1/1:1/3:2"; got != want {
		t.Errorf("undirected %q, want %q", got, want)
	}
	if got := rows(g.Transposed().Transposed()); got != rows(g) {
		t.Errorf("twice %q", got)
	}
}

// R-MAT's edges are a function of the seed, its first rows have most of them, and numbers of
// nodes that are no powers of two are all used.
func TestRMAT(t *testing.T) {
	g := workloadtest.New[*network.Graph](t)(network.RMAT(1000, 16, 7))
	again := workloadtest.New[*network.Graph](t)(network.RMAT(1000, 16, 7))
	other := workloadtest.New[*network.Graph](t)(network.RMAT(1000, 16, 8))
	if rows(g) != rows(again) || rows(g) == rows(other) {
		t.Error("edges are not those of the seed")
	}
	if g.Rows() != 1000 || g.Nonzeros() < 8000 || g.Nonzeros() > 16000 {
		t.Errorf("%d nodes, %d edges", g.Rows(), g.Nonzeros())
	}
	// An edge begins in the first half with probability 0.57 + 0.19.
	if part := float64(g.Starts[500]) / float64(g.Nonzeros()); part < 0.65 || part > 0.8 {
		t.Errorf("%.3f of the edges begin in the first half", part)
	}
	if row(g, 0) == "" || slices.Max(g.Columns) < 900 {
		t.Errorf("node 0 leads to %q, and no edge beyond %d", row(g, 0), slices.Max(g.Columns))
	}
	for _, bad := range [][2]int{{1, 4}, {10, 0}, {1 << 28, 1}, {1 << 20, 1 << 20}} {
		if _, err := network.RMAT(bad[0], bad[1], 0); !errors.Is(err, network.ErrGraph) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{
		"0 1\n1 2\n", "# x\n0 1 2.5\n", "%%MatrixMarket matrix coordinate real symmetric\n3 3 2\n1 2 1\n3 3 1\n",
		"%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n", "3 2\n2\n1 3\n2\n", "2 1 111 2\n9 5 6 2 1\n9 5 6 1 1\n", "2 1 1\n2 5\n1 5\n",
		"\ufeff0 1\n1 2\n", "\ufeff%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n", "\ufeff3 2\n2\n1 3\n2\n", "\ufeff", "\ufeff\ufeff0 1\n",
	} {
		for format := range uint8(12) {
			f.Add(s, format)
		}
	}
	f.Fuzz(func(t *testing.T, text string, format uint8) {
		formats := []string{"", network.Edges, network.MatrixMarket, network.Metis}
		rules := []network.Repeated{network.RepeatedSum, network.RepeatedLast, network.RepeatedError}
		g, err := network.Read(strings.NewReader(text), formats[format%4], rules[format/4%3])
		if err != nil {
			if !errors.Is(err, network.ErrGraph) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%v", err)
			}
			return
		}
		if g.Rows() < 1 || int(g.Starts[g.Rows()]) != len(g.Columns) || g.Values != nil && len(g.Values) != len(g.Columns) {
			t.Fatalf("%d rows, %d columns, %d values", g.Rows(), len(g.Columns), len(g.Values))
		}
		if g.Rows() > 1000 {
			return
		}
		for i := range g.Rows() {
			columns, _ := g.Row(i)
			if !slices.IsSorted(columns) || len(slices.Compact(slices.Clone(columns))) != len(columns) || len(columns) > 0 && int(columns[len(columns)-1]) >= g.Rows() {
				t.Fatalf("row %d is %v", i, columns)
			}
		}
	})
}

// Weights whose sum cannot be divided by are refused where weights count, before anything is computed.
func TestWeights(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		good map[string]bool
	}{
		"huge":  {"0 1 1e308\n0 2 1e308\n1 0 1\n", map[string]bool{network.Closeness: true}},
		"large": {"0 1 1e300\n1 0 1\n", map[string]bool{network.Closeness: true}},
		"tiny":  {"0 1 5e-324\n1 0 5e-324\n", map[string]bool{network.Closeness: true}},
		"wide": {"0 1 1e200\n1 2 1e-200\n2 0 1\n",
			map[string]bool{network.PageRank: true, network.Layers: true, network.Closeness: true}},
	} {
		file := filepath.Join(t.TempDir(), "edges.txt")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, problem := range []string{network.PageRank, network.Layers, network.Closeness} {
			_, err := network.New(network.Config{Problem: problem, Graph: file})
			if c.good[problem] != (err == nil) || err != nil && !errors.Is(err, network.ErrGraph) {
				t.Errorf("%s weights for %s: %v", name, problem, err)
			}
		}
	}
}
