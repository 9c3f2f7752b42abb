// Package pipeline runs streams of items through stages that work at the same time: while one item
// is on a device, the next is prepared and the one before it is put away. Stages have queues of
// bounded length between them, so a slow stage holds up those before it and memory does not grow
// with the stream.
//
// A stage is a function; [OnDevices] makes one of a graph, whose steps can be spread over devices
// by a [Mode]. What happens on devices is the runtime's business: this package places nothing by
// itself, keeps no data on devices, and retries no item.
//
// Each stage has workers and a bounded queue before it. An item that fails passes through the
// stages after untouched, so that whoever waits for its turn learns of it. A reader in order keeps
// items that are early; the number of items in flight is limited, which bounds those too.
package pipeline
