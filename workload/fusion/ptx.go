package fusion

import _ "embed" // for the kernels

// ptx are the kernels for NVIDIA GPUs.
//
//go:generate go run github.com/weft-run/weft/internal/tools/weftparams .
//go:generate ../ptx.sh fusion/fusion.cu
//go:embed fusion.ptx
var ptx []byte
