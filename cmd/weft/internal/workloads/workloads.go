// Package workloads lists all workloads of the command: those of the catalogue and those of proofs, which need a module
// of their own. It brings their flags to package pflag and makes jobs of them.
//
// Files: workloads.go (the list, flags, jobs), zk.go (workloads of proofs), growth.go (jobs of other sizes),
// operations.go (operations of mathematical domains, which are workloads with flags).
package workloads

import (
	"context"
	"maps"
	"slices"

	"github.com/spf13/pflag"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/internal/catalog"
	"github.com/weft-run/weft/internal/signature"
	"github.com/weft-run/weft/workload"
)

// list has the workloads in the order in which benchmarks run them and help names them: those of proofs but the last
// stand before autodiff, which is the last of the catalogue.
var list = func() []catalog.Entry {
	all, most := catalog.All(), len(proofs)-1
	return append(slices.Insert(all, len(all)-1, proofs[:most]...), proofs[most])
}()

// All returns every workload.
func All() []catalog.Entry { return slices.Clone(list) }

// Find returns the workload of that name.
func Find(name string) (catalog.Entry, bool) {
	i := slices.IndexFunc(list, func(w catalog.Entry) bool { return w.Name == name })
	if i < 0 {
		return catalog.Entry{}, false
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
func Choose(only []string) (out []catalog.Entry, err error) {
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
	out := catalog.Funcs()
	for _, w := range proofs {
		maps.Copy(out, w.Funcs())
	}
	return out
}

// Bind adds flags of a workload to those of a command.
func Bind(to *pflag.FlagSet, flags *catalog.Flags) {
	for _, f := range flags.All() {
		to.VarPF(f, f.Name, f.Shorthand, f.Usage).NoOptDefVal = f.Bare
	}
}

// Flags adds the flags of a workload to those of a command, and returns the order they make.
func Flags(to *pflag.FlagSet, w catalog.Entry) catalog.Order {
	flags, order := w.Order()
	Bind(to, flags)
	return order
}

// Job makes the job of an order, for a process that ends when ctx does: it returns at once then, and what it began goes
// on.
func Job(ctx context.Context, o catalog.Order) (workload.Job, error) {
	j, _, err := abandonable(ctx, func(ctx context.Context) (workload.Job, bool, error) {
		j, err := o.Make(ctx)
		return j, true, err
	})
	return j, err
}

// Outline makes the outline of an order's job as Job makes the job. runs reports whether it can also be run.
func Outline(ctx context.Context, o catalog.Order) (j workload.Job, runs bool, err error) {
	return abandonable(ctx, o.MakeOutline)
}

func abandonable(ctx context.Context, make func(context.Context) (workload.Job, bool, error)) (workload.Job, bool, error) {
	var made workload.Job
	var runs bool
	err := terminal.Abandonable(ctx, func() (err error) {
		made, runs, err = make(ctx)
		return err
	})
	if err != nil {
		return nil, false, err // and made may still be written
	}
	return made, runs, nil
}
