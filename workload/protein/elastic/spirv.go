package elastic

import "embed"

// spirv are the kernels for Vulkan.
//
//go:generate ../../spirv.sh elastic.comp
//go:embed *.spv
var spirv embed.FS
