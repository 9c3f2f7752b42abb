package tropical

import _ "embed" // for the kernels

// ptx are the kernels for NVIDIA GPUs.
//
//go:generate ../ptx.sh tropical/tropical.cu
//go:embed tropical.ptx
var ptx []byte
