package tropical

import _ "embed" // for the kernels

// ptx are the kernels for NVIDIA GPUs, compressed.
//
//go:generate go run github.com/weft-run/weft/internal/tools/weftparams .
//go:generate ../ptx.sh tropical/tropical.cu
//go:embed tropical.ptx.gz
var ptx []byte

// trainPTX are those of training.
//
//go:generate ../ptx.sh tropical/train.cu
//go:embed train.ptx.gz
var trainPTX []byte
