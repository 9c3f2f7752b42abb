// Package reservoir runs echo-state networks over spike patterns.
//
// A reservoir is a fixed random recurrent network of leaky tanh neurons
// ([Weights]). Every pattern drives a state of its own, and only a linear
// readout of the states is trained ([Model.Train], [Train]). Weights and readout are a
// [Model], which is saved in a file, and a [Predictor] answers with. Many patterns run side by side:
// states are stored neuron by neuron, with the values of all patterns of a
// batch next to each other.
//
// A value of the next state depends on the last state of its pattern and on the
// weights of its neuron, and is computed in the order of those weights. Random
// numbers are drawn by seed, pattern, step and neuron. So cutting a batch into
// ranges of patterns (each device has all weights) or of neurons (each device
// has some rows, and the states are exchanged after every step) gives the same
// bits with the same kernel, and so does running patterns one by one: class R.
// The kernels of this package agree with each other on amd64, but for those that NVIDIA
// GPUs from Hopper on have for weights stored with their zeros: these add in another order,
// and are left out where [weft.Options].Exact is set. Up to 255 patterns, of up to 1024 neurons
// and 128 channels, have the same bits together and one by one there as well; beyond, they
// agree within rounding. An input that is not a number makes every state that depends on it
// none, on all backends; with stored zeros a state depends on all inputs of its pattern, and
// an infinite one is no number there.
//
// The kernels run on the calling goroutine, use memory again that another call has left, and
// keep to Go code that can be preempted, or to assembly that returns within some tens of
// microseconds.
package reservoir
