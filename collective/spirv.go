package collective

import "embed"

// spirv are the kernels for Vulkan.
//
//go:generate ../workload/spirv.sh shader/collective.comp
//go:embed shader/*.spv
var spirv embed.FS
