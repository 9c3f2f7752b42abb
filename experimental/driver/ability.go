package driver

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// Optional abilities. A device that has one implements its interface; callers
// find it by type assertion and do without where it is missing.

// Telemetry is a device's condition at one time; negative numbers are not known.
type Telemetry struct {
	Util      float64 // 0 to 1
	MemUsed   float64 // fraction of its memory, other programs' included
	MemBytes  int64   // of its memory in all
	TempC     float64
	PowerW    float64
	ClockMHz  float64
	MemErrors int64 // uncorrectable, since boot
	Faults    int64 // events after which the device is not to be trusted (as grave Xids), since it opened
}

// Telemeter reads the device's condition. Telemetry may take milliseconds and
// is called by a goroutine of its own, at the same time as the other methods.
type Telemeter interface {
	Telemetry() (Telemetry, error)
}

// Rung is a step of the ladder by which a lost device is brought back.
type Rung uint8

const (
	Standby Rung = iota // a process that is already warm takes over
	Restart             // a new process
	Reopen              // the device found and opened anew
)

// Reviver brings a lost device back. Revive is called after the device answered
// ErrDeviceLost, never twice at a time, on a goroutine of its own; kept says
// that buffers still hold what completed operations left in them. The device
// keeps its lanes: what was in flight completed with errors before Revive is
// called, and sequence numbers go on where they were.
type Reviver interface {
	Revive(ctx context.Context, r Rung) (kept bool, err error)
}

// PeerCopier copies directly from another device's memory: a Copy given to this
// device may name the other as From.
type PeerCopier interface {
	CanCopyFrom(other Device) bool
	// LinkTo describes the direct link to the other device, with its nominal rate; the
	// caller fills in its ends. It returns ErrUnavailable if no direct link is known.
	LinkTo(other Device) (machine.Link, error)
}

// HostMapper prepares host memory for fast copies, as by page-locking it. Memory
// that was not mapped can be copied all the same, slower. Both may be called
// while operations run, never for memory that operations in flight use.
type HostMapper interface {
	MapHost(mem []byte) error
	UnmapHost(mem []byte) error
}

// SlabMaker makes device memory that outlives the process using it: a keeper
// process makes slabs and hands out descriptors, users map them by number.
// Buffers are then placed by Alloc operations that name a slab.
type SlabMaker interface {
	// MakeSlab takes at least bytes of device memory and returns a descriptor
	// other processes can map, and the size made.
	MakeSlab(bytes int64) (fd int, size int64, err error)
	// MapSlab makes the memory behind fd usable as slab n, from 1 on. The
	// descriptor stays the caller's.
	MapSlab(n int32, fd int, size int64) error
	// UnmapSlab gives slab n up; no operation in flight uses it.
	UnmapSlab(n int32) error
	// DropSlab gives up a slab that was made here, by the descriptor MakeSlab returned,
	// which the caller closes after. The memory is free once no descriptor and no
	// mapping of it is left.
	DropSlab(fd int) error
}

// Hanger tells when a device last showed life, so that one that hangs inside
// its driver is noticed before a task's own timeout.
type Hanger interface {
	LastSeen() time.Time
}

// Exacter is a device that would use library routines or reduced precision
// where they are faster. SetExact, called before Attach, makes it run nothing
// but the kernels it is given, in the precision they state.
type Exacter interface {
	SetExact()
}

// SharedMemory is host memory that several processes map. Its methods are safe
// for concurrent use.
type SharedMemory interface {
	// Get returns memory whose content is not defined, aligned to a page where
	// it is as large as one and to a cache line else.
	Get(bytes int64) ([]byte, error)
	// Put gives back what Get returned. Its bytes must not be touched after.
	Put(mem []byte)
	// Owns reports whether memory is of this one.
	Owns(mem []byte) bool
	// Board makes a board.
	Board(lanes int) (*Board, error)
}

// Partial is a device some of whose operations need an answer from another process,
// which may take any time. SubmitSome is Submit up to the first of them: it returns how
// many it took, and does not wait. Submit takes the others and waits; it may be called
// by another goroutine than the rest, and Completions, Drop and SubmitSome do not wait
// for it.
type Partial interface {
	SubmitSome(batch []Op) (int, error)
}

// Dropper gives up on what a device runs, as when that hangs: all of it
// completes with ErrDeviceLost, and the device is lost.
type Dropper interface {
	Drop(cause error)
}

// Stopper ends operations early whose results are not needed. Each still completes in its
// turn: with ErrStopped, or, if it was too late to stop it, as it would have without.
type Stopper interface {
	Stop(op Wait)
}

// Detacher lets an operation that does not end go on by itself, so that its lane is free
// for others. The goroutine that submits calls Detach, which returns false if the operation
// has completed. Otherwise operations given to the lane after it, up to upto, never begin
// and are never reported; the next one given begins at once; and the detached operation
// completes out of order, whenever it ends. On the board all these count as failed.
type Detacher interface {
	Detach(op Wait, upto uint32) bool
}

// Tuned is the decision of a device about a kernel: the implementation and the launch shape
// that were fastest for steps of one size class.
type Tuned struct {
	Kernel string  `json:"kernel"`
	Hash   string  `json:"hash"`  // of the implementations: for others it does not hold
	Class  int     `json:"class"` // binary logarithm of the grid's extent; 64 more for steps that name their block
	Entry  string  `json:"entry"`
	Block  int     `json:"block,omitempty"` // threads of a block, where that was the device's choice
	NS     float64 `json:"ns"`
}

// Tuner keeps what a device learned about variants, so that it can be saved.
// Both may be called while operations run.
type Tuner interface {
	// Tuning returns the decisions taken so far, in a fixed order.
	Tuning() []Tuned
	// Tune takes decisions of an earlier run. It ignores those that the device does not
	// know.
	Tune([]Tuned)
}

// Joiner makes a device a rank among others, for collective operations by a
// vendor's own library. One of the devices makes a name, all join with it under a
// number the caller chose, and launches of gangs name that number (see
// Communicator). All methods may be called while operations run.
type Joiner interface {
	// CollectiveID makes a name by which ranks find one another, in this process
	// or others.
	CollectiveID() ([]byte, error)
	// Join returns when all ranks have joined, or with an error when ctx ends
	// first: the device has left then.
	Join(ctx context.Context, number uint64, id []byte, ranks, rank int) error
	// Leave ends a communicator on this device without waiting for it. Operations that run
	// on it complete with ErrDependency, later launches fail with ErrKernel. An unknown
	// number is ignored.
	Leave(number uint64)
}

// Communicator returns the number of the communicator the members of a gang
// launch are ranks of. It stands in the first eight bytes, little-endian, of the
// Params of a gang's only step when that step's kernel is a library routine.
func Communicator(t *graph.Task) (number uint64, ok bool) {
	if t.Gang < 2 || len(t.Steps) != 1 || len(t.Steps[0].Params) < 8 {
		return 0, false
	}
	k := t.Steps[0].Kernel
	if k == nil || len(k.Impls) == 0 || k.Impls[0].Dialect != graph.Library {
		return 0, false
	}
	return binary.LittleEndian.Uint64(t.Steps[0].Params), true
}
