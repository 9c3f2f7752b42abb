package enumerative

import "embed"

// spirv are the kernels for Vulkan.
//
//go:generate ../spirv.sh enumerative.comp curves.comp
//go:embed *.spv
var spirv embed.FS
