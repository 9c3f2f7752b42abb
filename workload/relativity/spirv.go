package relativity

import "embed"

// spirv are the kernels for Vulkan.
//
//go:generate ../spirv.sh orbits.comp light.comp bodies.comp
//go:embed *.spv
var spirv embed.FS
