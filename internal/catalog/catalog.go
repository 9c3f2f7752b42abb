// Package catalog lists the workloads as a command offers them: their flags, their
// Go kernels, and how to make them larger. weft run and the benchmarks read it.
package catalog

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/spf13/pflag"

	"github.com/weft-run/weft"
	comm "github.com/weft-run/weft/collective/live"
	"github.com/weft-run/weft/internal/host"
	"github.com/weft-run/weft/internal/signature"
	"github.com/weft-run/weft/internal/terminal"
	"github.com/weft-run/weft/workload"
)

// Entry is a workload as the command offers it.
type Entry struct {
	Name  string
	Short string // what it does, from a verb on
	Funcs func() map[string]weft.Func
	// flags adds the workload's own flags and returns the order they make.
	flags  func(f *pflag.FlagSet) Order
	Growth Growth
}

// Order is a job that flags describe. It is made by Job, after the flags are parsed.
type Order struct {
	name  string
	bytes func() float64 // host memory that the job will take; a float64, which no size overflows
	valid func() error   // what is wrong with the flags, files aside
	// make makes the job. Where that takes much longer than to fill memory it ends soon after ctx does.
	make func(ctx context.Context) (workload.Job, error)
	// reads returns the name of the file that the job is made from, "" for none. It is set for
	// workloads whose jobs are workload.Tabular, and nil for others.
	reads func() string
	// of is the structure that the job is made from; nil for workloads that are of none.
	of *structure
	// outline makes the job without what only runs need; nil where that takes no time.
	outline func(context.Context) (workload.Job, error)
}

// config is the interface of all configurations of workloads.
type config interface {
	Bytes() float64
	Validate() error
}

// order binds a configuration, to which flags write, to the function that makes its job. complete sets what flags
// leave open, and errs at flags that the configuration by itself does not tell from others.
func order[C config, J workload.Job](c *C, make func(C) (J, error), complete ...func() error) Order {
	completed := func() (C, error) {
		for _, f := range complete {
			if err := f(); err != nil {
				return *c, err
			}
		}
		return *c, nil
	}
	return Order{
		bytes: func() float64 {
			c, _ := completed()
			return c.Bytes()
		},
		valid: func() error {
			c, err := completed()
			if err == nil {
				err = c.Validate()
			}
			return err
		},
		make: func(context.Context) (workload.Job, error) {
			c, err := completed()
			if err != nil {
				return nil, err
			}
			j, err := make(c)
			if err != nil {
				return nil, err
			}
			return j, nil
		},
	}
}

// Flags adds the workload's own flags to f.
func (w Entry) Flags(f *pflag.FlagSet) Order {
	o := w.flags(f)
	terminal.PlainNumbers(f)
	o.name = w.Name
	return o
}

// Table reports whether the jobs are [workload.Tabular]. If so, reads returns the name of the file that the job is
// made from, "" for none, once flags are parsed: the table must not be written over it.
func (o Order) Table() (reads func() string, ok bool) { return o.reads, o.reads != nil }

// Validate returns an error for flags that make no job, with the words that Job has for it, and for a job that takes
// more memory than the machine has. It reads no file and makes nothing. What is wrong is a mistake of the user.
func (o Order) Validate() error {
	if err := o.valid(); err != nil {
		return terminal.Usage(err)
	}
	return host.Fits(o.name, o.size())
}

// size is the memory that the job will take.
func (o Order) size() int64 { return int64(min(o.bytes(), math.MaxInt64/2)) }

// Make makes the job, or returns an error if it is not valid or needs more memory than is available. Nothing of it
// goes on after its end.
func (o Order) Make(ctx context.Context) (workload.Job, error) { return o.build(ctx, o.make) }

// Job is Make for a process that ends when ctx does: it returns at once then, and what it began goes on.
func (o Order) Job(ctx context.Context) (workload.Job, error) { return o.job(ctx, o.make) }

// Outline makes the job as far as a plan needs it: it has the graph of the job, and runs reports whether
// it can also be run.
func (o Order) Outline(ctx context.Context) (j workload.Job, runs bool, err error) {
	if o.outline == nil {
		j, err = o.Job(ctx)
		return j, true, err
	}
	j, err = o.job(ctx, o.outline)
	return j, false, err
}

func (o Order) job(ctx context.Context, make func(context.Context) (workload.Job, error)) (j workload.Job, err error) {
	var made workload.Job
	err = terminal.Abandonable(ctx, func() (err error) {
		made, err = o.build(ctx, make)
		return err
	})
	if err != nil {
		return nil, err // and made may still be written
	}
	return made, nil
}

// build checks the flags and calls make.
func (o Order) build(ctx context.Context, make func(context.Context) (workload.Job, error)) (workload.Job, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if err := host.Enough(o.name, o.size()); err != nil {
		return nil, err
	}
	j, err := make(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, host.ErrMemory):
		return nil, err
	case err != nil:
		return nil, terminal.Usage(err)
	}
	return j, nil
}

// All returns every workload.
func All() []Entry { return slices.Clone(list) }

// Find returns the workload of that name.
func Find(name string) (Entry, bool) {
	i := slices.IndexFunc(list, func(w Entry) bool { return w.Name == name })
	if i < 0 {
		return Entry{}, false
	}
	return list[i], true
}

// Names returns the names of all workloads.
func Names() (names []string) {
	for _, w := range list {
		names = append(names, w.Name)
	}
	return names
}

// Choose returns the workloads named, or all if only is empty. A name that is not one
// of a workload is a mistake of the user.
func Choose(only []string) (out []Entry, err error) {
	for _, name := range only {
		if err := terminal.MustName("workload", name, Names()); err != nil {
			return nil, err
		}
	}
	for _, w := range list {
		if len(only) == 0 || slices.Contains(only, w.Name) {
			out = append(out, w)
		}
	}
	return out, nil
}

// Kernels returns what the functions of Funcs take, by name.
func Kernels() []signature.Kernel {
	have := Funcs()
	return slices.DeleteFunc(signature.All(), func(k signature.Kernel) bool { return have[k.Name] == nil })
}

// Funcs returns the Go kernels of all workloads and of collective operations.
func Funcs() map[string]weft.Func {
	out := comm.Funcs()
	for _, w := range list {
		maps.Copy(out, w.Funcs())
	}
	return out
}
