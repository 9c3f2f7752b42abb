package collective_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/weft-run/weft/collective"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// Slices begin at cache lines where there is one for every rank. With fewer elements than that they
// are as equal as possible, so that every rank has some of the work.
func TestSlicesOfRanks(t *testing.T) {
	for count, want := range map[int64][]int64{ // elements of 4 bytes, 16 in a line
		4: {1, 1, 1, 1}, 7: {2, 2, 2, 1}, 16: {4, 4, 4, 4}, 63: {16, 16, 16, 15}, 64: {16, 16, 16, 16}, 67: {16, 16, 16, 19}, 130: {32, 32, 32, 34},
	} {
		for _, m := range []*machine.Machine{cpus(4), gpus(4)} {
			g, err := plan(t, m, collective.Spec{Op: collective.OpAllReduce, Ranks: ranks(4), Count: count, Type: collective.F32, Algorithm: "ring", Pieces: 1}).Graph()
			if err != nil {
				t.Fatal(err)
			}
			written := make([]map[int64]int64, 4) // by rank: elements of its result, by where they begin
			folds := make(map[string]bool)        // by device
			for i := range g.NumTasks() {
				task := g.Task(graph.TaskID(i))
				folds[task.On.Only[0]] = folds[task.On.Only[0]] || len(task.Uses) > 2
				for _, u := range task.Uses {
					for r := range written {
						if u.Access == graph.Write && g.Data(u.Data).Name == collective.OutName(r) {
							if written[r] == nil {
								written[r] = make(map[int64]int64)
							}
							written[r][u.Offset/4] += u.Bytes / 4
						}
					}
				}
			}
			for r := range written {
				var got []int64
				for _, lo := range slices.Sorted(maps.Keys(written[r])) {
					got = append(got, written[r][lo])
				}
				if !slices.Equal(got, want) || !folds[m.Devices[r].Name] {
					t.Errorf("%s, %d elements: rank %d gets slices of %v, want %v, and folds: %v", m.Name, count, r, got, want, folds[m.Devices[r].Name])
				}
			}
		}
	}
}
