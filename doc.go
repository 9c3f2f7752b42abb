// Package weft runs task graphs on every compute device of a machine: it finds
// the devices, measures them, splits the work by what each can really do, keeps
// them all busy and survives the loss of any of them with the same result.
//
// Go functions that run on cores alone, as tasks, need none of this: they are in package task, which a
// program can import by itself. A task that calls this package, with the context it was given, lets others
// run while the call waits.
//
// # A first run
//
// [Open] finds and opens the devices and returns a [Runtime], which the program
// keeps and closes at its end. Work is a graph, made with package graph: data by
// name and size, and tasks that say which parts of the data they read and write.
// The order of tasks, the copies between memories and the choice of devices
// follow from that. [Runtime.Run] runs a graph with the caller's slices bound to
// its inputs and outputs, and returns a [Report]. The first example shows all of
// it.
//
// A kernel is what a task runs. It can have an implementation for each kind of
// device; one in Go is a [Func] registered under its name in [Options].Funcs, and
// sees its data through [View]. Its parameters are a structure of numbers, which
// [graph.Step.With] packs for all of them and [WithParams] unpacks. [graph.GoKernel] makes a
// kernel of the name of its Func, and [graph.Grid] the Launch of a step over some items.
//
// # Ways to run
//
//   - [Runtime.Run] runs a graph and waits. Contexts end it early.
//   - [Runtime.Submit] starts it and returns a [Handle]; any number may be under
//     way.
//   - [Runtime.Prepare] checks a graph once that is run often, and makes each run
//     cheaper.
//
// Memory bound to a run belongs to it until the run has ended, however it ends.
// An input that is not also an output is never written to, except by a Go kernel that breaks
// the rule of [Func].
//
// # Data that stays
//
// Every run sends its inputs to the devices and fetches its outputs. Data that
// many runs use, as the weights of a model, is made resident with [Put] or
// [Alloc] and bound with [Data.As]: it stays where it was used last, and
// [Data.Get] fetches it when it is wanted.
//
// # Secret data
//
// Data that is marked (graph.Data.Secret), and what tasks compute from it, leaves no copies:
// memory that devices and the runtime took for it is overwritten with zeros when it is freed.
// Runtime.RunStages keeps none of it in checkpoints.
//
// # Computations that outlive their process
//
// [Runtime.Steps] calls a function step by step and keeps the state, which is resident data or
// memory, in checkpoints; [Runtime.RunStages] runs a graph so. [Options].Checkpoint says where,
// how often, and whether to resume what another process began.
//
// # Cutting work
//
// A graph may have many more tasks than there are devices; placing them evens out.
// Where the program itself decides how large tasks are, [Runtime.Split] tells what
// share each device should get.
//
// # Watching
//
// [WithProgress] has a callback told how far the runs of a context are, [Handle.Progress] and [Runtime.Runs]
// tell it when asked, [Runtime.Running] which tasks devices run.
// [Runtime.Events] is a stream of what happens: tasks that
// end or fail, devices that are lost and come back. [Runtime.Metrics] counts. With
// [Options].Socket the command weft top watches from outside.
//
// # Settings
//
// The zero [Options] are good to begin with. What operators may want to change
// has a key, listed by [Keys], that is the same in configuration files
// ([LoadOptions]), in flags of the command and in [Options.Set].
//
// # Errors
//
// Errors are told apart with errors.Is and errors.As: a run that fails ends with
// a [RunError] that names the unfinished tasks and wraps the cause, such as a
// [TaskError], [ErrOutOfMemory] or [ErrCancelled]. A task that fails is tried
// again, elsewhere if it can be, unless its kernel may have changed what it reads
// (Options.Retries); a device that is lost fails nothing as long as
// another can do its work. A run whose context ends waits for the kernels in flight,
// since they use the caller's memory: those in Go that take long should ask
// [Call.Stopped] and return.
//
// # How a run begins
//
// Run and Submit resolve the bindings to the graph's ports (inputs, outputs, and handles bound to resident data) and
// hand an exec.Job to the loop; Prepare does the first part once and reuses the jobs of runs that have ended, so that a
// run allocates only its report. When a run begins, the memory it binds is claimed until it ends (claims.go): the
// memory of an output must overlap no other memory of this run or of one in progress. Prepare also fuses short
// tasks (graph.Fuse), which a CUDA device launches by one call. Apply builds the graph itself: a task for each range
// that Plan gives, over the caller's slices.
//
// # How checkpoints are made
//
//	step or stage ──► due? ──► save: compare and copy ──► step or stage ──► …
//	                             live blocks into copies         │ meanwhile
//	                             (saver.go)                      ▼
//	                               data-N, sync ─► manifest, sync ─► folder, sync
//	                                  ─► rename to checkpoint-N ─► folder, sync ─► old files go
//
// The computation waits while the state is copied: once for memory of the program, twice for resident data, which is
// brought home first. A goroutine writes meanwhile. When the context ends, the last checkpoint is on the disk before
// the call returns. A stage that is cancelled leaves resident data as it was, and so does a step if its state is all
// resident and no run of it had ended (resident.writes). Otherwise the copy after an earlier step is written;
// saver.hold makes it, after the first step that changed memory, or resident data by several runs, and whenever
// five hundred times as long has passed as the copy took. A checkpoint belongs to a computation if name, parameters,
// number of steps, and for a graph the SHA-256 of its JSON and of each input are the same. A folder is locked by the
// runtime that has it open.
//
// # Watching
//
//	Engine.Watch ─notices─► loop ─publish, once a step─► Feed ─► Runtime.Events
//	                                                      ├──► callback of WithProgress
//	                                                      └──► client of the socket ─► weft top
//
// Figures are computed only while a client or a callback asks for them. internal/exec has the feeds, internal/monitor the protocol of the socket;
// a figure of a device is a line of figures in socket.go.
//
// # Beside this package
//
// Package pipeline runs streams of items through stages. Package model runs graphs that
// are files, with the sources of their kernels and their weights. The packages below workload
// compute with the caller's data in one call, as gemm.Mul and merkle.RootOf. Package experimental/sim
// runs a graph on a described machine in virtual time, with the engine that also runs it
// live; package trace tells where the time went. What may import what is checked by
// internal/tools/house/layering_test.go.
package weft
