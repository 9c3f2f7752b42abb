// Package fold folds protein chains: Langevin dynamics of the structure-based C-alpha model
// ([protein.Model]), of many replicas at once, at one temperature or exchanging several. The
// model is built from the native structure, so this shows how a chain finds it, how fast and
// below which temperature; it predicts no structure. [New] makes a [Run] of a structure, and
// [Run.Do] computes it on the devices of a runtime.
//
// Replicas are advanced in groups of eight, one in each lane of a vector, by all steps between
// two exchanges: a group is a task's item. Positions, velocities and forces are float64 on all
// paths. Random numbers are those of Philox, by seed, replica, step and bead, and no operation
// is fused or reordered: a trajectory has the same bytes however groups are dealt out and with
// every kernel (class R). simd/step.c is the source of the assembly for AVX-512, AVX2 and
// NEON, and lane.go does the same in Go for other processors. fold.cu is for NVIDIA GPUs and fold.comp for
// Vulkan devices, whose trajectories are of the same random numbers, but differ by rounding.
//
// Files: config.go (what is run), job.go (rounds as tasks), system.go (models as tables, groups
// of replicas and lists of pairs), lane.go and step_*.go (kernels), run.go (the rounds),
// correlation.go (which rounds are of equilibrium), wham.go (heat capacity), profile.go (free
// energy and contacts), trajectory.go, xtc.go and append.go (files of frames, written while they are computed), check.go (the reference),
// exchange_check.go and observe_check.go (exchanges and observables, computed again).
package fold
