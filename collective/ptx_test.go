package collective_test

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/weft-run/weft/collective"
	"github.com/weft-run/weft/graph"
)

// A GPU gets pointers and a structure and believes them: every task must hand
// over what its PTX kernel takes, and every task a GPU gets must have one.
func TestPTXTakesWhatTasksGive(t *testing.T) {
	seen := make(map[string]bool)
	for op := range collective.Op(collective.NumOps) {
		for typ := range collective.Type(collective.NumTypes) {
			for o := range collective.Fold(collective.NumFolds) {
				p := plan(t, gpus(3), collective.Spec{Op: op, Ranks: ranks(3), Count: 100, Type: typ, Fold: o, Root: 1})
				var b graph.Builder
				var bufs []collective.Buffer
				for range 3 {
					bufs = append(bufs, collective.Buffer{Data: b.Data(graph.Data{Bytes: 2400, Input: true})})
				}
				var out []collective.Buffer
				for range 3 {
					out = append(out, collective.Buffer{Data: b.Data(graph.Data{Bytes: 2400})})
				}
				p.Add(&b, bufs, out)
				g, err := b.Build()
				if err != nil {
					t.Fatal(err)
				}
				for id := range g.NumTasks() {
					task := g.Task(graph.TaskID(id))
					st := &task.Steps[0]
					if len(st.Kernel.Impls) != 3 || st.Kernel.Impls[1].Dialect != graph.PTX || st.Kernel.Impls[2].Dialect != graph.SPIRV {
						t.Fatalf("%s: kernel %s has no PTX or no SPIR-V", task.Name, st.Kernel.Name)
					}
					impl := &st.Kernel.Impls[1]
					head := fmt.Sprintf(`(?s)\.visible \.entry %s\((.*?)\)\n\.maxntid %d, 1, 1\n`, impl.Entry, impl.Shape(st.Launch).Block[0])
					code, err := impl.Code()
					if err != nil {
						t.Fatal(err)
					}
					found := regexp.MustCompile(head).FindSubmatch(code)
					if found == nil {
						t.Fatalf("the PTX has no entry %s for blocks of %d threads", impl.Entry, impl.Shape(st.Launch).Block[0])
					}
					pointers := len(regexp.MustCompile(`\.param \.u64 `).FindAll(found[1], -1))
					params := fmt.Sprintf(`\.param \.align 4 \.b8 \w+\[%d\]`, len(st.Params))
					if pointers != len(task.Uses) || !regexp.MustCompile(params).Match(found[1]) {
						t.Fatalf("%s takes %s, its task gives %d buffers and %d bytes", impl.Entry, found[1], len(task.Uses), len(st.Params))
					}
					seen[impl.Entry] = true
				}
			}
		}
	}
	if want := collective.NumFolds*collective.NumTypes + 4; len(seen) != want {
		t.Errorf("%d kernels were looked at, want %d folds, three copies and the token", len(seen), want)
	}
}
