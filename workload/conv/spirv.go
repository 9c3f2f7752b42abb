package conv

import (
	"embed"

	"github.com/weft-run/weft/graph"
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

// part is the position from which a launch of a shader continues.
type part struct {
	firstTerm, firstCol int
}

// moreParams are the parameters of moreKernel.
type moreParams struct {
	graph.Conv2D
	part
}

// steps returns the first step and, with kernel k, the steps for the work that a
// shader leaves undone in it. with returns their parameters.
func (s Shape) steps(first graph.Step, k *graph.Kernel, with func(part) any) []graph.Step {
	_, q := s.Out()
	terms := s.C * s.R * s.S
	cols := shaderRounds / (min(shaderTerms, terms)/4 + 4) * 64
	steps := []graph.Step{first}
	for term := 0; term < terms; term += shaderTerms {
		for col := 0; col < q; col += cols {
			if term+col > 0 {
				steps = append(steps, graph.Step{Kernel: k, Launch: first.Launch}.With(with(part{term, col})))
			}
		}
	}
	return steps
}
