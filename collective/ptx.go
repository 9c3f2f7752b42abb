package collective

import _ "embed" // for the kernels

// ptx are the kernels for NVIDIA GPUs, compressed.
//
//go:generate go run github.com/weft-run/weft/internal/tools/weftparams .
//go:generate ../workload/ptx.sh ../collective/collective.cu
//go:embed collective.ptx.gz
var ptx []byte
