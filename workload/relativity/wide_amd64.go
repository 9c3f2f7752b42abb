package relativity

import "golang.org/x/sys/cpu"

// wide says whether bodies are pulled eight at a time. Tests set it to run the Go code.
var wide = cpu.X86.HasAVX2

// pullAVX2 does the work of [group.pull] for n bodies. It rounds as the Go code does, in the
// same order and without fusing.
//
//go:noescape
func pullAVX2(bodies *group, at, mass *float32, n int)

// pullWide does the work of [group.pull] if there is a kernel for it.
func (g *group) pullWide(at, mass []float32) bool {
	if wide {
		pullAVX2(g, &at[0], &mass[0], len(mass))
	}
	return wide
}
