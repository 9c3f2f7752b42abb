package fisher_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/fisher"
)

// The matrix is the same bits on one to eight devices, and right: cut by points,
// and by points and features.
func TestJobOnDevices(t *testing.T) {
	for _, c := range []fisher.Config{
		{Points: 1000, Features: 17},
		{Points: 333, Features: 10, Shards: 3, Blocks: 3, Seed: 2},
		{Points: 40, Features: 5, Shards: 9, Blocks: 5, Seed: 3},
	} {
		workloadtest.Invariant(t, fisher.Funcs(),
			func() (*fisher.Job, error) { return fisher.New(c) },
			func(j *fisher.Job) []byte { return workloadtest.Bytes(j.Result()) })
	}
}

// Blocks of features do not show in the result: each entry is added up alike.
func TestBlocksAgree(t *testing.T) {
	var want []float64
	for _, blocks := range []int{1, 2, 7} {
		j := workloadtest.New[*fisher.Job](t)(fisher.New(fisher.Config{Points: 500, Features: 20, Blocks: blocks}))
		workloadtest.Run(t, workloadtest.Open(t, 4, fisher.Funcs()), j)
		if want == nil {
			want = slices.Clone(j.Result())
		} else if !slices.Equal(want, j.Result()) {
			t.Errorf("%d blocks give another matrix", blocks)
		}
	}
}

// The size of the seed: 10,000 points, over four devices, also hybrid.
func TestJobSeed(t *testing.T) {
	rt := workloadtest.Open(t, 4, fisher.Funcs())
	for _, blocks := range []int{1, 2} {
		j := workloadtest.New[*fisher.Job](t)(fisher.New(fisher.Config{Points: 10_000, Features: 16, Shards: 4, Blocks: blocks}))
		res := workloadtest.Run(t, rt, j)
		if err := j.Check(); err != nil {
			t.Error(err)
		}
		for i, d := range res.Report.Devices {
			if d.Tasks == 0 {
				t.Errorf("%d blocks: device %d did nothing", blocks, i)
			}
		}
	}
}

// With one feature, F is the mean of p(1 − p) x²: x² of numbers uniform in
// (−1, 1) has the mean 1/3, and p(1 − p) lies between that of a logit of one and
// a quarter.
func TestClosedForm(t *testing.T) {
	j := workloadtest.New[*fisher.Job](t)(fisher.New(fisher.Config{Points: 20_000, Features: 1}))
	workloadtest.Run(t, workloadtest.Open(t, 2, fisher.Funcs()), j)
	q := 1 / (1 + math.Exp(-1))
	if f := j.Result()[0]; f < q*(1-q)/3*0.95 || f > 1./12*1.05 {
		t.Errorf("F is %v, want between %v and %v", f, q*(1-q)/3, 1./12)
	}
}

// Check sees one entry that is off by what it says, anywhere, also together with the
// one across the diagonal, one that is not a number, and a row that was left out.
func TestCheckFinds(t *testing.T) {
	const d = 40
	rt := workloadtest.Open(t, 2, fisher.Funcs())
	j := workloadtest.New[*fisher.Job](t)(fisher.New(fisher.Config{Points: 3000, Features: d}))
	workloadtest.Run(t, rt, j)
	if err := j.Check(); err != nil {
		t.Fatal(err)
	}
	f, good, above := j.Result(), slices.Clone(j.Result()), workloadtest.Above(t, j)
	if !(above > 0 && above < 1e-12) {
		t.Errorf("an entry may be off by %g", above)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 40 {
		row, col := r.IntN(d), r.IntN(d)
		switch n % 4 {
		case 0:
			f[row*d+col] += above * 1.1
		case 1:
			f[row*d+col] -= above * 1.1
			f[col*d+row] = f[row*d+col]
		case 2:
			f[row*d+col] = math.NaN()
		case 3:
			clear(f[row*d : (row+1)*d])
		}
		if err := j.Check(); !errors.Is(err, fisher.ErrWrong) {
			t.Errorf("fault %d at (%d, %d): the check says %v", n%4, row, col, err)
		}
		copy(f, good)
	}
}

// A point that is not a number makes no entry one, and the check knows.
func TestCheckOfNaN(t *testing.T) {
	j := workloadtest.New[*fisher.Job](t)(fisher.New(fisher.Config{Points: 100, Features: 5}))
	points, _ := j.Operands()
	points[77] = float32(math.NaN())
	workloadtest.Run(t, workloadtest.Open(t, 2, fisher.Funcs()), j)
	if err := j.Check(); err != nil {
		t.Error(err)
	}
	j.Result()[3] = 1
	if err := j.Check(); !errors.Is(err, fisher.ErrWrong) {
		t.Errorf("a number among none: %v", err)
	}
}

func TestRejects(t *testing.T) {
	for _, c := range []fisher.Config{
		{}, {Points: 10}, {Points: -1, Features: 1}, {Points: 10, Features: 5000}, {Points: 10, Features: 2, Shards: 11},
		{Points: 10, Features: 2, Shards: -1}, {Points: 10, Features: 2, Blocks: 3}, {Points: 3, Features: 2},
	} {
		if _, err := fisher.New(c); !errors.Is(err, workload.ErrConfig) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
