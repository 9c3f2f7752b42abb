package workload

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Miss is a fault that a job's check may not see.
type Miss struct {
	What   string  `json:"what"`   // as in "one wrong row"
	Chance float64 `json:"chance"` // that the check passes all the same, at most
}

// Inspected is the optional ability of a job to say what its check may miss.
type Inspected interface {
	// Misses says it of the last Check that passed.
	Misses() []Miss
}

// sweepParts is into how many parts Sweep cuts its range. It does not depend on the
// machine, so that a check that adapts within a part is the same everywhere.
const sweepParts = 64

// Sweep calls check for parts of the numbers from 0 to n-1, on all cores, and returns
// the error of the lowest part that has one. It begins no part behind one that failed.
func Sweep(n int, check func(lo, hi int) error) error {
	parts := min(sweepParts, n)
	errs := make([]error, parts)
	var next, failed atomic.Int64
	failed.Store(int64(parts))
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), parts) {
		all.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= failed.Load() {
					return
				}
				if errs[i] = check(int(i)*n/parts, (int(i)+1)*n/parts); errs[i] != nil {
					for at := failed.Load(); i < at && !failed.CompareAndSwap(at, i); at = failed.Load() {
					}
				}
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
