// Package fold folds protein chains: Langevin dynamics of the structure-based C-alpha model
// ([protein.Model]), of many replicas at once, at one temperature or exchanging several. The model
// is built from the native structure, so this shows how a chain finds it, how fast and below which
// temperature; it predicts no structure. [New] makes a [Run] of a structure, and [Run.Do] computes
// it on the devices of a runtime.
//
// Replicas are advanced in groups of eight, one in each lane of a vector, by all steps between two
// exchanges: a group is a task's item. Positions, velocities and forces are float64 on all paths.
// Random numbers are those of Philox, by seed, replica, step and bead, and no operation is fused or
// reordered: a trajectory has the same bytes however groups are dealt out and with every kernel
// (class R). simd/step.c is the source of the assembly for AVX-512, AVX2 and NEON, and lane.go does
// the same in Go for other processors. fold.cu is for NVIDIA GPUs and fold.comp for Vulkan devices,
// whose trajectories are of the same random numbers, but differ by rounding.
//
// Files: config.go (what is run), job.go (rounds as tasks), system.go (models as tables, groups of
// replicas and lists of pairs), lane.go and step_*.go (kernels), run.go (the rounds),
// correlation.go (which rounds are of equilibrium), wham.go (heat capacity), profile.go (free
// energy and contacts), trajectory.go, xtc.go and append.go (files of frames, written while they
// are computed), check.go (the reference), exchange_check.go and observe_check.go (exchanges and
// observables, computed again).
//
// # Rounds
//
// Rounds are the steps of Runtime.Steps: each plans now and then, runs a graph of one task for each
// range of groups, and decides on exchanges by random numbers of its own number. Replicas exchange
// temperatures and not places, so that the state of a replica stays where it is. Pairs that may
// repel each other are in a list of all that are near in one of the eight replicas of a group; a
// pair beyond the cutoff adds nothing, so that results do not depend on when a list was made. The
// last thousand steps of a long last round are a launch of their own, whose state before is kept
// for the check.
//
// Several runs fold at once by [DoAll], each with rounds and checkpoints of its own. Where all
// devices compute in host memory, a round among others is up to four tasks for each device and the
// run with the most operations left has the highest priority, so that all end together. With GPUs
// each round is planned as that of a run alone.
//
// One trajectory can be divided over processors, bead by bead (Config.Split, split.go): a step is a
// task for each range of beads, which reads the positions of all. A force is added up in the order
// of the kernel fold.advance, so that the bytes are those of the undivided trajectory. Both ways
// are tried for 50 steps first, and if dividing takes longer, the run ends with both times
// (ErrSplit).
//
// A ladder of temperatures has equal factors, or is tuned (ladder.go): after an eighth, a quarter
// and half of the rounds its rungs are moved so that neighbours exchange equally often. Then it
// stays, and observables are of the rounds from there on. They also leave out the rounds before the
// one that leaves the most independent samples.
//
// # GPUs
//
// A replica has a block or a workgroup, and the steps of a round are one launch, in float64. A
// thread sums the forces on its bead in one order, without atomic operations. Trajectories have the
// same bytes on any number of devices of a kind, and differ from the processors' by rounding, for
// which [Run.Check] allows a thousandth of an angstrom in the last steps.
//
// CUDA: chains of up to 48 beads are two to a block and those of up to 64 one to a block, if they
// have three contacts a bead or fewer (chain.cuh); several threads work at a bead, each in a role.
// Pairs that repel each other are listed in chunks of four beads near the same one; the list is
// made anew when a bead has moved by half of its margin. The division into chunks changes the last
// places of a sum, so that bytes depend on where launches begin, which follows from the
// configuration and from whether a device with a limit to loops takes part. Other chains have a block of 512
// threads each. The functions between two barriers also compile for a host, where TestDeviceKernel
// (tag clang) compares them with the reference.
//
// Vulkan: devices with shaderFloat64, chains of up to 48, 64 and 160 beads. Where a device
// ends the loops of an invocation after some rounds (machine.Device.LoopRounds), a round is cut into
// shorter launches (stepsWithin).
//
// The kernels for AVX-512, AVX2 and in Go ran on processors of those kinds, NEON under qemu, SPIR-V
// on lavapipe, PTX on an H200.
package fold
