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
	valid func() error   // what is wrong with the configuration, files aside
	make  func() (workload.Job, error)
	// reads returns the name of the file that the job is made from, "" for none. It is set for
	// workloads whose jobs are workload.Tabular, and nil for others.
	reads func() string
	// outline makes the job without what only runs need; nil where that takes no time.
	outline func() (workload.Job, error)
}

// config is the interface of all configurations of workloads.
type config interface {
	Bytes() float64
	Validate() error
}

// order binds a configuration, to which flags write, to the function that makes its
// job. settle completes the configuration by what flags leave open.
func order[C config, J workload.Job](c *C, make func(C) (J, error), settle ...func()) Order {
	settled := func() C {
		for _, s := range settle {
			s()
		}
		return *c
	}
	return Order{
		bytes: func() float64 { return settled().Bytes() },
		valid: func() error { return settled().Validate() },
		make: func() (workload.Job, error) {
			j, err := make(settled())
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

// Job makes the job, or returns an error if it needs more memory than is available. A
// configuration that the workload refuses is a mistake of the user.
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

func (o Order) job(ctx context.Context, build func() (workload.Job, error)) (workload.Job, error) {
	if o.valid() == nil { // or build says in the workload's words what is wrong, and takes no memory
		if err := host.Enough(o.name, int64(min(o.bytes(), math.MaxInt64/2))); err != nil {
			return nil, err
		}
	}
	var made workload.Job
	err := terminal.Abandonable(ctx, func() (err error) {
		made, err = build()
		if err == nil || errors.Is(err, host.ErrMemory) {
			return err
		}
		return terminal.Usage(err)
	})
	if err != nil {
		return nil, err // and made may still be written
	}
	return made, nil
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
