package fold

import "embed"

// spirv are the kernels for Vulkan.
//
//go:generate ../../spirv.sh fold.comp
//go:embed *.spv
var spirv embed.FS
