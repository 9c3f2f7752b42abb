package reduce

import "embed"

// spirv are the kernels for Vulkan.
//
//go:generate ../spirv.sh reduce.comp
//go:embed *.spv
var spirv embed.FS
