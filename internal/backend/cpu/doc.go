// Package cpu makes the machine's cores a device, or several: real devices on any machine, which is
// what makes multi-device behaviour testable everywhere. Kernels are Go functions over ranges of a
// launch's grid, known by name.
//
// A launch is divided among the cores of its device that are free; lanes are goroutines fed in
// batches. Nothing here decides where work goes.
//
// The cores of a device are a team: the device has a lane for each, and a task takes as many lanes
// as it has items (machine.Device.Width). Tasks of one item run on all cores at a time; tasks with
// a grid run in turn, each with all cores that others leave free. A helper of a launch leaves it at
// the next chunk when a lane needs its core, and yields every 100 µs so that goroutines which feed
// other devices run.
//
// A launch that does not return can be detached (device.Detach): the device goes on with other
// goroutines, and the result counts when it comes. Where an operation asks for it
// (driver.Op.Compare) the lane makes checksums of what a launch only reads, before and after it
// (compare.go); if they differ, the launch fails with driver.ErrSpoilt.
//
// Files: cpu.go (devices), lane.go (lanes), team.go (cores that share a launch), compare.go
// (checksums), panic.go (what a kernel's panic becomes).
package cpu
