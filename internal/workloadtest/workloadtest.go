// Package workloadtest is what every workload's job is tested for: the same
// bytes on any number of devices, and a check that finds what is wrong. Tests of
// workloads call it; it must not know any of them.
package workloadtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload"
)

// Open opens the cores as that number of devices and deals work out to all of them,
// however little it is. Nothing is measured before, and they are closed when the
// test ends.
func Open(t testing.TB, parts int, funcs map[string]weft.Func) *weft.Runtime {
	t.Helper()
	rt, err := weft.Open(t.Context(), weft.Options{
		NoCalibrate: true, CacheDir: "off",
		Devices: fmt.Sprintf("cpu/%d", parts), Partitioner: "equal", Funcs: funcs,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rt.Close() })
	return rt
}

// Run runs a job, for two minutes at most.
func Run(t testing.TB, rt *weft.Runtime, j workload.Job) *workload.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	res, err := workload.Run(ctx, rt, j)
	if err != nil {
		t.Fatalf("%s: %v", j.Name(), err)
	}
	return res
}

// New returns what a workload's constructor made, and ends the test if it made
// an error.
func New[J any](t testing.TB) func(j J, err error) J {
	return func(j J, err error) J {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
}

// Invariant runs new jobs on one to eight devices, with -short on one, three and eight, and
// compares the bytes of their results, which classes X and R promise to be the same. Every
// job must pass its own check, and work for all devices must become tasks for all.
func Invariant[J workload.Job](t *testing.T, funcs map[string]weft.Func, make func() (J, error), result func(J) []byte) {
	t.Helper()
	var want []byte
	devices := []int{1, 2, 3, 4, 5, 6, 7, 8}
	if testing.Short() {
		devices = []int{1, 3, 8}
	}
	for _, parts := range devices {
		j := New[J](t)(make())
		if class := j.Class(); class != workload.Exact && class != workload.RowExact {
			t.Fatalf("%s is of class %s, which promises no bytes", j.Name(), class)
		}
		if res := Run(t, Open(t, parts, funcs), j); res.Tasks < parts {
			t.Errorf("%s: %d tasks for %d devices", j.Name(), res.Tasks, parts)
		}
		if parts == 1 {
			Declares(t, j)
		}
		if err := j.Check(); err != nil {
			t.Fatalf("%s on %d devices: %v", j.Name(), parts, err)
		}
		if got := result(j); want == nil {
			want = bytes.Clone(got)
		} else if !bytes.Equal(got, want) {
			t.Errorf("%s: %d devices give other bytes than one", j.Name(), parts)
		}
	}
}

// Finds runs a job, sees that its check passes, spoils its result and sees that
// the check then fails with the error, or with any if that is nil.
func Finds(t *testing.T, funcs map[string]weft.Func, j workload.Job, what string, spoil func(), want error) {
	t.Helper()
	Run(t, Open(t, 2, funcs), j)
	if err := j.Check(); err != nil {
		t.Fatalf("%s: %v", j.Name(), err)
	}
	spoil()
	if err := j.Check(); err == nil || want != nil && !errors.Is(err, want) {
		t.Errorf("%s with a wrong %s: the check says %v", j.Name(), what, err)
	}
}

// Bytes views a slice as bytes.
func Bytes[T any](xs []T) []byte {
	if len(xs) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&xs[0])), len(xs)*int(unsafe.Sizeof(xs[0])))
}

// Above returns the size above which errors of one element show, which the first miss
// of a job's check names last.
func Above(t testing.TB, j workload.Job) (above float64) {
	t.Helper()
	what := j.(workload.Inspected).Misses()[0].What
	if _, err := fmt.Sscan(what[strings.LastIndex(what, " ")+1:], &above); err != nil {
		t.Fatalf("%q names no size: %v", what, err)
	}
	return above
}
