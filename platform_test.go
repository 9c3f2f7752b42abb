package weft_test

import (
	"go/build"
	"testing"
)

// Platforms of 32 bits do not compile, and the compiler gives the reason: graph/only64.go
// belongs to their builds alone and uses a name that is declared nowhere.
func TestPlatform(t *testing.T) {
	for arch, refused := range map[string]bool{
		"386": true, "arm": true, "mips": true, "mipsle": true,
		"amd64": false, "arm64": false, "riscv64": false, "ppc64le": false, "s390x": false, "loong64": false, "mips64": false,
	} {
		c := build.Default
		c.GOOS, c.GOARCH = "linux", arch
		if got, err := c.MatchFile("graph", "only64.go"); err != nil || got != refused {
			t.Errorf("%s is refused: %v, %v; want %v", arch, got, err, refused)
		}
	}
}
