package reduce

import "golang.org/x/sys/cpu"

// wide selects the kernels for vectors of 64 bytes. Tests clear it to run the
// others.
var wide = cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ
