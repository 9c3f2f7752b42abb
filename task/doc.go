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
package task
