// Package machine describes what work runs on: devices with their measured rates, the links between
// their memories, the resources they share, and the cost model that turns a task and a device into
// a predicted time.
//
// A Machine comes from discovery (internal/exec) or from a file; everything above reads it the same
// way, which is what makes a simulation of a machine one does not own say something about the code
// that would run there. The package is pure: no clock, no files, no locks. Nothing in it is safe
// for concurrent use while it is changed.
//
// # Predictions
//
// Roofline computes the time of a task from a device's rates. History, on top of it, learns from
// every task and from copies that had their path to themselves. A copy is predicted by the median
// of the last ones of about its size: copies to memory that is touched for the first time take
// several times longer than the next and say nothing about them. A size that was never run is
// predicted from the nearest that was: by the slope of the line as far as samples of different
// sizes support it, by the roofline as far as not. Trials remember the times of whole runs on sets
// of devices.
//
// # Shared cores
//
// Devices that compute on the same processor cores, as cpu and a Vulkan driver on the CPU do, name
// the resource HostCores. Those that take more cores than there are form a crowd (Machine.Crowds):
// they are measured in turns, divide the cores in the simulator, and count as busy when another of
// them is, so that a policy gains nothing by waking a slower one. Contention follows which devices
// computed at the same time; the history then learns how long each task would have taken alone.
//
// A device whose cores work on launches together is a team (Device.Team). A task takes as many of
// its lanes as it has items (Device.Width); its load, its charge and the predictions of policies
// count that.
//
// Files: machine.go (the words), decode.go, encode.go (files), cost.go, roofline.go, history.go,
// fit.go, trials.go (predictions), crowd.go, team.go, topology.go, selection.go (which devices),
// dialect.go, score.go, named.go (machines that come with weft).
package machine
