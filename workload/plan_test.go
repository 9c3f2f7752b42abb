package workload_test

import (
	"context"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/driver"
	"github.com/weft-run/weft/internal/backend/fake"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/automata"
	"github.com/weft-run/weft/workload/merkle"
)

// Alone on a device with memory of its own, a job is one task unless copying and
// computing can overlap, and on CPU cores it is one in any case.
func TestPlanOverlapsCopies(t *testing.T) {
	d, err := fake.New(fake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	streamed, err := merkle.New(merkle.Config{N: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	rounds, err := automata.New(automata.Config{Rows: 512, Cols: 64, Steps: 8})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		drivers []driver.Driver
		job     workload.Job
		several bool
	}{
		{[]driver.Driver{d}, streamed, true}, {[]driver.Driver{d}, rounds, false}, {nil, streamed, false},
	} {
		o := weft.Options{Drivers: c.drivers}
		if c.drivers == nil {
			o.Devices = "cpu"
		}
		rt, err := weft.Open(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		p, err := workload.Plan(context.Background(), rt, c.job)
		rt.Close()
		if err != nil {
			t.Fatal(err)
		}
		if several := len(p.Ranges) > 4; several != c.several {
			t.Errorf("%s on %v: %d ranges", c.job.Name(), c.drivers, len(p.Ranges))
		}
	}
}
