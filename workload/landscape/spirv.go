package landscape

import "embed"

// spirv are the kernels for Vulkan.
//
//go:generate ../spirv.sh landscape.comp
//go:embed *.spv
var spirv embed.FS
