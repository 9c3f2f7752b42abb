package tropical

import "embed"

// spirv are the kernels for Vulkan.
//
//go:generate ../spirv.sh tropical.comp train.comp
//go:embed *.spv
var spirv embed.FS
