package bench

import (
	"context"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/plan"
)

// The recordings that come with weft hold the workloads that predictions are judged by, and none
// that is unknown, and predictions of a size left out keep their intervals. How near they are is
// what was reached, so that it does not fall.
func TestRecordings(t *testing.T) {
	files, err := filepath.Glob("../../../../bench/predict/*.json")
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
			if !slices.Contains(Recorded(), name) {
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
	if stable < 590 || s.Predictions < 550 || s.Covered < 0.85 || s.Covered > 0.95 || s.HalfWidth > 0.25 || s.Within < 0.92 {
		t.Errorf("%d stable points, %+v", stable, s)
	}
}

// The interval for a machine and a workload without measurements contains about nine of ten of the runs of each
// recording, and at least 85 %. Points that are not stable count too: a few percent do not matter here, and without them jobs with
// large copies would be missing.
func TestNothingMeasured(t *testing.T) {
	files, err := filepath.Glob("../../../../bench/predict/*.json")
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
		args := append([]string{"predict", "--record", file, "--only", "reduce", "--shortest", "100us", "--longest", "400us", "--devices", "cpu"}, more...)
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

// A pass visits everything once that can run, and each pass in another order.
func TestDue(t *testing.T) {
	rec := new(recorder)
	for i := range 50 {
		v := &visit{of: &ladder{name: "gemm"}, point: plan.Point{Size: i}}
		if i == 7 {
			v.gone = errTimeout
		}
		rec.visits = append(rec.visits, v)
	}
	sizesOf := func(pass int) (out []int) {
		for _, v := range rec.due(pass) {
			out = append(out, v.point.Size)
		}
		return out
	}
	first, second := sizesOf(1), sizesOf(2)
	if slices.Equal(first, second) || slices.IsSorted(first) {
		t.Errorf("the order stays the same: %v", first)
	}
	slices.Sort(first)
	slices.Sort(second)
	if len(first) != 49 || len(slices.Compact(first)) != 49 || slices.Contains(first, 7) || !slices.Equal(first, second) {
		t.Errorf("%v, and then %v", first, second)
	}
}

// Jobs of all visits are dealt out to the runs in turn, so that a machine which is slow in one visit is slow in
// all runs, and as many as make a run of 50 ms in leastPasses visits.
func TestDealt(t *testing.T) {
	v := &visit{each: eachOf(0.004)}
	for pass := range leastPasses {
		var seconds []float64
		for range v.each * plan.LeastRuns {
			seconds = append(seconds, 0.004*float64(1+pass%2))
		}
		v.add(seconds)
	}
	p := &v.point
	if p.Repeats != leastPasses*v.each || !p.Stable() || math.Abs(p.Median()-0.006) > 1e-12 || p.Spread() > 1e-12 {
		t.Errorf("%+v", p)
	}
	// The third job of each five is of the third run, and one that waited is not counted.
	x := new(visit)
	x.add([]float64{1, 1, 4, 1, 1, 1, 1, 4, 1, 1, 1, 1, 4, 1, 1, 1, 99, 4, 1, 1})
	if !slices.Equal(x.point.Seconds, []float64{1, 1, 4, 1, 1}) || x.point.Repeats != 4 {
		t.Errorf("%+v", x.point)
	}
	// Jobs that become faster are more.
	w := &visit{each: 1}
	w.add([]float64{0.001, 0.001, 0.001, 0.001, 0.001})
	if w.each != eachOf(0.001) || eachOf(0.001)*leastPasses < 50 || eachOf(1) != 1 {
		t.Errorf("%+v", w)
	}
}

// A point that is stable with margin is visited in one pass of three, and one that is not gets as many more jobs as
// its spread asks for. Jobs of an earlier recording count.
func TestSettled(t *testing.T) {
	at := func(spread float64, repeats int) *visit {
		s := []float64{0.01, 0.01, 0.01, 0.01, 0.01 * (1 + spread*math.Sqrt(5))} // of which spread is the spread, nearly
		return &visit{of: &ladder{name: "gemm"}, each: 2, passes: leastPasses, point: plan.Point{Seconds: s, Repeats: repeats}}
	}
	quiet, loud := at(0.01, 12), at(0.2, 12)
	if !quiet.settled() || loud.settled() || at(0.04, 12).settled() || at(0.01, 2).settled() {
		t.Errorf("%v %v", quiet.point.Spread(), loud.point.Spread())
	}
	if quiet.jobs() != 2 || loud.jobs() != 2*mostMore {
		t.Errorf("%d and %d jobs", quiet.jobs(), loud.jobs())
	}
	if loud.passes = leastPasses - 1; loud.jobs() != 2 {
		t.Errorf("%d jobs before all have their runs", loud.jobs())
	}
	rec := &recorder{visits: []*visit{quiet, loud}}
	n := 0
	for pass := range 9 {
		n += len(rec.due(pass))
	}
	if n != 9+3 {
		t.Errorf("%d visits in 9 passes", n)
	}
	v := &visit{each: 1, before: &plan.Point{Seconds: []float64{2, 2, 2, 2, 2}, Repeats: 3}}
	v.add([]float64{6, 6, 6, 6, 6})
	if !slices.Equal(v.point.Seconds, []float64{3, 3, 3, 3, 3}) || v.point.Repeats != 4 {
		t.Errorf("%+v", v.point)
	}
}

// steady is a job that always takes 10 ms.
type steady struct{}

func (steady) need(*weft.Runtime) (plan.Need, error) { return plan.Need{}, nil }

func (steady) run(_ context.Context, _ *weft.Runtime, jobs int) ([]float64, error) {
	return slices.Repeat([]float64{0.01}, jobs), nil
}

// A job that takes long to make is made for the first visit and kept for all others.
func TestKeptJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the clock is not the machine's
		made := 0
		l := &ladder{name: "gemm", make: func(context.Context, int) (subject, error) {
			made++
			time.Sleep(2 * longestMade)
			return steady{}, nil
		}}
		rec, v := &recorder{ctx: t.Context()}, &visit{of: l}
		for range 5 {
			if err := rec.measured(v); err != nil {
				t.Fatal(err)
			}
		}
		if made != 1 || v.job == nil || v.passes != 5 {
			t.Errorf("made %d times in %d visits", made, v.passes)
		}
	})
}

// Where there is no time for all passes over all sizes, the largest of the workload that takes most time are
// left out, and five sizes of each stay; if that is still too much, whole workloads are. Without a limit
// nothing is left out.
func TestThin(t *testing.T) {
	left := func(ctx context.Context) map[string][]int {
		rec := &recorder{ctx: ctx, log: io.Discard}
		for _, l := range []*ladder{{name: "gemm"}, {name: "fold"}, {name: "conv"}} {
			for i := range 8 {
				v := &visit{of: l, point: plan.Point{Size: i + 1}, costs: time.Hour}
				if l.name == "fold" {
					v.costs = 2 * time.Hour
				}
				rec.visits = append(rec.visits, v)
			}
		}
		rec.thin(1)
		out := make(map[string][]int)
		for _, v := range rec.visits {
			if v.gone == nil {
				out[v.of.name] = append(out[v.of.name], v.point.Size)
			}
		}
		return out
	}
	within := func(d time.Duration) map[string][]int {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		return left(ctx)
	}
	eight := []int{1, 2, 3, 4, 5, 6, 7, 8}
	if got := left(t.Context()); !slices.Equal(got["gemm"], eight) || !slices.Equal(got["fold"], eight) {
		t.Error(got)
	}
	// Five passes of 28 hours: two sizes of fold are too many.
	if got := within(5*28*time.Hour + time.Hour); !slices.Equal(got["gemm"], eight) || !slices.Equal(got["fold"], eight[:6]) {
		t.Error(got)
	}
	if got := within(5*20*time.Hour + time.Hour); !slices.Equal(got["gemm"], eight[:5]) || !slices.Equal(got["fold"], eight[:5]) || !slices.Equal(got["conv"], eight[:5]) {
		t.Error(got)
	}
	if got := within(5*10*time.Hour + time.Hour); !slices.Equal(got["gemm"], eight[:5]) || got["fold"] != nil || !slices.Equal(got["conv"], eight[:5]) {
		t.Error(got)
	}
	if got := within(time.Minute); len(got) != 1 { // one stays, whatever it takes
		t.Error(got)
	}
}
