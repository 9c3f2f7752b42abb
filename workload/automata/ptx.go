package automata

import _ "embed" // for the kernels

// ptx are the kernels for NVIDIA GPUs.
//
//go:generate ../ptx.sh automata/automata.cu
//go:embed automata.ptx
var ptx []byte
