package reduce

// wide selects the kernels for vectors, which every arm64 processor has. Tests
// clear it to run the others.
var wide = true
