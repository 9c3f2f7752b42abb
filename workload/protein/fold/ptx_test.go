package fold

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/weft-run/weft/graph"
)

// A GPU gets pointers and a structure and believes them: a task hands over what its PTX kernel
// takes, whatever the length of the chain.
func TestPTXTakesWhatTasksGive(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range []counts{
		{beads: 5}, {beads: 48, contacts: 144}, {beads: 48, contacts: 145}, {beads: 49}, {beads: 64, contacts: 192}, {beads: 64, contacts: 193}, {beads: 65}, {beads: 3000},
	} {
		beads := c.beads
		c.degree = 2
		r := &round{counts: c, replicas: 20}
		task := r.task(0, 3)
		impl := task.Steps[0].Kernel.Impls[1]
		code, err := impl.Code()
		if err != nil {
			t.Fatal(err)
		}
		m := regexp.MustCompile(fmt.Sprintf(`(?s)\.visible \.entry %s\((.*?)\)\n\.maxntid (\d+), 1, 1\n`, impl.Entry)).FindSubmatch(code)
		if impl.Dialect != graph.PTX || m == nil {
			t.Fatalf("%d beads: the PTX has no %s", beads, impl.Entry)
		}
		seen[impl.Entry] = true
		if room := map[string]int{"fold_two": 144, "fold_one": 192, "fold_long": math.MaxInt}[impl.Entry]; c.contacts > room {
			t.Errorf("%d contacts: %s has room for %d", c.contacts, impl.Entry, room)
		}
		pointers := 6
		if task.Workspace > 0 {
			pointers++
		}
		if got := strings.Count(string(m[1]), ".param .u64 "); got != pointers {
			t.Errorf("%d beads: %s takes %d pointers, given are %d", beads, impl.Entry, got, pointers)
		}
		if want := fmt.Sprintf("[%d]", len(task.Steps[0].Params)); !strings.HasSuffix(strings.TrimSpace(string(m[1])), want) {
			t.Errorf("%d beads: %s does not take the %s bytes of the parameters: %s", beads, impl.Entry, want, m[1])
		}
		l := impl.Shape(task.Steps[0].Launch)
		if fmt.Sprint(l.Block[0]) != string(m[2]) {
			t.Errorf("%d beads: %s is launched with %d threads, made for %s", beads, impl.Entry, l.Block[0], m[2])
		}
		if all := int(l.Grid[0] * l.Grid[1] * impl.Per[1]); all != 3*lanes || impl.Entry != "fold_long" && int(l.Block[0]) < beads*int(impl.Per[1]) {
			t.Errorf("%d beads: blocks %v of %d threads for %d replicas", beads, l.Grid, l.Block[0], 3*lanes)
		}
	}
	if len(seen) != 3 {
		t.Errorf("%d kernels were looked at", len(seen))
	}
}
