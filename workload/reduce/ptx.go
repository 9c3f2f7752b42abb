package reduce

import _ "embed" // for the kernels

// ptx are the kernels for NVIDIA GPUs.
//
//go:generate ../ptx.sh reduce/reduce.cu
//go:embed reduce.ptx
var ptx []byte
