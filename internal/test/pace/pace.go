//go:build unix

// Package pace measures what code costs beside a fixed loop, in processor time of one process: figures that hold on
// machines of any speed, and on one that does other things as well.
package pace

import (
	"encoding/json"
	"flag"
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"
)

// Row is something to measure.
type Row struct {
	Case  string
	Tasks int    // of one run
	Run   func() // some milliseconds
}

// figure is a row of a report, as weft bench compare reads it.
type figure struct {
	Case  string  `json:"case"`
	Turns float64 `json:"turns_per_task"`
}

// Reports in a file; each figure of them is the median of several runs, with turns of the loop before and after each.
// Both take some milliseconds, so that what else the machine does disturbs them alike.
const (
	reports = 6
	pairs   = 15
	turns   = 10_000
)

var file = flag.String("pace", "", "append reports to this `file`")

// Measure measures rows in turns and appends reports to the file that flag -pace names.
func Measure(t *testing.T, rows []Row) {
	t.Helper()
	if *file == "" {
		t.Fatal("name a file: -args -pace FILE")
	}
	out, err := os.OpenFile(*file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	// The collector would take idle cores, and have more or less of them.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	l := newLoop()
	for _, r := range rows {
		r.Run() // grows what is kept
	}
	for range reports {
		var report []figure
		for _, r := range rows {
			var costs []float64
			beside := cost(l.Turns, turns)
			for range pairs {
				before, task := beside, cost(func(int) { r.Run() }, r.Tasks)
				beside = cost(l.Turns, turns)
				costs = append(costs, 2*task/(before+beside))
			}
			slices.Sort(costs)
			report = append(report, figure{r.Case, costs[pairs/2]})
			t.Logf("%-48s %6.2f turns, half from %.2f to %.2f", r.Case, costs[pairs/2], costs[pairs/4], costs[3*pairs/4])
		}
		if err := json.NewEncoder(out).Encode(report); err != nil {
			t.Fatal(err)
		}
	}
}

// cost returns the processor time of one of the n things that f does, in nanoseconds.
func cost(f func(n int), n int) float64 {
	began := processor()
	f(n)
	return float64(processor()-began) / float64(n)
}

// processor is the processor time that this process has had.
func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
