package enumerative_test

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/enumerative"
)

// number reads a number of any length.
func number(s string) *big.Int {
	n, ok := new(big.Int).SetString(s, 10)
	if !ok {
		panic(s)
	}
	return n
}

// vectors are integrals that are known.
var vectors = []struct {
	c    enumerative.Config
	want string
}{
	{enumerative.Config{Problem: enumerative.Degree, K: 1, N: 2}, "1"},
	{enumerative.Config{Problem: enumerative.Degree, K: 2, N: 4}, "2"},
	{enumerative.Config{Problem: enumerative.Degree, K: 3, N: 6}, "42"},
	{enumerative.Config{Problem: enumerative.Degree, K: 4, N: 8}, "24024"},
	{enumerative.Config{Problem: enumerative.Degree, K: 2, N: 37}, "3116285494907301262"}, // a Catalan number
	{enumerative.Config{Problem: enumerative.Degree, K: 5, N: 10}, "701149020"},
	{enumerative.Config{Problem: enumerative.Hypersurface, K: 2, N: 4}, "27"},
	{enumerative.Config{Problem: enumerative.Hypersurface, K: 2, N: 5}, "2875"},
	{enumerative.Config{Problem: enumerative.Hypersurface, K: 2, N: 6}, "698005"},
	{enumerative.Config{Problem: enumerative.Hypersurface, K: 2, N: 7, Degree: 9}, "305093061"},
	{enumerative.Config{Problem: enumerative.Hypersurface, K: 3, N: 8}, "3297280"}, // planes on a quartic
	{enumerative.Config{Problem: enumerative.Hypersurface, K: 4, N: 9}, "321489"},  // spaces on a cubic
	{enumerative.Config{Problem: enumerative.Schubert, K: 2, N: 4, Classes: [][]int{{1}, {1}, {1}, {1}}}, "2"},
	{enumerative.Config{Problem: enumerative.Schubert, K: 2, N: 4, Classes: [][]int{{2}, {1, 1}}}, "0"},
	{enumerative.Config{Problem: enumerative.Schubert, K: 2, N: 4, Classes: [][]int{{2, 2}}}, "1"},
	{enumerative.Config{Problem: enumerative.Schubert, K: 3, N: 6, Classes: [][]int{{2, 1}, {2, 1}, {2, 1}}}, "2"},
}

func TestVectors(t *testing.T) {
	rt := workloadtest.Open(t, 2, enumerative.Funcs())
	for _, v := range vectors {
		got, err := enumerative.Of(t.Context(), rt, v.c)
		if err != nil || got.Cmp(number(v.want)) != 0 {
			t.Errorf("%+v: %v, %v, want %s", v.c, got, err, v.want)
		}
	}
}

// jobs are problems of every kind, with more than one chunk and a last one that is not full.
var jobs = []enumerative.Config{
	{Problem: enumerative.Degree, K: 4, N: 18},
	{Problem: enumerative.Hypersurface, K: 2, N: 64},
	{Problem: enumerative.Schubert, K: 4, N: 18, Classes: [][]int{{8, 5, 2, 1}, {9, 3, 1}, {14, 8, 5}}},
	{Problem: enumerative.Hypersurface, K: 3, N: 15},
	{Problem: enumerative.Schubert, K: 5, N: 11, Classes: [][]int{{6, 5, 4, 3, 1}, {4}, {3, 2, 1}, {1}}},
}

func TestJobOnDevices(t *testing.T) {
	for _, c := range jobs[:3] { // which have a chunk for every device
		workloadtest.Invariant(t, enumerative.Funcs(),
			func() (*enumerative.Job, error) { return enumerative.New(c) },
			func(j *enumerative.Job) []byte { return append(workloadtest.Bytes(j.Sums()), j.Result().Bytes()...) })
	}
}

// Every sum that is off is found, in any chunk and modulo any prime.
func TestCheckFinds(t *testing.T) {
	rt := workloadtest.Open(t, 2, enumerative.Funcs())
	for _, c := range jobs {
		j := workloadtest.New[*enumerative.Job](t)(enumerative.New(c))
		workloadtest.Run(t, rt, j)
		if err := j.Check(); err != nil {
			t.Fatal(err)
		}
		good := slices.Clone(j.Sums())
		for _, at := range []int{1, len(good) - 1} {
			j.Sums()[at] ^= 1
			if err := j.Check(); !errors.Is(err, enumerative.ErrWrong) {
				t.Errorf("%s with a wrong sum %d: the check says %v", j.Name(), at, err)
			}
			copy(j.Sums(), good)
		}
		if m := j.Misses(); len(m) != 1 || m[0].Chance > 1e-5 {
			t.Errorf("%s may miss %v", j.Name(), m)
		}
	}
}

// Classes of two partitions and the complement of a third count Littlewood-Richardson
// tableaux: those of lrcalc, which littlewood.sh records.
func TestLittlewoodRichardson(t *testing.T) {
	rt := workloadtest.Open(t, 2, enumerative.Funcs())
	for _, r := range recorded(t) {
		c := enumerative.Config{Problem: enumerative.Schubert, K: r.k, N: r.n, Classes: [][]int{r.a, r.b, complement(r.c, r.k, r.n)}}
		got, err := enumerative.Of(t.Context(), rt, c)
		if err != nil || got.Cmp(big.NewInt(r.count)) != 0 {
			t.Errorf("%v and %v make %v of %v in Gr(%d,%d): %v, %v", r.a, r.b, got, r.c, r.k, r.n, r.count, err)
		}
	}
}

// complement is what a partition lacks in a box of k by n−k, turned around.
func complement(parts []int, k, n int) (out []int) {
	for i := k - 1; i >= 0; i-- {
		part := 0
		if i < len(parts) {
			part = parts[i]
		}
		out = append(out, n-k-part)
	}
	return out
}

func TestKontsevich(t *testing.T) {
	for d, want := range map[int]string{
		1: "1", 2: "1", 3: "12", 4: "620", 5: "87304", 6: "26312976", 7: "14616808192", 8: "13525751027392",
	} {
		if got, err := enumerative.Kontsevich(d); err != nil || got.Cmp(number(want)) != 0 {
			t.Errorf("curves of degree %d: %v, %v, want %s", d, got, err, want)
		}
	}
	for _, d := range []int{0, -1, 501} {
		if _, err := enumerative.Kontsevich(d); !errors.Is(err, workload.ErrConfig) {
			t.Errorf("curves of degree %d: %v", d, err)
		}
	}
}

func TestRejects(t *testing.T) {
	for want, c := range map[string]enumerative.Config{
		"no problem":       {Problem: "x", K: 2, N: 4},
		"less than n":      {Problem: enumerative.Degree, K: 5, N: 4},
		"less than n ":     {Problem: enumerative.Degree, K: 4, N: 4},
		" less than n":     {Problem: enumerative.Degree, K: 30, N: 24},
		"k must be 1":      {Problem: enumerative.Degree, N: 4},
		"n at most":        {Problem: enumerative.Degree, K: 2, N: 65},
		"make n smaller":   {Problem: enumerative.Degree, K: 16, N: 64},
		"no degree has":    {Problem: enumerative.Hypersurface, K: 3, N: 7},
		"with degree 3":    {Problem: enumerative.Hypersurface, K: 2, N: 4, Degree: 4},
		"with degree 3 ":   {Problem: enumerative.Hypersurface, K: 2, N: 4, Degree: -1},
		"at most 1024":     {Problem: enumerative.Hypersurface, K: 1, N: 2, Degree: 1 << 40},
		"has a degree":     {Problem: enumerative.Degree, K: 2, N: 4, Degree: 3},
		"has classes":      {Problem: enumerative.Degree, K: 2, N: 4, Classes: [][]int{{1}}},
		"0 classes":        {Problem: enumerative.Schubert, K: 2, N: 4},
		"7 classes":        {Problem: enumerative.Schubert, K: 2, N: 4, Classes: make([][]int, 7)},
		"2 parts at most":  {Problem: enumerative.Schubert, K: 2, N: 4, Classes: [][]int{{1, 1, 1}}},
		"must descend":     {Problem: enumerative.Schubert, K: 2, N: 4, Classes: [][]int{{1, 2}}},
		"must descend ":    {Problem: enumerative.Schubert, K: 2, N: 4, Classes: [][]int{{3}}},
		"must descend  ":   {Problem: enumerative.Schubert, K: 2, N: 4, Classes: [][]int{{2, -1}}},
		"must have as man": {Problem: enumerative.Schubert, K: 2, N: 4, Classes: [][]int{{2}}},
	} {
		_, err := enumerative.New(c)
		if !errors.Is(err, workload.ErrConfig) || !strings.Contains(err.Error(), strings.TrimSpace(want)) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
		if !(c.Bytes() > 0) {
			t.Errorf("%+v takes %v bytes", c, c.Bytes())
		}
	}
}

func FuzzParseClasses(f *testing.F) {
	for _, s := range []string{"", "2,1 2,1 1", "1,,2", "-1", "99999999999999999999", " 3 "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		classes, err := enumerative.ParseClasses(s)
		if err != nil {
			if !errors.Is(err, workload.ErrConfig) {
				t.Fatal(err)
			}
			return
		}
		var words []string
		for _, parts := range classes {
			words = append(words, strings.ReplaceAll(strings.Trim(fmt.Sprint(parts), "[]"), " ", ","))
		}
		again, err := enumerative.ParseClasses(strings.Join(words, " "))
		if err != nil || fmt.Sprint(again) != fmt.Sprint(classes) {
			t.Errorf("%q is %v, written again %v, %v", s, classes, again, err)
		}
	})
}

// Tasks of a job on CPUs take a second at most, cut at chunks, and all of them make the same
// sums as one.
func TestHosted(t *testing.T) {
	j := workloadtest.New[*enumerative.Job](t)(enumerative.New(enumerative.Config{Problem: enumerative.Degree, K: 8, N: 28}))
	points := j.Items().Extent
	for name, ranges := range map[string][]sched.Range{"one": {{Lo: 0, Hi: points}}, "two": {{Lo: 0, Hi: 1 << 20}, {Lo: 1 << 20, Hi: points}}} {
		g, err := j.Hosted().Graph(ranges)
		if err != nil {
			t.Fatal(err)
		}
		ops := 0.0
		for id := range graph.TaskID(g.NumTasks()) {
			work := g.Task(id).Work
			if work.Ops > 1<<30 {
				t.Errorf("%s: task %s has %g operations", name, g.Task(id).Name, work.Ops)
			}
			ops += work.Ops
		}
		if want := j.Whole().Work.Ops; g.NumTasks() < 8 || math.Abs(ops-want) > 1e-9*want {
			t.Errorf("%s: %d tasks with %g operations, want %g", name, g.NumTasks(), ops, want)
		}
		if whole, err := j.Graph(ranges); err != nil || whole.NumTasks() != len(ranges) {
			t.Errorf("%s: %v tasks for GPUs, error %v", name, whole, err)
		}
	}
	if testing.Short() {
		return
	}
	small := workloadtest.New[*enumerative.Job](t)(enumerative.New(enumerative.Config{Problem: enumerative.Degree, K: 8, N: 24}))
	res := workloadtest.Run(t, workloadtest.Open(t, 1, enumerative.Funcs()), small)
	if err := small.Check(); err != nil || res.Tasks < 2 {
		t.Errorf("%d tasks, error %v", res.Tasks, err)
	}
}
