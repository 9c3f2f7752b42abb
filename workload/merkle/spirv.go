package merkle

import "embed"

// spirv are the kernels for Vulkan.
//
//go:generate ../spirv.sh merkle.comp
//go:embed *.spv
var spirv embed.FS
