// Package graph describes work: data handles, kernels as plain values, and tasks that use data
// through kernels. A Builder collects them, reports every mistake it can find, and Build returns an
// immutable Graph together with its Flow: the same graph in single-assignment form, which is what
// the engine runs.
//
// Workloads, the engine, the simulator and every backend speak in these types. The package imports
// nothing but the standard library, owns no clock, no lock and no device, and knows no backend by
// name.
//
// # Single-assignment form
//
// Every boundary that any use has divides its data into pieces; a task uses a piece whole or not at
// all. Every write of a piece makes a value with one producer, a number of readers and the value it
// replaces. A Flow holds this in flat arrays, with predecessors and successors of tasks in
// compressed rows. It is immutable and shared by all runs of the graph. Build computes it; Fuse
// makes one task of short tasks that can only run one after another.
//
// # Kernels and their parameters
//
// A kernel has an implementation for each kind of device, as data. Its parameters are declared
// once, as a Go structure of numbers:
//
//  1. Declare the structure. Fields are int (a count or an index: 32 bits without a sign for kernels),
//     uint32, int32, float32, uint64, int64, float64, and structures of these, whose fields stand in
//     their place.
//  2. Make the step by Step.With. Pack puts every number little-endian at a multiple of its size and
//     fills up to a multiple of the largest: the layout of C and of push constants. An int that takes
//     more than 32 bits is an error, which Build reports with the name of the task.
//  3. Register the Go function as weft.WithParams(f). It gets the structure by value.
//  4. In CUDA C and GLSL write a line "//params: name" and an empty struct P {…}; or
//     layout(push_constant) uniform P {…}; after it. internal/tools/weftparams writes the fields.
//
// Backends refuse Params of another length than a kernel's. They know the length from the structure
// (Go functions, library routines), from the signature of the entry in PTX, from the PTX that NVRTC
// makes of CUDA C, and from the push constants of a shader. Where these have vectors, arrays or
// structures in them, only Params that are too short are refused; a shader without push constants
// may have any.
//
// Routines of vendors take MatMul, Conv2D and Collective; a kernel that has a routine among its
// implementations has the same parameters in all.
//
// Files: graph.go (the words), builder.go, flow.go, fuse.go, params.go, routine.go (parameters of
// vendors' routines), elem.go (types of elements), json.go, json_encode.go and json_values.go.
package graph
