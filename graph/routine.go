package graph

// Parameters of the routines that an implementation of dialect Library names. A kernel
// that has one among its implementations takes the same parameters in all of them.

// MatMul are the parameters of cublas.sgemm and its like: C = A·B for row-major
// matrices, A of M × K, B of K × N and C of M × N, which are the buffers in that order.
type MatMul struct {
	M, K, N int
}

// Conv2D are the parameters of cudnn.conv2d and cudnn.tf32conv2d, whose buffers are the
// images, the filters and the results.
type Conv2D struct {
	N, C, H, W  int // images, and their channels, rows and columns
	K, R, S     int // filters, and their rows and columns
	Stride, Pad int // from one result to the next, and zeros on each side of an image
}

// Collective are the parameters of nccl.allreduce and its like, steps of a gang whose
// members are ranks of a communicator. A rank's buffers are what it brings, then what it
// gets, each where there is any.
type Collective struct {
	Communicator uint64 // its number
	Count        uint64 // elements of the whole vector
	Type, Fold   int    // as package collective numbers them
	Root, Peer   int    // ranks
}
