package reduce_test

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload/reduce"
)

func newJob(t *testing.T, op string, n int) *reduce.Job {
	t.Helper()
	return workloadtest.New[*reduce.Job](t)(reduce.New(reduce.Config{Op: op, N: n, Seed: 1}))
}

// sizes around the corners of a block and of an item of a launch.
var sizes = []int{1, 33, reduce.Block, reduce.Block + 1, 5*reduce.Block - 7, 33 * reduce.Block, 100*reduce.Block + 1234}

// Results are bitwise the same on any number of devices (class X), and right.
func TestJobOnDevices(t *testing.T) {
	want := make(map[string]float32)
	for parts := 1; parts <= 8; parts++ {
		rt := workloadtest.Open(t, parts, reduce.Funcs())
		for _, op := range reduce.Operations() {
			for _, n := range sizes {
				j := newJob(t, op, n)
				res := workloadtest.Run(t, rt, j)
				if least := min(parts, reduce.Blocks(n)) + 1; res.Tasks < least {
					t.Errorf("%s: %d tasks for %d devices", j.Name(), res.Tasks, parts)
				}
				if err := j.Check(); err != nil {
					t.Error(err)
				}
				if parts == 1 {
					workloadtest.Declares(t, j)
					want[j.Name()] = j.Result()
				} else if got := j.Result(); math.Float32bits(got) != math.Float32bits(want[j.Name()]) {
					t.Errorf("%s on %d devices is %v, on one %v", j.Name(), parts, got, want[j.Name()])
				}
			}
		}
	}
}

// Sums are within 4 ε √n times the sum of magnitudes of the sum in 300 bits, and
// extremes are exact.
func TestJobAgainstBigFloat(t *testing.T) {
	rt := workloadtest.Open(t, 4, reduce.Funcs())
	for _, n := range sizes {
		sum := new(big.Float).SetPrec(300)
		most, least, magnitude := math.Inf(-1), math.Inf(1), 0.0
		results := make(map[string]float64)
		for _, op := range reduce.Operations() {
			j := newJob(t, op, n)
			workloadtest.Run(t, rt, j)
			results[op] = float64(j.Result())
			if op != "sum" {
				continue
			}
			for _, v := range j.Elements() {
				x := float64(v)
				sum.Add(sum, big.NewFloat(x))
				magnitude += math.Abs(x)
				if x > most {
					most = x
				}
				if x < least {
					least = x
				}
			}
		}
		exact, _ := sum.Float64()
		limit := 4 * 0x1p-23 * math.Sqrt(float64(n)) * magnitude
		if got := results["sum"]; !(math.Abs(got-exact) <= limit) {
			t.Errorf("sum of %d is %v, want %v", n, got, exact)
		}
		if got := results["average"]; !(math.Abs(got-exact/float64(n)) <= limit/float64(n)) {
			t.Errorf("average of %d is %v, want %v", n, got, exact/float64(n))
		}
		if results["max"] != most || results["min"] != least {
			t.Errorf("%d elements are from %v to %v, want from %v to %v", n, results["min"], results["max"], least, most)
		}
	}
}

// The numbers 1 to 4095 over and over have sums that are known and exact.
func TestJobKnownSums(t *testing.T) {
	const n, period = 4095 * 8, 4095
	rt := workloadtest.Open(t, 3, reduce.Funcs())
	for op, want := range map[string]float32{"sum": 8 * period * (period + 1) / 2, "average": (period + 1) / 2, "max": period, "min": 1} {
		j := newJob(t, op, n)
		for i := range j.Elements() {
			j.Elements()[i] = float32(1 + i%period)
		}
		workloadtest.Run(t, rt, j)
		if got := j.Result(); got != want {
			t.Errorf("%s of %d is %v, want %v", op, n, got, want)
		}
		if err := j.Check(); err != nil {
			t.Error(err)
		}
	}
}

// What is not finite reaches the result from wherever it stands.
func TestJobSpecialValues(t *testing.T) {
	rt := workloadtest.Open(t, 4, reduce.Funcs())
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		op    string
		value float32
		want  float32
	}{
		{"sum", nan, nan}, {"average", nan, nan}, {"max", nan, nan}, {"min", nan, nan},
		{"sum", inf, inf}, {"average", -inf, -inf}, {"max", inf, inf}, {"min", -inf, -inf},
	} {
		j := newJob(t, c.op, 9*reduce.Block+5)
		for _, at := range []int{0, 5*reduce.Block - 1, 9*reduce.Block + 4} {
			was := j.Elements()[at]
			j.Elements()[at] = c.value
			workloadtest.Run(t, rt, j)
			if got := j.Result(); got != c.want && (got == got || c.want == c.want) {
				t.Errorf("%s with %v at %d is %v", c.op, c.value, at, got)
			}
			if err := j.Check(); err != nil {
				t.Error(err)
			}
			j.Elements()[at] = was
		}
	}
}

// Numbers as large as there are add up to what the order of operations makes of them, which passes the check: infinite
// where they are of one sign, and either infinity, no number or a number where they are of both.
func TestJobOfLargest(t *testing.T) {
	rt := workloadtest.Open(t, 2, reduce.Funcs())
	inf := float32(math.Inf(1))
	seen := map[float32]bool{}
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(11, seed))
		for _, op := range reduce.Operations() {
			j := newJob(t, op, 1+r.IntN(3*reduce.Block))
			negative, many := r.IntN(4), 1+r.IntN(1000) // one of many is large
			for i := range j.Elements() {
				if r.IntN(many) > 0 {
					continue
				}
				if j.Elements()[i] = 3e38; r.IntN(4) < negative {
					j.Elements()[i] = -3e38
				}
			}
			workloadtest.Run(t, rt, j)
			if err := j.Check(); err != nil {
				t.Fatal(err)
			}
			got := j.Result()
			if got != got {
				got = 0 // a key that is itself
			}
			seen[got] = true
		}
	}
	if !seen[inf] || !seen[-inf] {
		t.Errorf("no sum was infinite: %v", seen)
	}
}

// Check sees a result that is wrong by little, or not a number.
func TestJobCheckFinds(t *testing.T) {
	rt := workloadtest.Open(t, 1, reduce.Funcs())
	for _, op := range reduce.Operations() {
		j := newJob(t, op, 3*reduce.Block+1)
		workloadtest.Run(t, rt, j)
		if err := j.Check(); err != nil {
			t.Fatal(err)
		}
		// Elements that change after the run make its result wrong.
		e := j.Elements()
		for i := range e {
			e[i] = math.Nextafter32(e[i], 2)
		}
		if err := j.Check(); !errors.Is(err, reduce.ErrWrong) {
			t.Errorf("%s that is wrong by little: %v", op, err)
		}
		e[len(e)-1] = float32(math.NaN())
		if err := j.Check(); !errors.Is(err, reduce.ErrWrong) {
			t.Errorf("%s that should not be a number: %v", op, err)
		}
	}
}

func TestJobRejects(t *testing.T) {
	for _, c := range []reduce.Config{{}, {Op: "sum"}, {Op: "sum", N: -1}, {Op: "sum", N: 1<<32 + 1}, {Op: "median", N: 1}, {N: 1}} {
		if _, err := reduce.New(c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
	j := newJob(t, "sum", 2*reduce.Block)
	for _, ranges := range [][]sched.Range{
		{{Lo: 0, Hi: 5}, {Lo: 5, Hi: 2 * reduce.Block}}, // through a block
		{{Lo: 0, Hi: reduce.Block}},                     // a block short
	} {
		if _, err := j.Graph(ranges); err == nil {
			t.Errorf("ranges %v were taken", ranges)
		}
	}
}

// The smallest numbers there are pass the check: their average is rounded to a multiple
// of the smallest.
func TestJobOfDenormals(t *testing.T) {
	rt := workloadtest.Open(t, 2, reduce.Funcs())
	for _, op := range reduce.Operations() {
		for _, by := range []float32{1e-45, 3e-45, 1e-42, 1e-38} {
			j := workloadtest.New[*reduce.Job](t)(reduce.New(reduce.Config{Op: op, N: 3}))
			for i := range j.Elements() {
				j.Elements()[i] = by * float32(i%2+1)
			}
			workloadtest.Run(t, rt, j)
			if err := j.Check(); err != nil {
				t.Error(err)
			}
		}
	}
}
