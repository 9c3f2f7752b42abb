package fusion

import _ "embed" // for the kernels

// ptx are the kernels for NVIDIA GPUs, compressed.
//
//go:generate go run github.com/weft-run/weft/internal/tools/weftparams .
//go:generate ../ptx.sh fusion/fusion.cu
//go:embed fusion.ptx.gz
var ptx []byte
