// Package engine is weft's state machine. Step takes events and returns actions; in between it owns
// readiness, placement, data residency, retries, lineage, health and rebalancing for many graphs at
// once. Two loops drive it: internal/exec on real devices in real time, experimental/sim on a
// machine file in virtual time. It reads no clock, starts no goroutine and takes no lock: one owner
// calls it, and the same calls give the same actions.
//
//	Submit ─► admit ─► ready ─► policy ─► device queue ─► issue ─► in flight ─► done
//	                     ▲                    │   ▲           │         │
//	                     │                    └─steal─┘       │         │
//	                     └────────── retry, replay, lost device ◄───────┘
//
// One Step repeats placing and issuing until nothing moves, so that all consequences of an event
// are in the answer to it. docs/GLOSSARY.md defines the words.
//
// # Where values are
//
// A value is one version of one piece of data (graph.Flow). It has any number of copies. A copy is
// in a slot, the storage of one piece in an instance; an instance is a buffer in one memory for an
// interval of one data handle; a home is the instance that is the caller's own memory. A slot is
// claimed for a value when the operation that fills it is issued, so that readers can be issued
// behind that operation and wait for it by lane and sequence number.
//
// The store keeps these records and decides nothing. Only its methods change them (TestWalls); of
// the engine it knows a watcher, an interface of three methods. A value changes its flags by
// value.on(event) alone, by a table with the flags that each of 17 events needs, excludes, sets and
// clears; an event that does not fit panics. Records are named by index, each kind by a type of its
// own (taskID, slotID, valueID), so that one cannot be passed for another.
//
// Versioned data is written to a fresh buffer, and at most two versions of a piece live at a time:
// a writer waits until the version before last has been read. A value is updated in place if no
// other task reads it and another complete copy is in host memory. Volatile data is updated in
// place, except where other data would be recomputed from its only copy in host memory.
//
// # Where a task is
//
// A task is in one of ten places, and task.where says which. task.move is the only code that
// changes it, by a table of legal moves; the constants in task.go name the list a task is on at
// each place and the code that takes it on. A task is ready when its predecessors are issued, not
// done, so that a chain needs no round trip. A device lane takes up to Depth tasks (64, or 256 if
// all devices use host memory) while those in flight are predicted to take less than Ahead (2 ms,
// or 0.5 ms), and always two. A lane of one of several devices that use host memory takes a task of
// 2 ms or more alone.
//
// Issuing is all or nothing: prepare finds or plans a buffer for each use and makes room, launch
// then emits the operations. A task that waits for memory therefore holds none, and tasks cannot
// wait for one another's memory. Operations in flight pin what they touch; nothing pinned is freed.
// A plain task (graph.Row.Plain) is issued in one pass (launchQuick).
//
// Operations of a lane start and end in order. Between lanes an operation lists the (lane,
// sequence) pairs it waits for; if one of them fails, it ends as DepFailed without having run and
// its task is ready again, so that no half-made value is read. A copy between devices is on the
// receiver's lane for copies in, over a network on the sender's lane for copies out. Where no link
// joins two memories, or where it is faster, a value goes through host memory in two copies.
//
// # Fairness
//
// Device queues are ordered by start-time fair queueing over runs. The virtual time of a run
// advances by the predicted cost of each task that becomes ready, divided by the run's weight; the
// key of a task is that time when it became ready. A new run begins at the virtual time reached.
// Each step of priority moves the key ahead by 100 ms of service: a head start, not a privilege, so
// that nothing starves. Tasks of a planned run have the keys of the plan's order. Runs of one graph
// keep their order, task by task, since they are items of a stream.
//
// # Memory
//
// Room is made by evicting copies that exist elsewhere, the least recently used first, then by
// spilling values to host memory. A device whose next task finds no room is on the wait list of its
// own memory and of host memory if that is limited. If nothing is in flight and something still
// waits, the engine tries tasks behind the first of a queue, then gives up buffers of which only a
// part is used, and only then fails a run, with an error that says what is short and where.
// HostBytes limits what the engine allocates in host memory, not the caller's memory.
//
// # Lineage
//
// As long as a needed value is only in device memory, the engine keeps its recipe: its producer and
// the values that this read, as copies in host memory or as recipes in turn. A value with a
// complete copy in host memory is an anchor, where chains of recipes end. A value that would take
// more than ReplayDepth tasks (32) or ReplayBound (1 s) to replay is committed: copied to host
// memory. Mirrored data is committed after every write. Without fault tolerance no recipe is kept.
//
// A loss ends the operations of the device, places its queue anew and forgets the copies in its
// memory, in the same step. A value is recomputed when a task is about to read it or when it is an
// output (recoverValue). A run that has ended is revived if another reads its results; what such a
// replay would read of the caller's memory is copied aside before the run is reported (vacate.go).
// If the memory of the device survived (Kept), its values are recomputed if they can be and waited
// for if not.
//
// # Health
//
//	          bad or late probe,                      3rd bad probe,
//	          failures in a row                       loss
//	healthy ─────────────────────► suspect ───────────────────────► lost ──ladder──► broken
//	   ▲                            │   ▲  ▲                         │                 │
//	   └── 3 good probes in a row ──┘   │  └───────── back ──────────┘◄── after a pause ┘
//	   ▲   (1 after a loss)             │
//	   └── let in ── draining ── let in ┘ if it was suspect before
//
// A suspect device gets no work, whether or not another one lives; what it runs goes on. It is
// probed every 100 ms. A strained device (temperature, memory, power, other programs) counts as
// twice as slow for two samples and is then drained. A failing one (unresponsive, too many failures
// in a row, uncorrectable memory errors, a task past its timeout) is dropped, as if lost. The
// ladder brings a lost device back: standby, restart, reopen, or rungs of the program. A task that
// was running when devices were lost more than MaxLosses times (2) is quarantined: its run fails
// with the time, place and cause of each loss. HealthRules and Limits have the thresholds.
//
// A call in host memory cannot be ended. One that keeps other runs from its device for 2 s is
// detached from its lane (detach.go); the memory it uses stays pinned, the task runs again into
// other memory, and a run whose memory it uses ends after it.
//
// # Files
//
// In reading order; each opens with a paragraph about its subject.
//
//	the contract    api.go (actions, events), engine.go (options, Step)
//	records         ids.go, records.go, task.go, lane.go, device.go, run.go
//	the store       store.go, residency.go, values.go, lists.go, store_check.go
//	before a task   resident.go, admit.go, room.go, turns.go, place.go, steal.go
//	a task          issue.go, team.go, prepare.go, launch.go, gang.go, copy.go, finish.go
//	after a task    home.go, lineage.go, vacate.go, end.go, left.go
//	memory          evict.go, shortage.go, capacity.go
//	failure         recover.go, health.go, standing.go, suspect.go, swap.go, timeout.go,
//	                limit.go, detach.go, giveup.go, patient.go, nodevice.go
//	watching        notice.go, energy.go
//	checks          check.go, check_on.go, check_room_on.go, check_values_on.go, check_off.go
package engine
