// Package task runs Go functions as tasks on all cores, with results, order, limits and errors.
// It needs nothing to be opened, and stands alone: a program that imports nothing else of weft is static,
// without libc, and has no device in it.
//
// # Tasks
//
// [Go] starts a task and returns a [Future] of its result; [Do] is Go without a result. A task may run after
// others ([After]), [Within] a [Limit], with a [Priority], a [Timeout] and a [Retry]. The function gets a context, which
// says which task it is: what is started and waited for with that context, or with one derived from it, is
// started and waited for by this task. [Future.Wait] therefore lets other tasks run meanwhile, and finds cycles ([ErrDeadlock]).
//
// [Scope] calls a function and returns when every task has ended that was started in it, with the first
// error, which cancels the others unless [KeepGoing] says otherwise.
//
// # Elements
//
// A function over many elements is one call: [Map], [Each] without results, [Filter], [Reduce], and
// [Stream] for sequences of any length. Elements are grouped by the time they take, so that a function may take
// nanoseconds or seconds. An error is an [ElementError] that says for which element.
//
// # Waiting
//
// As many tasks run at the same time as there are processors. One that waits for another, for a scope or for
// results of a stream does not count. One that blocks on something else, such as a channel or the network, says so
// by [Block], or runs within a limit; else those behind it wait for some milliseconds.
// Calls of the root package that take a context, such as Runtime.Run, do so by themselves.
//
// # Errors
//
// A function that panics is an error of its task, a [PanicError] with the stack, and so is one that ends its
// goroutine ([ErrGoexit]). A task that was not run, since another failed, has a [DependencyError]. Errors name
// tasks by [Name], or by their functions. A context that ends cancels tasks that have not begun, and
// their error is its cause.
//
// # Progress
//
// [WithProgress] has a callback told how many tasks and elements have ended.
//
// # How tasks run
//
// [Go] calls a function on a goroutine of a pool; its result is in a [Future]. Nothing here has to do with devices,
// data or the engine. Two packages below do the work:
//
//	Go ──plain──────────────► deque of the caller's slot ──┐
//	 │                                 ▲                   ├─► goroutine of the slot ─► function
//	 └─with options─► Gate.Add ──Queue─┘                   │        │
//	                    │  ▲   ──Offer──► Gate.Next ───────┘        │ ended
//	                    │  └───────────── Gate.Ended ◄──────────────┤ if the gate
//	                    └──Start──► a goroutine of its own ─► function ┘ knows the task
//
// internal/gate decides (predecessors, limits, priorities, retries, cancellation), internal/pool performs.
//
// # A function over elements
//
// [Map], [Each] and [Filter] are one pass; [Reduce] is one for each level of its tree. A pass begins with four parts
// for each processor, each a task without options. A part that has run for 200 µs gives the second half of what is
// left to a new task: parts of quick elements are never divided, and elements that take long end as tasks of their
// own. The clock is read after 1, 2, 4 … 64 elements. A part that fails lowers the number of the first element that
// failed: parts after it end, parts before it go on with a context that is cancelled. With options every element
// is a task, and the group cancels those that have not begun. The tree of Reduce combines neighbours, level by
// level; a task takes eight values at a time, three levels at once, which changes nothing of the tree. [Stream]
// starts a task for every element from a goroutine of its own, holds as many tokens as elements may be on their way,
// and waits for the futures in order.
package task
