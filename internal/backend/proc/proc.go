package proc

import (
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/arena"
	"github.com/weft-run/weft/machine"
)

// Maker makes a driver in a child process. config is Options.Config; device is
// the number of the one device the child is for, so that others need not be
// opened, or -1 for all. A driver that opens all of them nevertheless has the
// others closed.
type Maker func(config []byte, device int) (driver.Driver, error)

// Workers are the settings of worker processes, by the names that they have in weft.Options.
type Workers struct {
	// Memory is host memory to share with the children. All drivers of one
	// executor are given the same; whoever opened it closes it after them.
	Memory *arena.Arena
	// Standby keeps a second worker warm for each device, which takes over
	// after a fault without being started first.
	Standby bool
	// HangTimeout is the time after which a silent worker is given up on (10 s), also while it is
	// started and while it stands by. One that is busy may be silent for longer, unless it is stopped.
	HangTimeout time.Duration
	// WorkerCommand starts a child instead of the program itself, for programs whose
	// main does not call Main.
	WorkerCommand []string
	// Confine limits children to the system calls that a Go kernel needs: they start no programs,
	// use no network, signal, look into or schedule no other process, take no memory that WorkerBytes
	// does not count, read no files except programs and libraries, and write none. Without it they
	// lose only calls that neither a driver nor a kernel needs; see docs/RATIONALE.md.
	Confine bool
	// WorkerBytes is the private memory that a worker may take beyond what it has when its device
	// is open, if its kernels are functions of the worker itself; 0 means no limit.
	WorkerBytes int64
	// MemoryReserve is the memory of the machine to keep free, in bytes. When less is left, the worker
	// with the newest large task is ended, if its kernels are functions of the worker itself and
	// running workers hold the missing bytes; otherwise that is logged. With 0 memory is not
	// watched.
	MemoryReserve int64
}

// Options say what runs in children, and how.
type Options struct {
	Workers
	// Driver is the name the driver's Maker is known by in Main.
	Driver string
	// Config is handed to the Maker. Again, unless it is nil, takes its place for workers that are
	// started once a device is attached: in place of another, or to stand by.
	Config, Again []byte
	// Parts says how many workers a device found is served by: each is a device
	// of its own with a part of the memory. 0 leaves it out; nil means 1 each.
	Parts func(machine.Device) int
	// MemBytes limits the memory of each device before it is divided; 0 leaves it
	// to the driver.
	MemBytes int64
	// Env lists prefixes of the environment variables that children keep ("CUDA_"), in addition to
	// those that every program reads. With nil they keep all.
	Env []string
	// Available says how much is left, for tests; nil asks the system.
	Available func() int64
	// Answer is the time a child has to answer a request before it is killed (15 s, or twice Hang
	// if that is more), doubled for opening its device. It is longer than Hang, so that a worker
	// that hangs is found by its pulse first.
	Answer time.Duration
	// End is the time a worker has to end when its device is closed before it is killed (2 s): it
	// saves what it compiled and gives page-locked memory back. Children with nothing to save have
	// half of that.
	End time.Duration
}

// New returns the driver. Nothing is started before it is opened.
func New(o Options) driver.Driver { return &procDriver{o} }

type procDriver struct{ o Options }

func (d *procDriver) Name() string { return d.o.Driver }
