package weft_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/sched"
)

// last places every task on the last device there is.
type last struct{ placed *atomic.Int64 }

func (l last) Place(v *sched.Situation, out []sched.Placement) []sched.Placement {
	for i := range v.Tasks {
		l.placed.Add(1)
		out = append(out, sched.Placement{Task: int32(i), Device: 1})
	}
	return out
}

// A policy of the caller's places tasks, of runs and of predictions.
func TestPlaceBy(t *testing.T) {
	var placed atomic.Int64
	rt, err := weft.Open(context.Background(), weft.Options{
		Devices: "cpu/2", NoCalibrate: true, CacheDir: "off",
		Funcs:   map[string]weft.Func{"inc": func(c *weft.Call, lo, hi int) { c.Args[0][0]++ }},
		PlaceBy: func(sched.Problem) sched.Policy { return last{&placed} },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	g, mem := incs(t, 4, 3), make([]byte, 4)
	rep, err := rt.Run(context.Background(), g, weft.Bind("x", mem))
	if err != nil || !bytes.Equal(mem, []byte{3, 3, 3, 3}) {
		t.Fatalf("%v, %v", mem, err)
	}
	if rep.Devices[0].Tasks != 0 || rep.Devices[1].Tasks != 12 || placed.Load() < 12 {
		t.Errorf("%d and %d tasks, %d placed", rep.Devices[0].Tasks, rep.Devices[1].Tasks, placed.Load())
	}
	if p, err := rt.Predict(context.Background(), g); err != nil || p.Devices[0].Tasks != 0 {
		t.Errorf("predicted %+v, %v", p, err)
	}
}

// One that is wrong costs a line in the log and nothing else.
func TestPlaceByWrong(t *testing.T) {
	var text bytes.Buffer
	rt, err := weft.Open(context.Background(), weft.Options{
		Devices: "cpu/2", NoCalibrate: true, CacheDir: "off", Log: slog.New(slog.NewTextHandler(&text, nil)),
		Funcs: map[string]weft.Func{"inc": func(c *weft.Call, lo, hi int) { c.Args[0][0]++ }},
		PlaceBy: func(sched.Problem) sched.Policy {
			return broken{}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	mem := make([]byte, 4)
	if _, err := rt.Run(context.Background(), incs(t, 4, 3), weft.Bind("x", mem)); err != nil || !bytes.Equal(mem, []byte{3, 3, 3, 3}) {
		t.Errorf("%v, %v", mem, err)
	}
	if err := rt.Close(); err != nil {
		t.Error(err)
	}
	if n := strings.Count(text.String(), "Options.PlaceBy"); n != 1 {
		t.Errorf("%d lines in the log:\n%s", n, text.String())
	}
}

type broken struct{}

func (broken) Place(*sched.Situation, []sched.Placement) []sched.Placement { panic("broken") }

// A partitioner of the caller's cuts work; what it leaves out is an error.
func TestCutBy(t *testing.T) {
	end := int64(100)
	rt, err := weft.Open(context.Background(), weft.Options{
		Devices: "cpu/2", NoCalibrate: true, CacheDir: "off",
		CutBy: func(p sched.Items, shares []sched.Share) (sched.Partition, error) {
			return sched.Partition{Ranges: []sched.Range{{Lo: 0, Hi: 10}, {Lo: 10, Hi: end}}}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	task := *incs(t, 1, 1).Task(0)
	if got, err := rt.Split(sched.Items{Extent: 100}, task); err != nil || fmt.Sprint(got.Ranges) != "[{0 10} {10 100}]" {
		t.Errorf("%v, %v", got.Ranges, err)
	}
	end = 99
	if _, err := rt.Split(sched.Items{Extent: 100}, task); !errors.Is(err, sched.ErrItems) {
		t.Errorf("an item left out: %v", err)
	}
}

// A policy of one's own is a value in the options.
func ExampleOptions_placeBy() {
	var placed atomic.Int64
	rt, g := counter(weft.Options{Devices: "cpu/2", PlaceBy: func(sched.Problem) sched.Policy { return last{&placed} }})
	defer rt.Close()
	rep, err := rt.Run(context.Background(), g, weft.Bind("x", []int32{1, 2, 3}))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(rep.Names[1], "ran", rep.Devices[1].Tasks)
	// Output: cpu:1 ran 1
}
