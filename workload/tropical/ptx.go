package tropical

import _ "embed" // for the kernels

// ptx are the kernels for NVIDIA GPUs.
//
//go:generate go run github.com/weft-run/weft/internal/tools/weftparams .
//go:generate ../ptx.sh tropical/tropical.cu
//go:embed tropical.ptx
var ptx []byte

// trainPTX are those of training.
//
//go:generate ../ptx.sh tropical/train.cu
//go:embed train.ptx
var trainPTX []byte
