package automata

import "embed"

// spirv are the kernels for Vulkan.
//
//go:generate ../spirv.sh automata.comp
//go:embed *.spv
var spirv embed.FS
