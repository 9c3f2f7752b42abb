package cpu

import (
	"errors"
	"fmt"
	"hash/crc32"
	"unsafe"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
)

// What a task only reads is in the caller's memory, or in a copy that other tasks read. Had a
// kernel written it and failed, it would be run again on other inputs. A failure after a
// kernel has begun is therefore final, unless what the task reads was compared.

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum is the checksum of an argument.
type sum struct {
	arg int
	crc uint32
}

// begin begins a launch: it makes the checksums of what the task only reads, if they are wanted.
func (l *lane) begin(q *queued, args [][]byte) {
	l.began, l.before = false, l.before[:0]
	task := q.task
	if !q.compare || task.Gang > 1 { // the task does not tell which arguments a member of a gang has
		return
	}
	for i := range task.Uses {
		if task.Uses[i].Access == graph.Read && !updated(task, args, i) {
			l.before = append(l.before, sum{i, crc32.Checksum(args[i], castagnoli)})
		}
	}
}

// updated reports whether the memory of an argument is also written, as for volatile data.
func updated(task *graph.Task, args [][]byte, of int) bool {
	for i := range task.Uses {
		if task.Uses[i].Access.Writes() && overlap(args[i], args[of]) {
			return true
		}
	}
	return false
}

// overlap reports whether two slices share memory.
func overlap(a, b []byte) bool {
	x, y := uintptr(unsafe.Pointer(unsafe.SliceData(a))), uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return x < y+uintptr(len(b)) && y < x+uintptr(len(a))
}

// compared returns the error of a launch that ended with err: that what its task only reads has
// changed, if it has, or may have.
func (l *lane) compared(task *graph.Task, args [][]byte, err error) error {
	if !l.began || err == nil && len(l.before) == 0 || l.dev.o.Apart != "" { // a kernel of weft's own is run apart
		return err
	}
	if errors.Is(err, driver.ErrStopped) { // its run has failed, and nothing is tried again
		return err
	}
	for _, s := range l.before {
		if crc32.Checksum(args[s.arg], castagnoli) == s.crc {
			continue
		}
		changed := fmt.Errorf("%w: argument %d", driver.ErrChecksum, s.arg)
		if err != nil {
			return fmt.Errorf("%w; %w", err, changed)
		}
		return fmt.Errorf("kernel %q: %w", l.kernel.Name, changed)
	}
	reads := 0
	for i := range task.Uses {
		if task.Uses[i].Access == graph.Read {
			reads++
		}
	}
	if err != nil && len(l.before) < reads {
		return driver.Spoilt(err)
	}
	return err
}
