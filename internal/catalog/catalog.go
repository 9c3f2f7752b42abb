// Package catalog lists the workloads that need no module but weft's own, as commands and servers offer them: what can
// be set of a job, the Go kernels, and what makes a job larger. The list of the command has more
// (cmd/weft/internal/workloads).
//
// Files: catalog.go (entries, and jobs that are made of them), flags.go (what can be set), growth.go (larger jobs),
// list.go (the list), protein.go (workloads of a protein's structure), fold.go (foldings, which are no workload).
//
// A workload is a row of list (list.go); an operation of a domain is a row of operations in cmd/weft/internal/workloads/operations.go: a workload
// with flags, not a package.
package catalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/collective"
	"github.com/weft-run/weft/internal/host"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/workload"
)

// Entry is a workload as it is offered.
type Entry struct {
	Name  string
	Short string // what it does, from a verb on
	Funcs func() map[string]weft.Func
	// Flags adds the workload's own flags and returns the order they make.
	Flags  func(f *Flags) Order
	Growth Growth
}

// Order is a job that flags describe. It is made by Make, after the flags are set.
type Order struct {
	Bytes func() float64 // host memory that the job will take; a float64, which no size overflows
	Check func() error   // what is wrong with the flags, files aside
	// Build makes the job. Where that takes much longer than to fill memory it ends soon after ctx does.
	Build func(ctx context.Context) (workload.Job, error)
	// Outline makes the job without what only runs need; nil where that takes no time.
	Outline func(ctx context.Context) (workload.Job, error)
	name    string
	// reads returns the name of the file that the job is made from, "" for none. It is set for
	// workloads whose jobs are workload.Tabular, and nil for others.
	reads func() string
	// of is the structure that the job is made from; nil for workloads that are of none.
	of *structure
}

// Config is the interface of all configurations of workloads.
type Config interface {
	Bytes() float64
	Validate() error
}

// OrderOf binds a configuration, to which flags write, to the function that makes its job. complete sets what flags
// leave open, and errs at flags that the configuration by itself does not tell from others.
func OrderOf[C Config, J workload.Job](c *C, make func(C) (J, error), complete ...func() error) Order {
	completed := func() (C, error) {
		for _, f := range complete {
			if err := f(); err != nil {
				return *c, err
			}
		}
		return *c, nil
	}
	return Order{
		Bytes: func() float64 {
			c, _ := completed()
			return c.Bytes()
		},
		Check: func() error {
			c, err := completed()
			if err == nil {
				err = c.Validate()
			}
			return err
		},
		Build: func(context.Context) (workload.Job, error) {
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

// Order returns the workload's flags and the order they make.
func (w Entry) Order() (*Flags, Order) {
	f := &Flags{}
	o := w.Flags(f)
	o.name = w.Name
	return f, o
}

// Table reports whether the jobs are [workload.Tabular]. If so, reads returns the name of the file that the job is
// made from, "" for none, once flags are set: the table must not be written over it.
func (o Order) Table() (reads func() string, ok bool) { return o.reads, o.reads != nil }

// Validate returns an error for flags that make no job, with the words that Make has for it, and for a job that takes
// more memory than the machine has. It reads no file and makes nothing. What is wrong is a [text.Mistake].
func (o Order) Validate() error {
	if err := o.Check(); err != nil {
		return mistake(err)
	}
	return host.Fits(o.name, o.size())
}

// size is the memory that the job will take.
func (o Order) size() int64 { return int64(min(o.Bytes(), math.MaxInt64/2)) }

// Make makes the job, or returns an error if it is not valid or needs more memory than is available. Nothing of it
// goes on after its end.
func (o Order) Make(ctx context.Context) (workload.Job, error) { return o.build(ctx, o.Build) }

// MakeOutline makes the job as far as a plan needs it: it has the graph of the job, and runs reports whether
// it can also be run.
func (o Order) MakeOutline(ctx context.Context) (j workload.Job, runs bool, err error) {
	if o.Outline == nil {
		j, err = o.Make(ctx)
		return j, true, err
	}
	j, err = o.build(ctx, o.Outline)
	return j, false, err
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
		return nil, mistake(err)
	}
	return j, nil
}

func mistake(err error) error { return text.Mistake{Err: err} }

func mistakef(format string, args ...any) error { return mistake(fmt.Errorf(format, args...)) }

// All returns every workload of the list.
func All() []Entry { return slices.Clone(list) }

// Funcs returns the Go kernels of the list's workloads and of collective operations.
func Funcs() map[string]weft.Func {
	out := collective.Funcs()
	for _, w := range list {
		maps.Copy(out, w.Funcs())
	}
	return out
}
