package zk

import "embed"

// spirv are the kernels for Vulkan.
//
//go:generate ../spirv.sh zk.comp
//go:embed *.spv
var spirv embed.FS
