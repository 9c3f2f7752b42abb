//go:build lavapipe

package vulkan

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/weft-run/weft/graph"
)

// A shader takes parameters that end where its last push constant ends, and those of
// the length a structure of C has. Longer ones are refused where all push constants are
// numbers, since only of these the length in C is certain.
func TestPushConstants(t *testing.T) {
	const doubles, scalar = "#extension GL_ARB_gpu_shader_int64 : enable\n", "#extension GL_EXT_scalar_block_layout : enable\n"
	for name, c := range map[string]struct {
		before  string // lines in front of the block
		layout  string
		members string
		takes   []int
		refuses []int
	}{
		"a number":                       {"", "", "uint a;", []int{4}, []int{0, 3, 8}},
		"numbers":                        {"", "", "uint a; float b; int c;", []int{12}, []int{8, 11, 13, 16}},
		"a long number in front":         {doubles, "", "double a; uint b;", []int{12, 16}, []int{8, 20}},
		"a long number at the end":       {doubles, "", "uint a; uint64_t b;", []int{16}, []int{12, 20, 24}},
		"numbers at offsets":             {"", "", "layout(offset = 8) uint a; layout(offset = 20) uint b;", []int{24}, []int{20, 28}},
		"a vector":                       {"", "", "vec3 v;", []int{12, 16}, []int{0, 8}},
		"a number in a vector's gap":     {"", "", "vec3 v; float a;", []int{16}, []int{12}},
		"a number behind a vector":       {"", "", "vec4 v; float a;", []int{20, 32}, []int{16}},
		"a number behind doubles":        {doubles, "", "dvec4 v; float a;", []int{36, 40, 64}, []int{32}},
		"an array of numbers":            {"", "", "float a[5];", []int{20}, []int{16}},
		"an array of vectors":            {"", "", "vec3 v[4];", []int{60, 64}, []int{48, 56}},
		"an array behind a number":       {"", "", "float a; vec3 v[2];", []int{44, 48}, []int{40}},
		"an array of arrays":             {"", "", "vec3 v[2][2];", []int{60, 64}, []int{48, 56}},
		"an array of std140":             {"", ", std140", "float a[3];", []int{36, 48}, []int{12, 32}},
		"an array of scalar":             {scalar, ", scalar", "vec3 v[4];", []int{48}, []int{44}},
		"a structure":                    {"struct S { float a; vec4 b; float c; };", "", "S s;", []int{36, 48}, []int{24, 32}},
		"a structure behind a number":    {"struct S { vec4 b; float c; };", "", "float a; S s;", []int{36, 48}, []int{32}},
		"structures in a structure":      {"struct R { vec3 v; }; struct S { float a; R r; float b; };", "", "S s;", []int{36, 48}, []int{28, 32}},
		"an array of structures":         {"struct S { float a; vec4 b; float c; };", "", "S s[2];", []int{84, 96}, []int{48, 80}},
		"a matrix":                       {"", "", "mat3 m;", []int{44, 48}, []int{36, 40}},
		"a small matrix":                 {"", "", "mat2 m;", []int{16}, []int{12}},
		"a matrix in columns":            {"", "", "mat2x3 m;", []int{28, 32}, []int{24}},
		"a matrix in rows":               {"", ", row_major", "mat2x3 m;", []int{24}, []int{20}},
		"a matrix in rows of three":      {"", ", row_major", "mat3x2 m;", []int{28, 32}, []int{24}},
		"an array of matrices":           {"", "", "mat3 m[2];", []int{92, 96}, []int{72, 84, 88}},
		"a structure with a matrix":      {"struct S { mat3 m; };", "", "float a; S s;", []int{60, 64}, []int{52, 56}},
		"an array as long as a constant": {"layout(constant_id = 7) const uint n = 3;", "", "vec3 v[n];", []int{44, 48}, []int{36, 40}},
	} {
		source := fmt.Sprintf("#version 450\n%s\nlayout(local_size_x = 1) in;\nlayout(push_constant%s) uniform P { %s } p;\nvoid main() {}\n",
			c.before, c.layout, c.members)
		// Nothing uses the block: with -O it would be removed.
		glslc := exec.Command("glslc", "-O0", "--target-env=vulkan1.1", "-fshader-stage=compute", "-", "-o", "-")
		glslc.Stdin, glslc.Stderr = strings.NewReader(source), os.Stderr
		code, err := glslc.Output()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		s, err := readShader(code, "main")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, n := range c.takes {
			if err := s.checkParams(n); err != nil {
				t.Errorf("%s: %d bytes: %v", name, n, err)
			}
		}
		for _, n := range c.refuses {
			err := s.checkParams(n)
			if !errors.Is(err, graph.ErrParams) {
				t.Errorf("%s: %d bytes: %v; want %v", name, n, err, graph.ErrParams)
				continue
			}
			var named int
			if _, err := fmt.Sscanf(takesBytes.FindString(err.Error()), "it takes %d bytes", &named); err != nil || s.checkParams(named) != nil {
				t.Errorf("%s: %d bytes: %q names %d bytes, which are refused", name, n, err, named)
			}
		}
	}
}

// takesBytes is what an error says of the length that a shader takes.
var takesBytes = regexp.MustCompile(`it takes \d+ bytes`)
