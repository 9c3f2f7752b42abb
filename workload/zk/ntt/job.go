package ntt

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/bits"
	"time"

	"github.com/consensys/gnark-crypto/ecc/bn254/fr"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/philox"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
)

// MaxLog is the log of the most elements of a transform.
const MaxLog = 26

// Transform says which of the four transforms is meant.
type Transform struct {
	Inverse bool // from values to coefficients
	Coset   bool // values at the roots of unity times the generator of the field
}

// String names the transform, as in "inverse coset".
func (t Transform) String() string {
	switch {
	case t.Inverse && t.Coset:
		return "inverse coset"
	case t.Inverse:
		return "inverse"
	case t.Coset:
		return "coset"
	}
	return "forward"
}

// Config is a job: a transform of elements, or of 2^Log that are drawn from Seed.
type Config struct {
	Transform
	Log  int
	Seed uint32
	// Elements are the elements to transform, in Montgomery form as fr.Element always is. They are
	// not changed. If they are nil, 2^Log elements are drawn; otherwise Log must be 0.
	Elements []fr.Element
}

// Validate checks a configuration.
func (c Config) Validate() error {
	n := len(c.Elements)
	switch {
	case c.Elements == nil && (c.Log < 0 || c.Log > MaxLog):
		return fmt.Errorf("ntt: 2^%d elements: %w: there may be 2^0 to 2^%d", c.Log, workload.ErrConfig, MaxLog)
	case c.Elements == nil:
		return nil
	case c.Log != 0:
		return fmt.Errorf("ntt: Elements and Log %d: %w: give one of them", c.Log, workload.ErrConfig)
	case n == 0 || n&(n-1) != 0 || n > 1<<MaxLog:
		return fmt.Errorf("ntt: %d elements: %w: their number must be a power of two up to 2^%d; append zeros", n, workload.ErrConfig, MaxLog)
	}
	return workload.Sweep(n, func(lo, hi int) error {
		for i := lo; i < hi; i++ {
			if !reduced(&c.Elements[i]) {
				return fmt.Errorf("ntt: element %d: %w: it is not below the prime; set it by SetBigInt or SetBytes", i, workload.ErrConfig)
			}
		}
		return nil
	})
}

var prime = fr.Modulus()

// reduced reports whether an element is below the prime.
func reduced(x *fr.Element) bool {
	for i := len(x) - 1; i >= 0; i-- {
		if p := uint64(prime.Bits()[i]); x[i] != p {
			return x[i] < p
		}
	}
	return false
}

// log is the log of the number of elements.
func (c Config) log() int {
	if c.Elements != nil {
		return bits.Len(uint(len(c.Elements))) - 1
	}
	return c.Log
}

// Bytes is the memory of the elements before and after and of the tables.
func (c Config) Bytes() float64 {
	log := min(max(c.log(), 0), 60)
	return 2*Size*float64(uint64(1)<<log) + Size*float64(tableLen(log))
}

// job is one transform.
type job struct {
	c      Config
	log    int
	x, out []fr.Element
	tables []fr.Element
	hosted bool // whether all devices read the elements where they are
	most   int  // log of the longest transform of a pass
}

// New prepares a transform.
// The job is a [workload.Job].
func New(c Config) (*job, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	j := &job{c: c, log: c.log(), most: logLocal, x: c.Elements, tables: tables(c.log(), c.Transform)}
	j.out = make([]fr.Element, 1<<j.log)
	if j.x == nil {
		j.x = make([]fr.Element, len(j.out))
		for i := range j.x {
			j.x[i] = drawn(c.Seed, i)
		}
	}
	return j, nil
}

// drawn is an element that is drawn.
func drawn(seed uint32, i int) (e fr.Element) {
	var b [Size]byte
	for half := range uint32(2) {
		for w, x := range (philox.Source{Seed: seed}).Block(uint64(i), 0, half) {
			binary.LittleEndian.PutUint32(b[16*half:][4*w:], x)
		}
	}
	e.SetBytes(b[:])
	return e
}

// Of transforms elements on the devices of a runtime that was opened with [Funcs] among its
// kernels, and leaves them as they are. There must be a power of two of them; anything else is
// an error that wraps [workload.ErrConfig].
func Of(ctx context.Context, rt *weft.Runtime, x []fr.Element, t Transform) ([]fr.Element, error) {
	if x == nil {
		x = []fr.Element{}
	}
	j, err := New(Config{Transform: t, Elements: x})
	if err != nil {
		return nil, err
	}
	if _, err := workload.Call(ctx, rt, j, "ntt"); err != nil {
		return nil, err
	}
	return j.out, nil
}

// Name says which transform it is, of how many elements.
func (j *job) Name() string { return fmt.Sprintf("ntt %s of 2^%d elements", j.c.Transform, j.log) }

// Class is X: integers modulo a prime.
func (j *job) Class() workload.Class { return workload.Exact }

// logRows is the log of the number of rows into which a transform is cut at most.
const logRows = 6

// rows is the log of the number of rows into which the transform is cut for several devices.
// There are as many columns as rows, or more.
func (j *job) rows() int { return min(logRows, j.log/2) }

// Items are the rows. A range has as large a share of the columns and of the result.
func (j *job) Items() sched.Items {
	return sched.Items{
		Extent: 1 << j.rows(),
		Bytes: func(lo, hi int64) (in, out int64) {
			part := Size * (hi - lo) << (j.log - j.rows())
			return part + Size*int64(len(j.tables)), part
		},
	}
}

// Hosted is the job with columns read where they are, which costs nothing in host memory.
func (j *job) Hosted() workload.Job {
	h := *j
	h.hosted = true
	return &h
}

// Feed moves the elements.
func (j *job) Feed(get func(bytes int) ([]byte, error)) (restore func(), err error) {
	mem, err := get(Size * len(j.x))
	if err != nil {
		return nil, err
	}
	old := j.x
	j.x = weft.View[fr.Element](mem)
	copy(j.x, old)
	return func() { j.x = old }, nil
}

// Bind ties the elements and the tables to the job's memory.
func (j *job) Bind() []weft.Binding {
	return []weft.Binding{weft.Bind("elements", j.x), weft.Bind("tables", j.tables), weft.Bind("transform", j.out)}
}

// Whole is the transform as one task.
func (j *job) Whole() graph.Task { return j.whole() }

// Result is the transform after a run, in the job's own memory.
func (j *job) Result() []fr.Element { return j.out }

// Summary is the first element of the result.
func (j *job) Summary() string { return "first element " + j.out[0].String() }

// Rate is butterflies a second.
func (j *job) Rate(d time.Duration) string {
	return fmt.Sprintf("%.2f Mbutterfly/s", float64(j.log)*float64(len(j.out))/2/d.Seconds()/1e6)
}
