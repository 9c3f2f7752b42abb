package ntt

import _ "embed" // for the kernels

// ptx are the kernels for NVIDIA GPUs.
//
//go:generate go run github.com/weft-run/weft/internal/tools/weftparams .
//go:generate ../../ptx.sh zk/ntt/ntt.cu
//go:embed ntt.ptx
var ptx []byte
