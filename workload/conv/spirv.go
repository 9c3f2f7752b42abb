package conv

import "embed"

// spirv are the kernels for Vulkan.
//
//go:generate ../spirv.sh conv.comp rows.comp
//go:embed *.spv
var spirv embed.FS
