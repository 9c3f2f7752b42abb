package fusion

import "embed"

// spirv are the kernels for Vulkan.
//
//go:generate ../spirv.sh fusion.comp
//go:embed *.spv
var spirv embed.FS
