package workloads

import (
	"context"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/weft-run/weft/internal/catalog"
	"github.com/weft-run/weft/workload"
)

// Sized makes a workload's job with some sizes set. It adds to sizes the flags of its
// growth that are not there, at their defaults.
func Sized(ctx context.Context, w catalog.Entry, sizes map[string]int) (workload.Job, error) {
	o, err := sized(w, sizes)
	if err != nil {
		return nil, err
	}
	return Job(ctx, o)
}

// Defaults returns the flags of growth at their defaults.
func Defaults(w catalog.Entry) (map[string]int, error) {
	sizes := make(map[string]int)
	_, err := sized(w, sizes)
	return sizes, err
}

// SizedAt returns the sizes of a job whose first flag of growth has a value, with the
// others in proportion to their defaults.
func SizedAt(w catalog.Entry, first int) (map[string]int, error) {
	sizes, err := Defaults(w)
	if err != nil {
		return nil, err
	}
	return w.Growth.At(sizes, float64(first)), nil
}

// sized is Sized before the job is made.
func sized(w catalog.Entry, sizes map[string]int) (catalog.Order, error) {
	flags, o := w.Order()
	for _, name := range w.Growth.Flags {
		f := flags.Lookup(name)
		n, ok := sizes[name]
		if ok {
			if err := f.Set(strconv.Itoa(n)); err != nil {
				return o, err
			}
			continue
		}
		n, err := strconv.Atoi(f.String())
		if err != nil {
			return o, err
		}
		sizes[name] = n
	}
	return o, nil
}

// Part makes a job like one that flags of a workload describe, with about a part of its work: the flags of growth are
// smaller and the others are the same.
func Part(ctx context.Context, w catalog.Entry, given *pflag.FlagSet, part float64) (workload.Job, error) {
	flags, o := w.Order()
	for _, f := range flags.All() {
		// One without a value of its own sets others, as --size does.
		if g := given.Lookup(f.Name); g.Changed && g.Value.String() != "" {
			if err := f.Set(g.Value.String()); err != nil {
				return nil, err
			}
		}
	}
	sizes := make(map[string]int)
	for _, name := range w.Growth.Flags {
		n, err := given.GetInt(name)
		if err != nil {
			return nil, err
		}
		sizes[name] = n
	}
	for name, n := range w.Growth.Times(sizes, part) {
		if err := flags.Lookup(name).Set(strconv.Itoa(n)); err != nil {
			return nil, err
		}
	}
	return Job(ctx, o)
}
