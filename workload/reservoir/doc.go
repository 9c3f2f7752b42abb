// Package reservoir runs echo-state networks over spike patterns.
//
// A reservoir is a fixed random recurrent network of leaky tanh neurons ([Weights]). Every pattern
// drives a state of its own, and only a linear readout of the states is trained ([Model.Train],
// [Train]). Weights and readout are a [Model], which is saved in a file, and a [Predictor] answers
// with. Many patterns run side by side: states are stored neuron by neuron, with the values of all
// patterns of a batch next to each other.
//
// A value of the next state depends on the last state of its pattern and on the weights of its
// neuron, and is computed in the order of those weights. Random numbers are drawn by seed, pattern,
// step and neuron. So cutting a batch into ranges of patterns (each device has all weights) or of
// neurons (each device has some rows, and the states are exchanged after every step) gives the same
// bits with the same kernel, and so does running patterns one by one: class R. The kernels of this
// package agree with each other on amd64, but for those that NVIDIA GPUs from Hopper on have for
// weights stored with their zeros: these add in another order, and are left out where
// [weft.Options].Exact is set. Up to 255 patterns, of up to 1024 neurons and 128 channels, have the
// same bits together and one by one there as well; beyond, they agree within rounding. An input
// that is not a number makes every state that depends on it none, on all backends; with stored
// zeros a state depends on all inputs of its pattern, and an infinite one is no number there.
//
// The kernels run on the calling goroutine, use memory again that another call has left, and keep
// to Go code that can be preempted, or to assembly that returns within some tens of microseconds.
//
// # Training
//
// Ridge regression needs the products of all states with each other, to more digits than a float32
// sum has. States are therefore cut into digits of eight bits (train.go): products of digits,
// summed over 1,024 samples, are integers that float32 holds exactly, so that package gemm computes
// them on any device, in any order, without an error. They are put together in float64, and the
// host solves the system. The spectral radius is that of the largest eigenvalue in a Krylov
// subspace that begins where 400 multiplications lead, tried again with 400 more until two agree
// (radius.go).
//
// # Models
//
// A file (model.go, safetensors.go) has the weights as they are multiplied with, and everything
// else as JSON in its metadata. It is not trusted: sizes are compared with the file's before memory
// is taken, and every column is checked before a kernel follows it. A [Predictor] keeps weights
// resident and has a prepared graph for 1, 2, 4 … inputs side by side; a batch takes the next
// larger one, filled up with zeros. A graph is one task of all steps. No noise is added and every
// input starts from zeros, so that an answer depends on its input alone and a batch has the bits of
// its inputs one by one. The readout is summed on the host in float64. Inputs may pass through
// [Kuramoto] before: coupled oscillators whose turns become spikes.
//
// # Kernels of cores
//
// A batch of a predictor is a task of one kernel, reservoir.run, that takes up to 16 patterns
// through all steps on one core. It copies the weights once for all steps, with each column bounded
// and made an offset, rows by their length. Up to four patterns would leave most of a vector idle:
// there the elements of a vector are neurons (few.go), whose states are gathered by weights that
// lie in slices of sixteen neurons, made once for a predictor.
//
// # Dense weights
//
// NVIDIA GPUs from Hopper on get the weights with their zeros, resident beside the sparse ones,
// unless exact results are asked for (dense.go, dense.cu). Tasks then have two sets of steps, for
// each of which the other devices have nothing to do (workload.Only). Sizes choose the kernel:
//
//	neurons, channels                patterns           kernel                            launches
//	up to 1,024, with up to 128      up to 255          whole_1 … whole_10: a cluster of  one
//	                                                    16 blocks holds all weights and
//	                                                    takes 1, 2, 4, 8 or 10 patterns
//	                                                    through all steps
//	more                             1                  line: two neurons to a warp       one a step
//	any                              more, in fewer     strip: 32 neurons × 64 patterns   one a step
//	                                 than 256 tiles     on tensor cores
//	                                 of 64 × 64
//	any                              more               tile: 64 × 64, likewise           one a step
//
// Beyond 1,024 neurons, dense weights are used where at least half of the weights are not zero.
package reservoir
