package clifford

import "embed"

// spirv are the kernels for Vulkan.
//
//go:generate ../spirv.sh clifford.comp
//go:embed *.spv
var spirv embed.FS
