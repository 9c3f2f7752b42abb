package serve

import (
	"context"

	"github.com/weft-run/weft/internal/catalog"
	"github.com/weft-run/weft/workload"
)

// Workload is a kind of job that clients may ask for, besides those that come with the server.
type Workload struct {
	Name string
	Does string // what its jobs do, from a verb on
	// New returns an order, with parameters that have their defaults. It is called for every job that is asked for.
	New func() Order
}

// Order is a job that a client describes by its parameters. Its functions are called once these are set.
type Order struct {
	Parameters []Parameter
	Bytes      func() float64 // host memory that the job takes
	Check      func() error   // the mistake in the parameters, nil for none; it makes nothing
	// Make makes the job. It ends soon after ctx does.
	Make func(ctx context.Context) (workload.Job, error)
}

// Parameter is a parameter of a job.
type Parameter struct {
	Name, Usage string
	Value       Value
}

// Value is what a parameter is set to. Values of package pflag are such.
type Value interface {
	Set(s string) error
	String() string // the default until it is set
	Type() string   // as clients are told
}

// offers returns the workloads that come with the server, and more.
func offers(more []Workload) []catalog.Entry {
	out := catalog.All()
	for _, w := range more {
		out = append(out, catalog.Entry{Name: w.Name, Short: w.Does, Flags: func(f *catalog.Flags) catalog.Order {
			o := w.New()
			for _, p := range o.Parameters {
				f.Var(p.Value, p.Name, "", p.Usage)
			}
			return catalog.Order{Bytes: o.Bytes, Check: o.Check, Build: o.Make}
		}})
	}
	return out
}
