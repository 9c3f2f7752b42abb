package fisher

import "embed"

// spirv are the kernels for Vulkan.
//
//go:generate ../spirv.sh fisher.comp bregman.comp
//go:embed *.spv
var spirv embed.FS
