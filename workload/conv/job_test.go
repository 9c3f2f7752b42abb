package conv_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload/conv"
)

func newJob(t *testing.T, s conv.Shape) *conv.Job {
	t.Helper()
	return workloadtest.New[*conv.Job](t)(conv.New(conv.Config{Shape: s, Seed: 1}))
}

// Images are bitwise the same on any number of devices (class R), and right,
// however many bands an image has.
func TestJobOnDevices(t *testing.T) {
	shapes := []conv.Shape{
		{N: 9, C: 16, H: 16, W: 56, K: 40, R: 3, S: 3, Stride: 1, Pad: 1},
		{N: 8, C: 16, H: 40, W: 56, K: 30, R: 3, S: 3, Stride: 1, Pad: 1},
		{N: 150, C: 3, H: 32, W: 32, K: 16, R: 5, S: 5, Stride: 2, Pad: 2},
	}
	if testing.Short() { // the others differ in what they compute
		shapes = shapes[:1]
	}
	for _, s := range shapes {
		workloadtest.Invariant(t, conv.Funcs(),
			func() (*conv.Job, error) { return conv.New(conv.Config{Shape: s, Seed: 1}) },
			func(j *conv.Job) []byte { return workloadtest.Bytes(j.Result()) })
	}
}

// By rows the same numbers come out in another order, in every bit, however the
// rows are dealt out: halos wider than a block, strides that leave rows out, and
// padding beyond what filters reach.
func TestRowsOnDevices(t *testing.T) {
	for _, s := range []conv.Shape{
		{N: 2, C: 16, H: 61, W: 30, K: 30, R: 3, S: 3, Stride: 1, Pad: 1},
		{N: 1, C: 3, H: 19, W: 23, K: 13, R: 7, S: 5, Stride: 1, Pad: 3},
		{N: 3, C: 2, H: 33, W: 20, K: 3, R: 5, S: 4, Stride: 2, Pad: 0},
		{N: 2, C: 2, H: 21, W: 9, K: 2, R: 1, S: 1, Stride: 3, Pad: 2},
	} {
		byImage := newJob(t, s)
		x, w := byImage.Operands()
		workloadtest.Run(t, workloadtest.Open(t, 1, conv.Funcs()), byImage)
		p, q := s.Out()
		want := make([]float32, 0, len(byImage.Result()))
		for row := range p {
			for plane := range s.N * s.K {
				want = append(want, byImage.Result()[(plane*p+row)*q:][:q]...)
			}
		}
		workloadtest.Invariant(t, conv.Funcs(),
			func() (*conv.Job, error) {
				j, err := conv.New(conv.Config{Shape: s, Seed: 1, Split: conv.Rows})
				if err != nil {
					return nil, err
				}
				to, filters := j.Operands()
				copy(filters, w)
				for row := range s.H {
					for plane := range s.N * s.C {
						copy(to[(row*s.N*s.C+plane)*s.W:][:s.W], x[(plane*s.H+row)*s.W:])
					}
				}
				return j, nil
			},
			func(j *conv.Job) []byte {
				if !slices.Equal(j.Result(), want) {
					t.Errorf("%s: other results than by image", j.Name())
				}
				return workloadtest.Bytes(j.Result())
			})
	}
}

// Whole numbers, whose sums are exact, give the numbers of the definition.
func TestJobIntegers(t *testing.T) {
	for _, s := range []conv.Shape{
		{N: 5, C: 7, H: 19, W: 23, K: 13, R: 3, S: 5, Stride: 2, Pad: 3},
		{N: 5, C: 1, H: 1, W: 1, K: 1, R: 1, S: 1, Stride: 1},
	} {
		j := newJob(t, s)
		x, w := j.Operands()
		for _, xs := range [][]float32{x, w} {
			for i := range xs {
				xs[i] = float32(math.Round(float64(8 * xs[i])))
			}
		}
		workloadtest.Run(t, workloadtest.Open(t, 3, conv.Funcs()), j)
		want := make([]float64, len(j.Result()))
		conv.Reference(want, x, w, s, s.All())
		for i, got := range j.Result() {
			if float64(got) != want[i] {
				t.Fatalf("%s: element %d is %v, want %v", j.Name(), i, got, want[i])
			}
		}
		if err := j.Check(); err != nil {
			t.Error(err)
		}
	}
}

// A box filter counts each place's neighbours.
func TestJobKnownImage(t *testing.T) {
	j := newJob(t, conv.Shape{N: 2, C: 1, H: 4, W: 4, K: 1, R: 3, S: 3, Stride: 1, Pad: 1})
	x, w := j.Operands()
	for _, xs := range [][]float32{x, w} {
		for i := range xs {
			xs[i] = 1
		}
	}
	workloadtest.Run(t, workloadtest.Open(t, 2, conv.Funcs()), j)
	want := []float32{4, 6, 6, 4, 6, 9, 9, 6, 6, 9, 9, 6, 4, 6, 6, 4}
	if got := j.Result(); !slices.Equal(got, append(want, want...)) {
		t.Errorf("got %v", got)
	}
}

func TestJobRejects(t *testing.T) {
	if err := conv.Default().Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(c *conv.Config){
		"nothing":       func(c *conv.Config) { *c = conv.Config{} },
		"no stride":     func(c *conv.Config) { c.Stride = 0 },
		"large filter":  func(c *conv.Config) { c.R = 59 },
		"many images":   func(c *conv.Config) { c.N = 1 << 30 },
		"many filters":  func(c *conv.Config) { c.K = 1 << 30 },
		"large results": func(c *conv.Config) { c.K, c.N = 1<<14, 1<<10 },
	} {
		c := conv.Default()
		change(&c)
		if _, err := conv.New(c); !errors.Is(err, conv.ErrShape) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A range with more images than the grid of a GPU has places for becomes several
// tasks that follow one another.
func TestJobCutsLongRanges(t *testing.T) {
	const images = 150_000
	j := newJob(t, conv.Shape{N: images, C: 1, H: 1, W: 1, K: 1, R: 1, S: 1, Stride: 1})
	g, err := j.Graph([]sched.Range{{Lo: 0, Hi: 10}, {Lo: 10, Hi: images}})
	if err != nil {
		t.Fatal(err)
	}
	next := int64(0)
	for i := range g.NumTasks() {
		task := g.Task(graph.TaskID(i))
		if z := task.Steps[0].Launch.Grid[2]; z > 65_535 || int64(z)*4 != task.Uses[2].Bytes {
			t.Errorf("task %d: %d images, %d bytes of results", i, z, task.Uses[2].Bytes)
		}
		if task.Uses[2].Offset != next || task.Uses[0].Offset != next {
			t.Errorf("task %d begins at byte %d, want %d", i, task.Uses[2].Offset, next)
		}
		next += task.Uses[2].Bytes
	}
	if next != 4*images {
		t.Errorf("tasks write %d of %d bytes", next, 4*images)
	}
}
