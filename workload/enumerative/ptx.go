package enumerative

import _ "embed" // for the kernels

// ptx are the kernels for NVIDIA GPUs, compressed.
//
//go:generate go run github.com/weft-run/weft/internal/tools/weftparams .
//go:generate ../ptx.sh enumerative/enumerative.cu
//go:embed enumerative.ptx.gz
var ptx []byte
