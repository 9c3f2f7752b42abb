package reservoir

import "embed"

// spirv are the kernels for Vulkan.
//
//go:generate ../spirv.sh reservoir.comp stream.comp
//go:embed *.spv
var spirv embed.FS
