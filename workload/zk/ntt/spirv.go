package ntt

import "embed"

// spirv are the kernels for Vulkan.
//
//go:generate ../../spirv.sh ntt.comp
//go:embed *.spv
var spirv embed.FS
