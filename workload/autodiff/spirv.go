package autodiff

import "embed"

// spirv are the kernels for Vulkan.
//
//go:generate ../spirv.sh autodiff.comp
//go:embed *.spv
var spirv embed.FS
