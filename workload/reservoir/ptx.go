package reservoir

import _ "embed" // for the kernels

// ptx are the kernels for NVIDIA GPUs.
//
//go:generate go run github.com/weft-run/weft/cmd/weftparams .
//go:generate ../ptx.sh reservoir/reservoir.cu
//go:embed reservoir.ptx
var ptx []byte
