package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/learn"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/internal/safefile"
	"github.com/weft-run/weft/workload/reservoir"
)

func newTrain() *cobra.Command {
	c := &cobra.Command{
		Use:   "train MODEL",
		Short: "Train a model on this machine and save it",
		Args:  terminal.OneOf("model"),
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() }, // not reached: Args err
	}
	c.AddCommand(newTrainReservoir())
	return c
}

// training is a call of `weft train reservoir`.
type training struct {
	settings settings
	tasks    []string
	size     int
	seed     uint32
	seeds    int
	out      string
	asJSON   bool
	// Settings of the reservoir, of which those that were given replace the task's.
	params  reservoir.Params
	steps   int
	mode    string
	feature string
	lambda  float64
}

// trainTasks are the tasks that come with weft.
var trainTasks = []string{"digits", "memory", "narma10"}

func newTrainReservoir() *cobra.Command {
	t := &training{}
	c := &cobra.Command{
		Use:   "reservoir",
		Short: "Train the readout of an echo-state network",
		Long: `Train the readout of a reservoir (an echo-state network) on the devices of this
machine, print how well it does on samples it was not trained on, and save it as
a safetensors file. A task is one of

  narma10   predict a nonlinear system of order ten; the score is the error
            relative to the deviation of the output (NRMSE): less is better
  digits    recognise 1,797 handwritten digits, pixels as rates of spikes; the
            score is the share that is recognised
  memory    measure how many past inputs the state of a reservoir holds, as
            the mean of ten seeds; the model that is saved is of the first

or a FILE of your own, several times for several. A line is a pattern in JSON:

  {"duration": 100, "spikes": [[0, 12.5], [3, 40, 0.5]], "label": "left"}

Spikes have a channel, a time in milliseconds and, if it is not 0, an amplitude
above the amplitude of a plain spike. Instead of a label a line may have a
target, a list of numbers. Every fourth pattern is for testing.`,
		Example: `  weft train reservoir --task digits --size 500 --out digits.safetensors
  weft train reservoir --task narma10 --size 200
  weft train reservoir --task left.jsonl --task right.jsonl -o m.safetensors`,
		Args:              terminal.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(c *cobra.Command, _ []string) error { return t.run(c) },
	}
	f := c.Flags()
	f.StringArrayVar(&t.tasks, "task", nil, "`task` to train for: narma10, digits, memory or a file")
	f.IntVar(&t.size, "size", 500, "neurons; 100 for memory if it is not given")
	f.Uint32Var(&t.seed, "seed", 1, "seed of weights and of what the task draws")
	f.IntVar(&t.seeds, "seeds", 10, "seeds that memory takes the mean of")
	f.StringVarP(&t.out, "out", "o", "", "write the model to a `file`; - is standard output")
	f.BoolVar(&t.asJSON, "json", false, "write the scores as JSON")
	f.Float64Var(&t.params.SpectralRadius, "radius", 0, "spectral radius of the recurrent weights, below 1")
	f.Float64Var(&t.params.Connectivity, "connectivity", 0, "share of weights that are not zero")
	f.Float64Var(&t.params.Leak, "leak", 0, "share of the new activation in a step, up to 1")
	f.Float64Var(&t.params.InputScaling, "input", 0, "scale of the input weights")
	f.Float64Var(&t.params.BiasScaling, "bias", 0, "scale of the biases")
	f.Float64Var(&t.params.Noise, "noise", 0, "noise in training")
	f.IntVar(&t.steps, "steps", 0, "steps into which a pattern is divided")
	f.StringVar(&t.mode, "mode", "", "what a pattern is: a sequence of bins, or one histogram")
	f.StringVar(&t.feature, "feature", "", "state that the readout reads: mean or last")
	f.Float64Var(&t.lambda, "lambda", 0, "ridge of the regression")
	for _, name := range taskSettings { // the task decides unless they are given
		f.Lookup(name).DefValue = "the task's"
	}
	t.settings.bind(f, "devices")
	terminal.Complete(c, "task", func() []string { return trainTasks })
	terminal.Complete(c, "mode", func() []string { return []string{reservoir.Histogram, reservoir.Sequence} })
	terminal.Complete(c, "feature", func() []string { return []string{reservoir.Last, reservoir.Mean} })
	terminal.Complete(c, "devices", deviceNames)
	return c
}

// taskSettings are the flags that a task has values for. Those of the reservoir come
// first.
var taskSettings = []string{"radius", "connectivity", "leak", "input", "bias", "noise", "steps", "mode", "feature", "lambda"}

// trained is the JSON of a training.
type trained struct {
	Task    string    `json:"task"`
	Size    int       `json:"size"`
	Seed    uint32    `json:"seed"`
	Score   string    `json:"score"` // what the figures are
	Train   *float64  `json:"train,omitempty"`
	Test    float64   `json:"test"`
	Each    []float64 `json:"each,omitempty"` // by seed
	Samples []int     `json:"samples,omitempty"`
	Seconds float64   `json:"seconds"`
	Devices []string  `json:"devices"`
	File    string    `json:"file,omitempty"`
	Bytes   int64     `json:"bytes,omitempty"`
}

func (t *training) run(c *cobra.Command) error {
	task, err := t.task(c.Flags())
	if err != nil {
		return err
	}
	var out *terminal.Output
	if t.out != "" {
		if out, err = terminal.OpenOutput(c, t.out); err != nil {
			return err
		}
		defer out.Close()
	}
	o, err := t.settings.options()
	if err != nil {
		return err
	}
	rt, err := open(c.Context(), o, c.ErrOrStderr())
	if err != nil {
		return err
	}
	defer rt.Close()
	begin := time.Now()
	r := trained{Task: strings.Join(t.tasks, ", "), Size: t.size, Seed: t.seed}
	for _, d := range rt.Machine().Devices {
		r.Devices = append(r.Devices, d.Name)
	}
	var m *reservoir.Model
	if task == nil {
		m, err = t.memory(c, rt, &r)
	} else {
		m, err = t.train(c.Context(), rt, task, terminal.StartProgress(c.ErrOrStderr(), t.asJSON, "part", 4), &r)
	}
	if err != nil {
		return err
	}
	r.Seconds = time.Since(begin).Seconds()
	if out != nil {
		err := out.Replace(func(w io.Writer) (err error) {
			r.Bytes, err = m.WriteTo(w)
			return err
		})
		if err != nil {
			return err
		}
		r.File = t.out
	}
	return terminal.Print(c, t.asJSON, r, func(b *bytes.Buffer) error { return r.print(b, m) })
}

// task makes the task of the flags; it is nil for memory, which has no samples.
func (t *training) task(f *pflag.FlagSet) (*learn.Task, error) {
	if len(t.tasks) == 0 {
		return nil, terminal.Usagef("what to train for is missing: use --task with %s or a file of patterns", strings.Join(trainTasks, ", "))
	}
	name := t.tasks[0]
	own := slices.ContainsFunc(t.tasks, func(n string) bool { return slices.Contains(trainTasks, n) })
	if own && len(t.tasks) > 1 {
		return nil, terminal.Usagef("--task %s: train for one task at a time; only files can be several", strings.Join(t.tasks, ", "))
	}
	if f.Changed("seeds") && name != "memory" {
		return nil, terminal.Usagef("--seeds is for --task memory")
	}
	if t.size < 1 || t.size > 1<<15 {
		return nil, terminal.Usagef("--size %d: use 1 to %d neurons", t.size, 1<<15)
	}
	var task *learn.Task
	var err error
	switch name {
	case "memory":
		return nil, t.checkMemory(f)
	case "narma10":
		task = learn.NARMA10(t.size, t.seed)
	case "digits":
		task, err = learn.Digits(t.size, t.seed)
	default:
		task, err = t.files()
	}
	if err != nil {
		return nil, err
	}
	t.override(f, &task.Params)
	set(f, "steps", &task.Model.Steps, t.steps)
	set(f, "mode", &task.Model.Mode, t.mode)
	set(f, "feature", &task.Model.Feature, t.feature)
	set(f, "lambda", &task.Lambda, t.lambda)
	if task.Model.Mode == reservoir.Histogram && !f.Changed("steps") {
		task.Model.Steps = 1
	}
	return task, t.check(task)
}

// check checks the settings of a task before devices are opened.
func (t *training) check(task *learn.Task) error {
	if err := task.Params.Validate(); err != nil {
		return terminal.Usage(err)
	}
	if err := terminal.MustName("mode", task.Model.Mode, []string{reservoir.Histogram, reservoir.Sequence}); err != nil {
		return err
	}
	if err := terminal.MustName("feature", task.Model.Feature, []string{reservoir.Last, reservoir.Mean}); err != nil {
		return err
	}
	switch {
	case task.Model.Mode == reservoir.Histogram && task.Model.Steps != 1:
		return terminal.Usagef("--steps %d: mode %s has one step", task.Model.Steps, reservoir.Histogram)
	case task.Model.Steps < 1 || task.Model.Steps > 1<<20:
		return terminal.Usagef("--steps %d: use 1 to %d", task.Model.Steps, 1<<20)
	case !(task.Lambda >= 0) || math.IsInf(task.Lambda, 0):
		return terminal.Usagef("--lambda %v: use a number from 0 on", task.Lambda)
	}
	return nil
}

// override puts what flags say of the reservoir in place of what the task does.
func (t *training) override(f *pflag.FlagSet, p *reservoir.Params) {
	set(f, "radius", &p.SpectralRadius, t.params.SpectralRadius)
	set(f, "connectivity", &p.Connectivity, t.params.Connectivity)
	set(f, "leak", &p.Leak, t.params.Leak)
	set(f, "input", &p.InputScaling, t.params.InputScaling)
	set(f, "bias", &p.BiasScaling, t.params.BiasScaling)
	set(f, "noise", &p.Noise, t.params.Noise)
}

// set replaces a value if the flag was given.
func set[T any](f *pflag.FlagSet, flag string, to *T, value T) {
	if f.Changed(flag) {
		*to = value
	}
}

// files reads the patterns of files.
func (t *training) files() (*learn.Task, error) {
	var files learn.Files
	for _, name := range t.tasks {
		f, err := safefile.OpenInput(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, terminal.Usagef("%s: no such task; give a file, or one of %s", name, strings.Join(trainTasks, ", "))
		}
		if err != nil {
			return nil, terminal.Usage(terminal.FileError(name, err))
		}
		err = files.Read(name, f)
		f.Close()
		if err != nil {
			return nil, terminal.Usage(err)
		}
	}
	task, err := files.Task(t.size, t.seed)
	if err != nil {
		return nil, terminal.Usage(fmt.Errorf("%s: %w", strings.Join(t.tasks, ", "), err))
	}
	return task, nil
}

// train runs a task.
func (t *training) train(ctx context.Context, rt *weft.Runtime, task *learn.Task, p *terminal.Progress, r *trained) (*reservoir.Model, error) {
	defer p.Finish()
	parts := 0
	result, err := task.Run(ctx, rt, func(what string) {
		if parts > 0 {
			p.Add()
		}
		parts++
		p.At("%s", what)
	})
	if err != nil {
		return nil, err
	}
	r.Score = "NRMSE"
	if task.Classes() {
		r.Score = "accuracy"
	}
	r.Train, r.Test, r.Samples = &result.Trained, result.Tested, []int{len(task.Train), len(task.Test)}
	return result.Model, nil
}

// checkMemory checks the flags for memory.
func (t *training) checkMemory(f *pflag.FlagSet) error {
	for _, name := range []string{"steps", "mode", "feature", "lambda"} {
		if f.Changed(name) {
			return terminal.Usagef("--%s: the memory of a reservoir is measured without", name)
		}
	}
	if t.seeds < 1 || t.seeds > 1000 {
		return terminal.Usagef("--seeds %d: use 1 to 1000", t.seeds)
	}
	if !f.Changed("size") {
		t.size = 100
	}
	p := learn.Memory(t.size, t.seed)
	t.override(f, &p)
	t.params = p
	if err := p.Validate(); err != nil {
		return terminal.Usage(err)
	}
	return nil
}

// memory measures the memory capacity for every seed.
func (t *training) memory(c *cobra.Command, rt *weft.Runtime, r *trained) (first *reservoir.Model, err error) {
	progress := terminal.StartProgress(c.ErrOrStderr(), t.asJSON, "seed", t.seeds)
	defer progress.Finish()
	r.Score = "memory capacity"
	for i := range t.seeds {
		p := t.params
		p.Seed += uint32(i)
		progress.At("seed %d", p.Seed)
		m, capacity, err := learn.Capacity(c.Context(), rt, p)
		if err != nil {
			return nil, err
		}
		if first == nil {
			first = m
		}
		r.Each = append(r.Each, capacity)
		r.Test += capacity / float64(t.seeds)
		progress.Add()
	}
	return first, nil
}

// print writes the scores as text.
func (r *trained) print(b *bytes.Buffer, m *reservoir.Model) error {
	w := m.Weights
	fmt.Fprintf(b, "reservoir of %s, %s, %s; %s of its %s state\n\n", terminal.Count(w.Size, "neuron"),
		terminal.Count(w.Inputs, "channel"), terminal.Count(m.Steps, "step"), terminal.Count(m.Readout.Outputs, "output"), m.Feature)
	rows := [][]any{{"", "samples", r.Score}}
	switch {
	case r.Train != nil:
		rows = append(rows, []any{"training", r.Samples[0], fmt.Sprintf("%.4f", *r.Train)}, []any{"testing", r.Samples[1], fmt.Sprintf("%.4f", r.Test)})
	default:
		rows = [][]any{{"seed", r.Score}}
		for i, v := range r.Each {
			rows = append(rows, []any{r.Seed + uint32(i), fmt.Sprintf("%.2f", v)})
		}
		rows = append(rows, []any{"mean", fmt.Sprintf("%.2f", r.Test)})
	}
	terminal.Table(b, rows)
	fmt.Fprintf(b, "\ntrained on %s in %s\n", strings.Join(r.Devices, ", "), terminal.Seconds(r.Seconds))
	if r.File != "" {
		fmt.Fprintf(b, "saved to %s, %s\n", r.File, terminal.SI(float64(r.Bytes), "B"))
	}
	return nil
}
