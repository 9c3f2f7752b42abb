package msm

import "embed"

// spirv are the kernels for Vulkan.
//
//go:generate ../../spirv.sh msm.comp
//go:embed *.spv
var spirv embed.FS
