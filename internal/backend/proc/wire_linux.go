package proc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/fault"
	"github.com/weft-run/weft/graph"
)

// Records in the rings. All numbers are little-endian and of fixed size; what
// follows a count is checked against the record's length as it is read.

// verb says what a record is.
type verb byte

const (
	doAlloc   verb = iota + 1 // make a buffer
	doFree                    // end it
	doCopy                    // an operation
	doLaunch                  // likewise
	doKernel                  // a kernel's definition, in parts
	doSegment                 // a segment of the arena there is
	doUnslab                  // give up a slab
	doStop                    // end an operation early
	doClose                   // end
	hasEnded                  // an operation's end; the only record the other way
)

// writer appends a record's fields.
type writer struct{ b []byte }

func (w *writer) begin(v verb) { w.b = append(w.b[:0], byte(v)) }
func (w *writer) u8(x uint8)   { w.b = append(w.b, x) }
func (w *writer) flag(x bool) {
	if x {
		w.u8(1)
	} else {
		w.u8(0)
	}
}
func (w *writer) u32(x uint32)   { w.b = binary.LittleEndian.AppendUint32(w.b, x) }
func (w *writer) i64(x int64)    { w.b = binary.LittleEndian.AppendUint64(w.b, uint64(x)) }
func (w *writer) bytes(x []byte) { w.u32(uint32(len(x))); w.b = append(w.b, x...) }

func (w *writer) waits(ws []driver.Wait) {
	w.u32(uint32(len(ws)))
	for _, x := range ws {
		w.u32(uint32(x.Lane))
		w.u32(x.Seq)
	}
}

// steps writes what a launch runs, and how it uses its arguments; kernel gives each kernel's
// number.
func (w *writer) steps(t *graph.Task, kernel func(*graph.Kernel) uint32) {
	w.u32(uint32(t.Gang))
	w.u32(uint32(len(t.Uses)))
	for i := range t.Uses {
		w.u8(uint8(t.Uses[i].Access))
	}
	w.u32(uint32(len(t.Steps)))
	for i := range t.Steps {
		s := &t.Steps[i]
		w.u32(kernel(s.Kernel))
		for _, d := range [...]*[3]uint32{&s.Launch.Grid, &s.Launch.Block, &s.Launch.Cluster} {
			w.u32(d[0])
			w.u32(d[1])
			w.u32(d[2])
		}
		w.i64(int64(s.Launch.SharedBytes))
		coop := uint8(0)
		if s.Launch.Cooperative {
			coop = 1
		}
		w.u8(coop)
		w.bytes(s.Params)
		if s.Args == nil {
			w.u8(0)
			continue
		}
		w.u8(1)
		w.u32(uint32(len(s.Args)))
		for _, a := range s.Args {
			w.u32(uint32(a))
		}
	}
}

// reader takes a record's fields. After a mistake it returns zeros and bad is
// set.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.bad, r.b = true, nil
		return nil
	}
	x := r.b[:n]
	r.b = r.b[n:]
	return x
}

func (r *reader) u8() uint8 {
	if x := r.take(1); x != nil {
		return x[0]
	}
	return 0
}

func (r *reader) u32() uint32 {
	if x := r.take(4); x != nil {
		return binary.LittleEndian.Uint32(x)
	}
	return 0
}

func (r *reader) i64() int64 {
	if x := r.take(8); x != nil {
		return int64(binary.LittleEndian.Uint64(x))
	}
	return 0
}

// flag reads a bool. Anything but 0 and 1 is a mistake.
func (r *reader) flag() bool {
	x := r.u8()
	r.bad = r.bad || x > 1
	return x == 1
}

func (r *reader) bytes() []byte { return r.take(int(r.u32())) }

// count reads how many items of at least size bytes follow.
func (r *reader) count(size int) int {
	n := int(r.u32())
	if n > len(r.b)/size {
		r.bad, r.b = true, nil
		return 0
	}
	return n
}

// end reports whether the record was read to its end without a mistake.
func (r *reader) end() bool { return !r.bad && len(r.b) == 0 }

// minStep is the size in bytes of a step without parameters.
const minStep = 4 + 9*4 + 8 + 1 + 4 + 1

// readSteps makes a task of what steps wrote; kernel finds kernels by number.
func readSteps(blob []byte, kernel func(uint32) *graph.Kernel) (*graph.Task, bool) {
	r := reader{b: blob}
	t := &graph.Task{Gang: int(r.u32())}
	t.Uses = make([]graph.Use, r.count(1))
	for i := range t.Uses {
		t.Uses[i].Access = graph.Access(r.u8())
	}
	t.Steps = make([]graph.Step, r.count(minStep))
	for i := range t.Steps {
		s := &t.Steps[i]
		if s.Kernel = kernel(r.u32()); s.Kernel == nil {
			return nil, false
		}
		for _, d := range [...]*[3]uint32{&s.Launch.Grid, &s.Launch.Block, &s.Launch.Cluster} {
			d[0], d[1], d[2] = r.u32(), r.u32(), r.u32()
		}
		s.Launch.SharedBytes = int(r.i64())
		s.Launch.Cooperative = r.u8() != 0
		if p := r.bytes(); len(p) > 0 {
			s.Params = append([]byte(nil), p...)
		}
		if r.u8() != 0 {
			s.Args = make([]int, r.count(4))
			for k := range s.Args {
				s.Args[k] = int(r.u32())
			}
		}
	}
	return t, r.end()
}

// class is the part of an error that is more than text.
type class uint8

const (
	fine class = iota
	other
	outOfMemory
	lost
	brokenKernel
	lostByKernel // the device is lost, and a kernel that ended before did it
	dependency
	closed
	unavailable
	stopped
	panicked
	spoilt
	spoiltByPanic
	changed
	faulted
	unfit
)

// classes pairs classes with what the error wraps.
var classes = [...][]error{
	other: nil, outOfMemory: {driver.ErrOutOfMemory}, lost: {driver.ErrDeviceLost}, brokenKernel: {driver.ErrKernel},
	lostByKernel: {driver.ErrDeviceLost, driver.ErrKernel}, dependency: {driver.ErrDependency}, closed: {driver.ErrClosed},
	unavailable: {driver.ErrUnavailable}, stopped: {driver.ErrStopped}, panicked: {fault.ErrPanic},
	spoilt: {driver.ErrSpoilt}, spoiltByPanic: {driver.ErrSpoilt, fault.ErrPanic}, changed: {driver.ErrChecksum},
	faulted: {driver.ErrKernel, driver.ErrFaulted}, unfit: {driver.ErrUnfit},
}

func classOf(err error) class {
	switch kernel := errors.Is(err, driver.ErrKernel); {
	case err == nil:
		return fine
	case errors.Is(err, driver.ErrDeviceLost) && kernel:
		return lostByKernel
	case errors.Is(err, driver.ErrDeviceLost):
		return lost
	case errors.Is(err, driver.ErrFaulted):
		return faulted
	case errors.Is(err, driver.ErrChecksum):
		return changed
	case errors.Is(err, driver.ErrSpoilt) && errors.Is(err, fault.ErrPanic):
		return spoiltByPanic
	case errors.Is(err, driver.ErrSpoilt):
		return spoilt
	case kernel && errors.Is(err, driver.ErrOutOfMemory):
		return outOfMemory
	case errors.Is(err, driver.ErrUnfit):
		return unfit
	case kernel:
		return brokenKernel
	case errors.Is(err, driver.ErrDependency):
		return dependency
	case errors.Is(err, driver.ErrUnavailable): // whatever it was not available for
		return unavailable
	case errors.Is(err, driver.ErrOutOfMemory):
		return outOfMemory
	case errors.Is(err, driver.ErrClosed):
		return closed
	case errors.Is(err, driver.ErrStopped):
		return stopped
	case errors.Is(err, fault.ErrPanic):
		return panicked
	}
	return other
}

// remoteError is an error of a child: its text, and the sentinels it wrapped.
type remoteError struct {
	text string
	is   []error
}

func (e *remoteError) Error() string   { return e.text }
func (e *remoteError) Unwrap() []error { return e.is }

// errorOf makes the error again in the parent.
func errorOf(c class, text string) error {
	switch {
	case c == fine:
		return nil
	case int(c) >= len(classes):
		c = other
	case c == dependency && text == driver.ErrDependency.Error():
		return driver.ErrDependency // the frequent one, without a copy
	}
	return &remoteError{text, classes[c]}
}

// maxText bounds an error's text on the channel.
const maxText = 4 << 10

func (w *writer) completion(c *driver.Completion) {
	w.begin(hasEnded)
	w.u32(uint32(c.Lane))
	w.u32(c.Seq)
	w.i64(int64(c.Start))
	w.i64(int64(c.End))
	w.u8(uint8(classOf(c.Err)))
	if c.Err == nil {
		w.u32(0)
		return
	}
	text := c.Err.Error()
	w.bytes([]byte(text[:min(len(text), maxText)]))
}

// ended is a completion as read.
type ended struct {
	lane       driver.Lane
	seq        uint32
	start, end time.Duration
	class      class
	err        error
}

// readCompletion reads a record of a worker, of which nothing is taken for granted.
func readCompletion(rec []byte) (e ended, err error) {
	r := reader{b: rec}
	v := verb(r.u8())
	e.lane, e.seq = driver.Lane(r.u32()), r.u32()
	e.start, e.end = time.Duration(r.i64()), time.Duration(r.i64())
	e.class = class(r.u8())
	text := r.bytes()
	if v != hasEnded || !r.end() || int(e.class) >= len(classes) || len(text) > maxText {
		return ended{}, fmt.Errorf("%w: record %d of %d bytes for a completion", errGarbage, v, len(rec))
	}
	if e.class != fine {
		e.err = errorOf(e.class, strings.ToValidUTF8(string(text), "?"))
	}
	return e, nil
}
