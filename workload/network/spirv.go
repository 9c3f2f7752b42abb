package network

import "embed"

// spirv are the kernels for Vulkan.
//
//go:generate ../spirv.sh network.comp distance.comp
//go:embed *.spv
var spirv embed.FS
