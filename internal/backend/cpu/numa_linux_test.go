package cpu

import (
	"context"
	"reflect"
	"runtime"
	"testing"

	"github.com/weft-run/weft/internal/numa"
)

// opened returns the node and the cores of each device on a machine with some nodes.
func opened(t *testing.T, o Options, nodes []numa.Node) (ids []int, cores [][]int) {
	t.Helper()
	was := memoryNodes
	memoryNodes = func() []numa.Node { return nodes }
	defer func() { memoryNodes = was }()
	devs, err := New(o).Open(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range devs {
		ids = append(ids, d.Info().NUMA)
		cores = append(cores, d.(*device).cores)
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	return ids, cores
}

// Devices whose cores are all of one memory node say so and stay there. A machine with
// one node is as it was.
func TestNodes(t *testing.T) {
	all := allowed()
	if len(all) < 2 || runtime.NumCPU() != len(all) {
		t.Skip("two cores are needed")
	}
	// Cores of two nodes alternate, as on some machines, and the first is of the second.
	two := []numa.Node{{ID: 0, Memory: true}, {ID: 3, Memory: true}}
	for i, c := range all {
		two[1-i%2].Cores = append(two[1-i%2].Cores, c)
	}
	one := []numa.Node{{ID: 0, Cores: all, Memory: true}}
	n := len(all)
	near, far := two[0].Cores, two[1].Cores
	for name, c := range map[string]struct {
		o     Options
		nodes []numa.Node
		ids   []int
		cores [][]int
	}{
		"one node":            {Options{Parts: 2}, one, []int{0, 0}, [][]int{nil, nil}},
		"no nodes":            {Options{Parts: 2}, nil, []int{0, 0}, [][]int{nil, nil}},
		"one node, pinned":    {Options{Threads: Threads{Pin: true}, Parts: 2}, one, []int{0, 0}, [][]int{all[:n/2], all[n/2:]}},
		"two nodes, whole":    {Options{}, two, []int{-1}, [][]int{nil}},
		"two nodes, one core": {Options{Cores: 1}, two, []int{0}, [][]int{near}},
	} {
		ids, cores := opened(t, c.o, c.nodes)
		if !reflect.DeepEqual(ids, c.ids) || !reflect.DeepEqual(cores, c.cores) {
			t.Errorf("%s: nodes %v, cores %v; want %v, %v", name, ids, cores, c.ids, c.cores)
		}
	}
	if n%2 > 0 {
		return // one device has cores of both
	}
	for _, pin := range []bool{false, true} {
		ids, cores := opened(t, Options{Threads: Threads{Pin: pin}, Parts: 2}, two)
		if want := []int{0, 3}; !reflect.DeepEqual(ids, want) || !reflect.DeepEqual(cores, [][]int{near, far}) {
			t.Errorf("two nodes, two devices, pinned %t: nodes %v, cores %v; want %v, %v", pin, ids, cores, want, [][]int{near, far})
		}
	}
}
