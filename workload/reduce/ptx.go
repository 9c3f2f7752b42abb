package reduce

import _ "embed" // for the kernels

// ptx are the kernels for NVIDIA GPUs, compressed.
//
//go:generate go run github.com/weft-run/weft/internal/tools/weftparams .
//go:generate ../ptx.sh reduce/reduce.cu
//go:embed reduce.ptx.gz
var ptx []byte
