package landscape

import _ "embed" // for the kernels

// ptx are the kernels for NVIDIA GPUs, compressed.
//
//go:generate go run github.com/weft-run/weft/internal/tools/weftparams .
//go:generate ../ptx.sh landscape/landscape.cu
//go:embed landscape.ptx.gz
var ptx []byte
