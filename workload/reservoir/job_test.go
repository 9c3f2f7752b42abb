package reservoir_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload/reservoir"
)

// config is a reservoir whose sizes fit no vector, tile or item.
func config(mode, split string, batch, steps int) reservoir.Config {
	p := reservoir.Defaults()
	p.Size, p.Inputs, p.BiasScaling, p.Seed = 131, 17, 0.2, 7
	return reservoir.Config{Params: p, Batch: batch, Steps: steps, Mode: mode, Split: split}
}

// states are the last and mean states of all patterns, one after the other.
func states(j *reservoir.Job, batch int) (all []float32) {
	for b := range batch {
		last, mean := j.State(b)
		all = append(append(all, last...), mean...)
	}
	return all
}

// States are bitwise the same on any number of devices, in both modes and all
// splits, which agree with each other as well (class R); and they follow the
// formula.
func TestJobOnDevices(t *testing.T) {
	for _, c := range []struct {
		mode         string
		batch, steps int
	}{{reservoir.Sequence, 131, 3}, {reservoir.Histogram, 140, 1}} {
		var got [][]float32
		for _, split := range []string{reservoir.Patterns, reservoir.Neurons, reservoir.Rows} {
			workloadtest.Invariant(t, reservoir.Funcs(),
				func() (*reservoir.Job, error) { return reservoir.NewJob(config(c.mode, split, c.batch, c.steps)) },
				func(j *reservoir.Job) []byte {
					all := states(j, c.batch)
					got = append(got, all)
					return workloadtest.Bytes(all)
				})
		}
		for i, all := range got {
			if !slices.Equal(all, got[0]) {
				t.Errorf("%s: run %d differs from patterns dealt out to one device", c.mode, i)
			}
		}
	}
}

// With an all-gather of the states in every step, one to nine devices that each
// have their own rows give the same bits, also when there are fewer groups of
// neurons than devices.
func TestRowsOnDevices(t *testing.T) {
	for _, size := range []int{22, 131} {
		c := config("", reservoir.Rows, 19, 7)
		c.Size = size
		var want []float32
		for devices := 1; devices <= 9; devices++ {
			j := workloadtest.New[*reservoir.Job](t)(reservoir.NewJob(c))
			res := workloadtest.Run(t, workloadtest.Open(t, devices, reservoir.Funcs()), j)
			busy := 0
			for _, d := range res.Report.Devices {
				if d.Tasks > 0 {
					busy++
				}
			}
			if groups := (size + 3) / 4; busy != min(devices, groups) {
				t.Errorf("%d neurons: %d of %d devices had something to do", size, busy, devices)
			}
			if err := j.Check(); err != nil {
				t.Fatal(err)
			}
			all := states(j, c.Batch)
			if want == nil {
				want = all
			}
			if !slices.Equal(all, want) {
				t.Errorf("%d neurons: %d devices give other bits than one", size, devices)
			}
		}
	}
}

// Many patterns, in blocks as wide as the assembly likes and in several tasks
// for a range, give what each gives alone.
func TestJobBatchedIsOneByOne(t *testing.T) {
	const batch, steps = 2100, 3
	j := workloadtest.New[*reservoir.Job](t)(reservoir.NewJob(config("", "", batch, steps)))
	workloadtest.Run(t, workloadtest.Open(t, 2, reservoir.Funcs()), j)
	if err := j.Check(); err != nil {
		t.Fatal(err)
	}
	w, err := reservoir.New(config("", "", 1, 1).Params)
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []int{0, 63, 64, 1000, 2099} {
		s := w.NewState(1, uint64(pattern))
		w.Run(s, j.Input(pattern), steps)
		last, mean := j.State(pattern)
		if !slices.Equal(last, s.X) || !slices.Equal(mean, s.Mean) {
			t.Errorf("pattern %d is not what it is alone", pattern)
		}
	}
}

// Check sees a state that is off by little, one that is none, and patterns that were left
// out or are others, of any pattern.
func TestJobCheckFinds(t *testing.T) {
	const batch, size = 300, 131
	rt := workloadtest.Open(t, 2, reservoir.Funcs())
	j := workloadtest.New[*reservoir.Job](t)(reservoir.NewJob(config("", "", batch, 5)))
	workloadtest.Run(t, rt, j)
	if err := j.Check(); err != nil {
		t.Fatal(err)
	}
	for _, m := range j.Misses() {
		if m.Chance != 0 {
			t.Errorf("%s may be missed", m.What)
		}
	}
	x, good := j.States(), slices.Clone(j.States())
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 40 {
		i := r.IntN(len(x) - 64*size)
		switch n % 4 {
		case 0:
			x[i] += 3e-5
		case 1:
			x[i] = float32(math.NaN())
		case 2:
			clear(x[i : i+64*size])
		case 3:
			copy(x[i:i+16], good[len(x)-16-i/2:])
		}
		if err := j.Check(); !errors.Is(err, reservoir.ErrWrong) {
			t.Errorf("fault %d at %d: the check says %v", n%4, i, err)
		}
		copy(x, good)
	}
}

// Reservoirs pass whose sums are large, as those of many channels are, and small.
func TestJobCheckNeverCriesWolf(t *testing.T) {
	rt := workloadtest.Open(t, 2, reservoir.Funcs())
	for what, change := range map[string]func(c *reservoir.Config){
		"8,000 channels": func(c *reservoir.Config) { c.Inputs, c.Connectivity = 8000, 0.5 },
		"large weights":  func(c *reservoir.Config) { c.InputScaling = 1000 },
		"small weights":  func(c *reservoir.Config) { c.InputScaling = 1e-30 },
		"no leak":        func(c *reservoir.Config) { c.Leak, c.SpectralRadius = 1, 0.999 },
		"many steps":     func(c *reservoir.Config) { c.Steps = 300 },
		"histogram":      func(c *reservoir.Config) { c.Mode, c.Steps = reservoir.Histogram, 1 },
	} {
		c := config("", "", 20, 8)
		change(&c)
		j := workloadtest.New[*reservoir.Job](t)(reservoir.NewJob(c))
		workloadtest.Run(t, rt, j)
		if err := j.Check(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestJobRejects(t *testing.T) {
	for what, change := range map[string]func(c *reservoir.Config){
		"no patterns":      func(c *reservoir.Config) { c.Batch = 0 },
		"no steps":         func(c *reservoir.Config) { c.Steps = 0 },
		"mode":             func(c *reservoir.Config) { c.Mode = "spikes" },
		"split":            func(c *reservoir.Config) { c.Split = "steps" },
		"histogram's step": func(c *reservoir.Config) { c.Mode = reservoir.Histogram },
		"too much":         func(c *reservoir.Config) { c.Batch, c.Steps = 1<<20, 1<<20 },
		"neurons":          func(c *reservoir.Config) { c.Size = 1 << 20 },
		"leak":             func(c *reservoir.Config) { c.Leak = 0 },
	} {
		c := config("", "", 4, 4)
		change(&c)
		if _, err := reservoir.NewJob(c); !errors.Is(err, reservoir.ErrParams) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
