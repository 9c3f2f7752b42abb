//go:build !amd64

package relativity

// wide says whether bodies are pulled eight at a time: not here.
var wide = false

// pullWide does nothing: [group.pull] does all the work.
func (g *group) pullWide(at, mass []float32) bool { return wide }
