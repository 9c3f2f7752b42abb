package graph

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

// TaskID is a task's position in its graph, in the order of Add.
type TaskID int32

// DataID is a data handle's position in its graph, in the order of Data.
type DataID int32

// NoTask marks the absence of a task, as in the producer of an initial value.
const NoTask TaskID = -1

// Durability says what weft does so that losing a device does not lose a value.
type Durability uint8

const (
	// Versioned data is written into a fresh buffer, so a failed write leaves
	// its predecessor whole. At most two versions live at a time; one is
	// committed to host memory when recomputing it would cost more than the
	// engine's replay bound.
	Versioned Durability = iota
	// Mirrored data is copied to host memory after every write.
	Mirrored
	// Volatile data is updated in place and never committed on weft's own
	// account. A loss replays from the newest copy still held in host memory
	// if that is within the replay bound, and errs otherwise. So does an update
	// that was given to a device and withdrawn, because what it waits for failed,
	// or because a kernel of another run before it does not return.
	Volatile
)

var durabilityNames = [...]string{"versioned", "mirrored", "volatile"}

func (d Durability) String() string { return name(durabilityNames[:], int(d)) }

// Access is the kind of a task's use of a slice of data.
type Access uint8

const (
	// Read needs the newest value.
	Read Access = iota
	// Write replaces the slice and never looks at what was there.
	Write
	// ReadWrite updates the slice.
	ReadWrite
	// Reduce contributes to the slice. The kernel writes its contribution into a buffer of its
	// own; weft combines the contributions with the data's Combine kernel in a fixed tree over
	// task order, so contributors run in parallel and the result is the same bytes on any number
	// of devices. The result is added to the slice's value, so the slice must have one before.
	Reduce
)

var accessNames = [...]string{"read", "write", "readwrite", "reduce"}

func (a Access) String() string { return name(accessNames[:], int(a)) }

// Reads reports whether the access needs the value that was there.
func (a Access) Reads() bool { return a == Read || a == ReadWrite }

// Writes reports whether the access makes a new value.
func (a Access) Writes() bool { return a != Read }

// Unit names the arithmetic a piece of work is made of, so that the cost model
// can pick the rate a device was measured at.
type Unit uint8

const (
	FP32     Unit   = iota // single precision, the default
	FP64                   // double precision
	TF32                   // tensor cores on single-precision operands
	FP16                   // half or bfloat16 on tensor cores
	Int32                  // 32-bit integers
	NumUnits = iota        // number of units
)

var unitNames = [...]string{"fp32", "fp64", "tf32", "fp16", "int32"}

func (u Unit) String() string { return name(unitNames[:], int(u)) }

func name(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("unknown(%d)", i)
}

// SameBytes is the Tolerance of data of which every device computes the same bytes; where the
// elements are floating-point numbers, the bits of one that is not a number may differ.
const SameBytes = -1.0

// sameBytes stands for it in JSON.
const sameBytes = "same bytes"

// Data is a handle to bytes that tasks use.
type Data struct {
	Name       string
	Bytes      int64
	Durability Durability
	// Input data has a value before the graph starts; other data must be
	// written before it is read.
	Input bool
	// Output data is wanted by the caller: its last value is in host memory
	// (or stays resident, when bound to resident data) when the run ends.
	Output bool
	// Combine merges contributions of Reduce uses: its first argument is
	// read-write, the others are read, all of the same size.
	Combine *Kernel
	// Elem is the type of the elements and Shape how many there are in each dimension, in
	// C order: the last varies fastest. Tasks see bytes; those who bind data are told, and
	// package model checks what they bring. Both may be left out. With both, Bytes may be
	// 0 for what they take. An empty Shape that is not nil is one element.
	Elem  Elem
	Shape []int64
	// Tolerance says how results compare that devices of different kinds compute of the same
	// task, for runs that check results (weft.Options.Verify): SameBytes, or, for elements
	// that are floating-point numbers, how far two may be apart in parts of the largest magnitude. With
	// 0 such results are not compared. Devices of one kind must always give the same bytes.
	Tolerance float64
	// Weights names the file with the value of an input that no task writes, so that
	// package model puts it on devices once for all runs.
	Weights string
	// Secret data leaves no copy behind: memory of devices and of the host that held it, and the
	// workspace of tasks, is overwritten with zeros when it is freed. Memory that the caller binds
	// is the caller's to clear, and memory that a kernel allocates is the kernel's. What a task
	// writes that reads secret data is secret too: Build marks it. Resident data stays secret once
	// a run had it as secret data; what a graph without that mark computes from it is not secret.
	//
	// Checkpoints would write it to the disk: weft.Runtime.RunStages refuses a graph with secret
	// data, and weft.Runtime.Steps resident data that a run had as such. What memory that is bound
	// as state of Steps holds cannot be told.
	Secret bool
}

// Dialect says what an Impl's source is.
type Dialect string

const (
	Go      Dialect = "go"      // a function registered under Entry
	PTX     Dialect = "ptx"     // NVIDIA assembly for Arch or newer
	CUDAC   Dialect = "cudac"   // CUDA C, compiled at run time
	SPIRV   Dialect = "spirv"   // a Vulkan compute shader
	GLSL    Dialect = "glsl"    // compiled at run time when glslc is there
	Library Dialect = "library" // Entry names a vendor routine such as cublas.sgemm
	// Abstract kernels have a cost and no code: they run anywhere, in
	// simulations only.
	Abstract Dialect = "abstract"
)

// Impl is one implementation of a kernel. A GPU function takes the buffers of
// the task's uses as pointers and the workspace if there is one, or what the
// step's Args name of these, then the step's Params as one structure by value when
// there are any; a Vulkan shader has them as storage buffers of set 0, numbered in
// that order, and as push constants. An empty Entry stands for nothing to do: the
// step is for other kinds of device. Several implementations in one dialect are
// variants: the device picks the fastest of those it can run, by measurement.
type Impl struct {
	Dialect Dialect
	Arch    string // for PTX the oldest architecture it runs on, as "sm_75"
	Entry   string
	Source  []byte // PTX may be compressed by gzip; Code returns it as it is
	// File names the file with the source. Package model reads it into Source, which is what
	// devices run.
	File string
	// Per is the number of items of the step's grid, in each dimension, that one block of
	// a GPU launch or one item of a Go function's range covers: 0 means one,
	// All the whole dimension. Block is the threads of a block. Both are for
	// steps whose Launch names no Block of its own, so that one step suits
	// devices that cut its grid differently. PTX and CUDA C without Block have an
	// item for each thread, along the first dimension, in blocks of as many as
	// the device finds fastest: the function must look whether its item is in the
	// grid. So have shaders without Block and Per that leave the size of a group
	// to the specialization constants 0, 1 and 2.
	Per, Block [3]uint32
	// SharedBytes is dynamic shared memory, like Per for such steps.
	SharedBytes int
}

// All stands for the whole of a grid's dimension in Impl.Per.
const All = ^uint32(0)

// maxCode is the most bytes of code that Code decompresses: a hundred times the largest there is.
const maxCode = 64 << 20

// Code returns the source, decompressed where it is compressed by gzip.
func (i *Impl) Code() ([]byte, error) {
	if !bytes.HasPrefix(i.Source, []byte{0x1f, 0x8b}) {
		return i.Source, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(i.Source))
	if err != nil {
		return nil, fmt.Errorf("compressed source of %s: %w", i.Entry, err)
	}
	code, err := io.ReadAll(io.LimitReader(r, maxCode+1))
	if err != nil {
		return nil, fmt.Errorf("compressed source of %s: %w", i.Entry, err)
	}
	if len(code) > maxCode {
		return nil, fmt.Errorf("compressed source of %s: it has more than %d MiB", i.Entry, maxCode>>20)
	}
	return code, nil
}

// Shape returns the launch of a step by an implementation: the step's own when
// it names a block, and else its grid cut as the implementation says.
func (i *Impl) Shape(l Launch) Launch {
	for d := range l.Grid {
		l.Grid[d] = max(l.Grid[d], 1)
	}
	if l.Block[0] != 0 {
		return l
	}
	for d := range l.Grid {
		switch per := max(i.Per[d], 1); {
		case per == All:
			l.Grid[d] = 1
		default:
			l.Grid[d] = (l.Grid[d]-1)/per + 1
		}
		l.Block[d] = max(i.Block[d], 1)
	}
	l.SharedBytes = max(l.SharedBytes, i.SharedBytes)
	return l
}

// Kernel is one operation with an implementation per kind of device. Kernels
// are data: they hold no pointers to functions or devices.
type Kernel struct {
	Name  string
	Impls []Impl
}

// counts reports whether the kernel computes the items of a grid. Routines of vendors and
// kernels without code have none.
func (k *Kernel) counts() bool {
	return slices.ContainsFunc(k.Impls, func(i Impl) bool {
		return i.Entry != "" && i.Dialect != Library && i.Dialect != Abstract
	})
}

// Launch is the shape a step is started with; the function Grid makes one. Grid is the number
// of items in each dimension, or of blocks if there is a Block. A dimension of 0 counts as 1: a
// step without a Launch computes one item. A task that uses a part of some data must say what
// it launches.
type Launch struct {
	Grid, Block, Cluster [3]uint32
	SharedBytes          int
	Cooperative          bool

	wrong int64 // items that Grid was given and that no grid has, less one up to zero
}

// Grid returns the launch of a step over a number of items in each dimension, up to three,
// which implementations cut as suits them. Dimensions that are not given are one. Build
// reports a dimension of less than one item or of more than 2³²-1.
func Grid[N ~int | ~int64](items ...N) Launch {
	l := Launch{Grid: [3]uint32{1, 1, 1}}
	if len(items) > len(l.Grid) {
		panic(fmt.Errorf("graph: Grid: %d dimensions; there are at most %d", len(items), len(l.Grid)))
	}
	for d, n := range items {
		switch n := int64(n); {
		case n < 1:
			l.wrong = n - 1
		case n > math.MaxUint32:
			l.wrong = n
		default:
			l.Grid[d] = uint32(n)
		}
	}
	return l
}

// GoKernel returns a kernel with a Go implementation of the same name. per is the number of items
// of a step's grid that one item of the Go function covers, in each dimension; one where nothing
// is said.
func GoKernel(name string, per ...uint32) *Kernel {
	i := Impl{Dialect: Go, Entry: name}
	copy(i.Per[:], per)
	return &Kernel{Name: name, Impls: []Impl{i}}
}

// Step is one kernel started once. Its arguments are the buffers of the task's
// uses in order and the workspace if there is one, then Params, which With makes of a
// structure. A device refuses Params that are not as long as those the kernel takes. A
// shader whose push constants are not all numbers is the exception: for it only Params
// that are too short are refused. Compile shaders with glslc -O: -Os removes push
// constants that are not used, and Params that still have the last of them are refused.
type Step struct {
	Kernel *Kernel
	Launch Launch
	Params []byte
	// Args, when not nil, lists the buffers the step gets instead, in their
	// order: i stands for the task's i-th use and len(Uses) for its workspace.
	// Steps of a gang have all.
	Args []int

	wrong error // what With found
}

// Use names a slice of data and how the task uses it. Bytes 0 means the rest
// of the data from Offset on. In a gang task Rank says which member uses it.
type Use struct {
	Data   DataID
	Offset int64
	Bytes  int64
	Access Access
	Rank   int16
}

// Work is the caller's estimate of a task: arithmetic operations of a unit and
// bytes moved through device memory. Zero work still pays a launch.
type Work struct {
	Ops   float64
	Bytes float64
	Unit  Unit
}

// Constraint says where a task may run. Selectors are device names ("cuda:1"),
// all devices of a backend ("cuda") or kinds ("cpu", "discrete").
type Constraint struct {
	// Hint is a device the task would rather run on; it loses to a device
	// that finishes clearly earlier.
	Hint string
	// Only, when not empty, lists selectors the task must match one of.
	Only []string
}

// NoTimeout is the Timeout of a task that nothing ends however long it runs: a kernel
// that stays on its device until it is told to end.
const NoTimeout time.Duration = -1

// noTimeout stands for it in JSON.
const noTimeout = "none"

// Task is a unit of placement: steps that run in order on one device (or, with
// Gang, on several at once).
type Task struct {
	Name  string
	Steps []Step
	Uses  []Use
	// After lists tasks that must end first although no data says so.
	After []TaskID
	Work  Work
	// Workspace is scratch memory the task needs on its device.
	Workspace int64
	// Priority orders ready tasks, higher first; waiting tasks age, so none starves.
	Priority int
	// Timeout bounds one execution on a device; 0 leaves it to the run, and
	// NoTimeout is for kernels that run until they are told to end.
	Timeout time.Duration
	On      Constraint
	// Retries is the number of times that the task may fail before its run does; 0 leaves it
	// to the run, negative means never retry. Above 0 it also has what a Go kernel of the task only reads
	// compared. Package weft's Options.Retries has the details.
	Retries int
	// Gang is the number of devices that run the task together, all or none;
	// 0 and 1 mean one.
	Gang int
}

// Graph is an immutable set of tasks over data. It is safe for concurrent use
// and may be run any number of times.
type Graph struct {
	data    []Data
	tasks   []Task
	kernels []*Kernel
	flow    Flow
}

// NumTasks returns the number of tasks, those added by the builder to combine
// reductions included.
func (g *Graph) NumTasks() int { return len(g.tasks) }

// NumData returns the number of data handles.
func (g *Graph) NumData() int { return len(g.data) }

// Task returns a task. The caller must not change it.
func (g *Graph) Task(id TaskID) *Task { return &g.tasks[id] }

// Data returns a data handle. The caller must not change it.
func (g *Graph) Data(id DataID) *Data { return &g.data[id] }

// Kernels returns the kernels the graph's tasks use, each once.
func (g *Graph) Kernels() []*Kernel { return g.kernels }

// Flow returns the graph in single-assignment form.
func (g *Graph) Flow() *Flow { return &g.flow }

// TaskName returns the task's name, or its number when it has none.
func (g *Graph) TaskName(id TaskID) string {
	if n := g.tasks[id].Name; n != "" {
		return n
	}
	return fmt.Sprintf("task %d", id)
}

// Lookup returns the data handle with a name.
func (g *Graph) Lookup(name string) (DataID, bool) {
	for i := range g.data {
		if g.data[i].Name == name {
			return DataID(i), true
		}
	}
	return 0, false
}
