package fold

import _ "embed" // for the kernels

// ptx are the kernels for NVIDIA GPUs, compressed.
//
//go:generate go run github.com/weft-run/weft/internal/tools/weftparams .
//go:generate ../../ptx.sh protein/fold/fold.cu
//go:embed fold.ptx.gz
var ptx []byte
