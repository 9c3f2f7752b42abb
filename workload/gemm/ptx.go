package gemm

import _ "embed" // for the kernels

// ptx are the kernels for NVIDIA GPUs, compressed.
//
//go:generate go run github.com/weft-run/weft/internal/tools/weftparams .
//go:generate ../ptx.sh gemm/gemm.cu
//go:embed gemm.ptx.gz
var ptx []byte
