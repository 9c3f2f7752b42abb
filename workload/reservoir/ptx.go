package reservoir

import _ "embed" // for the kernels

// ptx are the kernels for NVIDIA GPUs, compressed.
//
//go:generate go run github.com/weft-run/weft/internal/tools/weftparams .
//go:generate ../ptx.sh reservoir/reservoir.cu
//go:embed reservoir.ptx.gz
var ptx []byte

// densePTX are those for weights with their zeros, from Hopper on.
//
//go:generate ../ptx.sh reservoir/dense.cu
//go:embed dense.ptx.gz
var densePTX []byte
