package bench

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weft-run/weft/internal/catalog"
	"github.com/weft-run/weft/plan"
)

// The recordings that come with weft hold the workloads that predictions are judged by, and none
// that is unknown, and predictions of a size left out keep their intervals. How near they are is
// what was reached, so that it does not fall.
func TestRecordings(t *testing.T) {
	files, err := filepath.Glob("../../bench/predict/*.json")
	if err != nil || len(files) < 3 {
		t.Fatalf("%v: %v", files, err)
	}
	all, err := LoadRecordings(files)
	if err != nil {
		t.Fatal(err)
	}
	must := []string{"automata", "conv", "fisher", "fusion", "gemm", "landscape", "merkle", "reduce", "reservoir", "tropical", "tropical-net"}
	stable := 0
	for i, r := range all {
		var names []string
		for k := range r.Points {
			names = append(names, r.Points[k].Workload)
			if r.Points[k].Stable() {
				stable++
			}
		}
		for _, name := range must {
			if !slices.Contains(names, name) {
				t.Errorf("%s does not have %s", files[i], name)
			}
		}
		for _, name := range names {
			if !slices.Contains(catalog.Names(), name) {
				t.Fatalf("%s has %s, which is no workload", files[i], name)
			}
		}
	}
	var sizes []plan.Judged
	for _, j := range plan.Evaluate(all) {
		if j.Kind == plan.HeldSize || j.Kind == plan.HeldEnd {
			sizes = append(sizes, j)
		}
	}
	s := plan.Summarise(sizes)
	t.Logf("%d stable points, %+v", stable, s)
	if stable < 400 || s.Predictions < 400 || s.Covered < 0.85 || s.Covered > 0.95 || s.HalfWidth > 0.25 || s.Within < 0.65 {
		t.Errorf("%d stable points, %+v", stable, s)
	}
}

// The interval for a machine and a workload without measurements contains at least nine of ten of the
// recorded runs.
func TestNothingMeasured(t *testing.T) {
	files, err := filepath.Glob("../../bench/predict/*.json")
	if err != nil || len(files) < 3 {
		t.Fatalf("%v: %v", files, err)
	}
	all, err := LoadRecordings(files)
	if err != nil {
		t.Fatal(err)
	}
	nothing := plan.Learn(nil, nil)
	for i, r := range all {
		held, above, points := 0, 0, 0
		for k := range r.Points {
			p := &r.Points[k]
			if !p.Stable() {
				continue
			}
			e := nothing.OnMachine(p.Need(), r.Machine)
			points++
			if e.Low <= p.Median() && p.Median() <= e.High {
				held++
			}
			if p.Median() > e.Median {
				above++
			}
		}
		t.Logf("%s: %d of %d held, %d above the median", files[i], held, points, above)
		if part := float64(held) / float64(points); part < 0.85 {
			t.Errorf("%s: the intervals hold %.2f of %d runs", files[i], part, points)
		}
		if part := float64(above) / float64(points); part < 0.25 || part > 0.75 {
			t.Errorf("%s: %.2f of %d runs took longer than the median", files[i], part, points)
		}
	}
}

// A recording is gone on with: sizes that are there stay, sizes between them are added, and
// none of them is measured twice under two names. A recording of another machine is refused.
func TestBenchPredictResume(t *testing.T) {
	file := filepath.Join(t.TempDir(), "here.json")
	record := func(more ...string) (*plan.Recording, error) {
		args := append([]string{"predict", "--record", file, "--only", "reduce", "--shortest", "100us", "--longest", "400us", "--tries", "1", "--devices", "cpu"}, more...)
		if _, err := run(t.Context(), args...); err != nil {
			return nil, err
		}
		all, err := LoadRecordings([]string{file})
		if err != nil {
			return nil, err
		}
		return all[0], nil
	}
	sizesOf := func(r *plan.Recording) (out []int) {
		for i := range r.Points {
			out = append(out, r.Points[i].Size)
		}
		return out
	}
	first, err := record("--sizes", "2")
	if err != nil {
		t.Fatal(err)
	}
	again, err := record("--sizes", "3")
	if err != nil {
		t.Fatal(err)
	}
	was, now := sizesOf(first), sizesOf(again)
	if len(now) < len(was) || !slices.Equal(now[:len(was)], was) {
		t.Errorf("sizes %v, and then %v", was, now)
	}
	if slices.Max(was) > slices.Min(was)*2 && len(now) == len(was) {
		t.Errorf("no size was added to %v", was)
	}
	slices.Sort(now)
	for i := 1; i < len(now); i++ {
		if float64(now[i]) < 1.02*float64(now[i-1]) {
			t.Errorf("sizes %v: %d and %d are nearly the same", now, now[i-1], now[i])
		}
	}
	if _, err := record("--label", "there"); err == nil || !strings.Contains(err.Error(), "another file") {
		t.Error(err)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := record(); err == nil || !strings.Contains(err.Error(), "bad recording") {
		t.Error(err)
	}
}

// Halving visits everything once, the ends first, and leaves no gap larger than needed.
func TestHalving(t *testing.T) {
	for n := range 40 {
		var xs []int
		for i := range n {
			xs = append(xs, i)
		}
		got := halving(slices.Clone(xs))
		if sorted := slices.Sorted(slices.Values(got)); !slices.Equal(sorted, xs) {
			t.Fatalf("%d: %v", n, got)
		}
		if n > 2 && (got[0] != 0 || got[1] != n-1) {
			t.Errorf("%d: %v", n, got)
		}
		for k := 2; k <= n; k++ { // with k of them the largest gap is at most twice what is possible
			seen := slices.Sorted(slices.Values(got[:k]))
			for i := 1; i < k; i++ {
				if gap := seen[i] - seen[i-1]; gap > 2*((n-1)/(k-1)+1) {
					t.Errorf("%d: a gap of %d with %d seen", n, gap, k)
				}
			}
		}
	}
}

// Points that are not stable are measured again, then those that took longer than their neighbours
// suggest, the latest first. If there are none of either, all points are.
func TestLatest(t *testing.T) {
	w, ok := catalog.Find("gemm")
	if !ok {
		t.Fatal("no gemm")
	}
	point := func(size int, seconds float64, spread float64) plan.Point {
		p := plan.Point{Workload: "gemm", Size: size, Repeats: 1000}
		for i := range plan.LeastRuns {
			p.Seconds = append(p.Seconds, seconds*(1+spread*float64(i-2)))
		}
		return p
	}
	again := func(points ...plan.Point) (sizes []int) {
		rec := &recorder{r: &plan.Recording{Points: points}}
		var all []late
		for i := range points {
			p := &points[i]
			all = append(all, late{rec.late(w, p), func() error { sizes = append(sizes, p.Size); return nil }})
		}
		if err := each(latest(all)); err != nil {
			t.Fatal(err)
		}
		return sizes
	}
	// By the third power of the size 100 takes 1 s.
	cube := func(size int) float64 { return float64(size*size*size) / 1e6 }
	even := []plan.Point{point(100, cube(100), 0), point(200, cube(200), 0), point(400, cube(400), 0), point(800, cube(800), 0), point(1600, cube(1600), 0)}
	if got := again(even...); !slices.Equal(got, []int{100, 200, 400, 800, 1600}) {
		t.Errorf("of points on a line %v are measured again, and not all", got)
	}
	odd := slices.Clone(even)
	odd[1] = point(200, 1.2*cube(200), 0)
	odd[4] = point(1600, 1.5*cube(1600), 0)
	odd[3] = point(800, cube(800), 0.1) // no neighbour to others
	if got := again(odd...); !slices.Equal(got, []int{800, 1600, 200}) {
		t.Errorf("%v are measured again, want what is not stable and then the latest", got)
	}
}
