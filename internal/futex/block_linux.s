// The compiler takes functions without a body, those of block_linux.go, only beside assembly.
