// Package driver is the contract between weft and a backend. A backend finds
// devices; a device takes batches of operations on numbered lanes and completes
// every one exactly once. The live executor is the only caller; whatever needs
// threads, processes or a vendor's library stays behind this contract.
//
// The contract says nothing about scheduling: which operation goes where and
// what it waits for is decided by the engine.
package driver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// Errors a backend answers with, wrapped in what it was doing.
var (
	// ErrUnavailable: the backend has nothing here (no library, no device). It
	// is not a fault.
	ErrUnavailable = errors.New("not available")
	// ErrOutOfMemory: the device could not provide a buffer.
	ErrOutOfMemory = errors.New("out of device memory")
	// ErrDeviceLost: nothing the device had in flight will complete, and unless
	// Traits.Keeps nothing it held exists any more. Where a kernel did it, the
	// error wraps ErrKernel as well; that kernel's own launch completed with
	// ErrKernel and not with this.
	ErrDeviceLost = errors.New("device lost")
	// ErrKernel: a kernel cannot be started. The next time it may be.
	ErrKernel = errors.New("kernel cannot run")
	// ErrUnfit is an ErrKernel that stays: the kernel has no implementation that the device can
	// run, or is given what it cannot take. It is not tried again on such a device.
	ErrUnfit = fmt.Errorf("%w", ErrKernel)
	// ErrNoFunc: a kernel's implementation in Go is not registered. Errors that wrap it
	// wrap ErrUnfit as well.
	ErrNoFunc = errors.New("no Go function is registered for it")
	// ErrFaulted: the kernel ran, and its device is lost by it. Errors that wrap it wrap ErrKernel
	// as well. It is no proof that the kernel is broken.
	ErrFaulted = errors.New("the device was lost while the kernel ran")
	// ErrDependency: an operation this one waited for failed, so it never began.
	ErrDependency = errors.New("what it waited for failed")
	// ErrSpoilt: a Go kernel failed after it had begun. What the task reads may have changed, so
	// that the task must not be run on it again.
	ErrSpoilt = errors.New("the kernel failed after it began; its inputs may have changed")
	// ErrChecksum: data is not what was written there. Of a launch, what its task only reads
	// changed while it ran.
	ErrChecksum = errors.New("data changed by itself, or a Go kernel wrote data that its task only reads")
	// ErrClosed: the device was closed before the operation began.
	ErrClosed = errors.New("device closed")
	// ErrStopped: the operation was ended early, as a Stopper was asked to.
	ErrStopped = errors.New("stopped")
)

// Driver finds the devices of one kind.
type Driver interface {
	// Name is the backend's name as in device names: "cpu", "cuda".
	Name() string
	// Open returns the devices found, opened, or ErrUnavailable. Devices that
	// fail to open are logged and left out.
	Open(ctx context.Context, log *slog.Logger) ([]Device, error)
}

// Traits are facts about a device that its driver knows and machine.Device does not hold. The zero
// Traits describe a device in the caller's process with nothing else known.
type Traits struct {
	// MemoryPeak is the rated bandwidth of the device's memory in bytes per second, 0 if
	// it is not known.
	MemoryPeak float64
	// HostLink describes the link between the device's memory and the host's. Its rate is
	// the rated one, 0 if it is not known. The caller fills in the two ends.
	HostLink machine.Link
	// Keeps says of a device that can be lost that its buffers may outlive that, so
	// that work can wait for them. Revive tells whether they did.
	Keeps bool
	// InProcess says that operations are done by threads of the process that has the device, and
	// by nothing else: when these have ended, so has whatever it did.
	InProcess bool
	// Shared is set for a device in another process: the board it is attached to, and
	// host memory it is to copy without staging, come from it. Devices of one executor
	// share one memory.
	Shared SharedMemory
	// Probes are implementations, by the name of the kernel, of the kernels that measure and check a
	// device (internal/probe), in a dialect in which these have none. Without them a device is not
	// measured, only learned from.
	Probes map[string]graph.Impl
	// OwnLanes is the number of lanes that a device in another process is given by Attach
	// beyond its compute and copy lanes, as the last of the list.
	OwnLanes int
}

// Device is an open device. Submit, Completions and Close are called by one
// goroutine; after Close only Completions may be.
type Device interface {
	// Info describes the device; what was measured may be zero.
	Info() machine.Device
	// Traits are further facts. It may be called at any time, and answers at once.
	Traits() Traits
	// Attach tells the device which lanes of the board are its own before the
	// first Submit: compute lanes, as many as Info says or fewer, then the lane for copies into
	// its memory, then the one for copies out of it; a worker has two of each, in turns. The
	// device calls wake after
	// operations completed; wake does not block. Lanes may have counted before,
	// for a device that takes another's place: numbers go on from there. Copies
	// and launches of tasks without steps, which only keep their place, may come
	// on any lane.
	Attach(b *Board, lanes []Lane, wake func())
	// Submit takes operations in order. It copies what it needs of the batch
	// and returns without waiting for them. Buffers are made and freed at
	// once, in the order of the batch; a failed Alloc fails what uses it. The
	// error is for a device that takes nothing any more. One that can tell which
	// kernel cost it refuses when that can be read from Completions, not before.
	Submit(batch []Op) error
	// Completions moves completed operations into dst and returns their number: one for every Copy
	// and Launch, in the order of their lane. A lost device reports its loss as a completion with
	// NoLane, after those of its operations.
	Completions(dst []Completion) int
	// Close ends the device: operations that have not begun complete with
	// ErrClosed, running ones are waited for, memory is freed.
	Close() error
}

// Buffer names a device buffer; numbers are the caller's and are reused after Free.
type Buffer int32

// Kind is the kind of an operation.
type Kind uint8

const (
	// Alloc makes Buf with Bytes, at once.
	Alloc Kind = iota
	// Free ends Buf, at once.
	Free
	// Copy moves Bytes between device buffers and host memory.
	Copy
	// Launch runs the steps of Task on Args.
	Launch
)

// Op is an operation. Slices in it belong to the caller after Submit returned;
// the host memory it points to must stay until the operation completed.
type Op struct {
	Kind  Kind
	Lane  Lane
	Seq   uint32 // on its lane, from 1, without gaps; 0 for Alloc and Free
	Waits []Wait
	Buf   Buffer // Alloc, Free
	Bytes int64  // Alloc, Copy
	// Secret: nothing is to be left behind. Of Free, the content of Buf is overwritten with zeros
	// before its memory is used again or given back. Of Copy and Launch, so is other memory that the
	// device takes for it, such as staging, once it is complete.
	Secret bool
	// Alloc: where the buffer lies, on devices that are SlabMakers and are
	// given slabs; Slab 0 leaves it to the device.
	Slab    int32
	SlabOff int64
	// Copy: its ends. Where Src or Dst is NoBuffer, host memory stands for it.
	// From is the device Src belongs to, when that is another one and this
	// device is a PeerCopier of it. That device was given before what makes Src
	// and what the copy waits for there.
	From             Device
	Src, Dst         Buffer
	SrcOff, DstOff   int64
	HostSrc, HostDst []byte
	// Launch: the steps to run, and on what.
	Task *graph.Task
	Args []Arg
	// Compare: where the task has a Go kernel, what it only reads is compared before and after,
	// and the launch fails with ErrChecksum if that has changed. Without it a launch that failed
	// after a kernel had begun, and reads anything, fails with ErrSpoilt. Launches of gangs are not compared.
	Compare bool
}

// NoLane is the lane of a completion that reports the loss of the device and belongs to no
// operation.
const NoLane Lane = -1

// NoBuffer stands for the absence of a device buffer.
const NoBuffer Buffer = -1

// Arg is a buffer a launch gets: a part of a device buffer, or host memory for
// devices that use it directly.
type Arg struct {
	Buf   Buffer
	Off   int64
	Bytes int64
	Host  []byte
}

// StepArgs returns what a step gets of the arguments of its task: all, or those
// it names, which are appended to into.
func StepArgs[T any](s *graph.Step, all, into []T) ([]T, error) {
	if s.Args == nil {
		return all, nil
	}
	for _, a := range s.Args {
		if a < 0 || a >= len(all) {
			return nil, fmt.Errorf("%w: it is to have argument %d of %d", ErrUnfit, a, len(all))
		}
		into = append(into, all[a])
	}
	return into, nil
}

// Completion tells how an operation ended. Err is nil, or wraps one of the
// errors above or the kernel's own.
type Completion struct {
	Lane       Lane
	Seq        uint32
	Start, End time.Duration // by Board.Now
	Err        error
}
