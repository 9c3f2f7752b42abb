package gemm

import "embed"

// spirv are the kernels for Vulkan.
//
//go:generate ../spirv.sh gemm.comp
//go:embed *.spv
var spirv embed.FS
