package conv

import (
	"embed"
	"slices"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/workload"
)

// spirv are the kernels for Vulkan.
//
//go:generate ../spirv.sh conv.comp rows.comp
//go:embed *.spv
var spirv embed.FS

// How much of its rows a shader does in one launch: terms of a sum, and rounds of
// its loops. part.glsl says why, and has the same numbers.
const (
	shaderTerms  = 1 << 16
	shaderRounds = 1 << 15
)

// steps are the first step and, by kernel k, those of what a shader leaves undone in
// it. Their params are the first step's, then their first term and first column.
func (s Shape) steps(first graph.Step, k *graph.Kernel) []graph.Step {
	_, q := s.Out()
	terms := s.C * s.R * s.S
	cols := shaderRounds / (min(shaderTerms, terms)/4 + 4) * 64
	steps := []graph.Step{first}
	for term := 0; term < terms; term += shaderTerms {
		for col := 0; col < q; col += cols {
			if term+col > 0 {
				steps = append(steps, graph.Step{
					Kernel: k, Launch: first.Launch,
					Params: append(slices.Clip(first.Params), workload.Params(term, col)...),
				})
			}
		}
	}
	return steps
}
