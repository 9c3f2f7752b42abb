package phase

import "embed"

// spirv are the kernels for Vulkan.
//
//go:generate ../../spirv.sh phase.comp
//go:embed *.spv
var spirv embed.FS
