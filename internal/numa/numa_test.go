package numa

import (
	"reflect"
	"runtime"
	"slices"
	"testing"
	"testing/fstest"
)

// tree is what Linux has of nodes, by file.
func tree(files map[string]string) fstest.MapFS {
	out := make(fstest.MapFS)
	for name, text := range files {
		out[name] = &fstest.MapFile{Data: []byte(text + "\n")}
	}
	return out
}

func TestRead(t *testing.T) {
	two := map[string]string{
		"node0/cpulist": "0-1,4-5", "node1/cpulist": "2-3,6-7", "node10/cpulist": "", "has_memory": "0-1,10",
		"online": "0-1,10", "nodes/cpulist": "9", "node/cpulist": "9", "node-1/cpulist": "9", "power/x": "",
	}
	for name, c := range map[string]struct {
		files map[string]string
		want  []Node
	}{
		"nothing":  {nil, nil},
		"one":      {map[string]string{"node0/cpulist": "0-2", "has_memory": "0"}, []Node{{0, []int{0, 1, 2}, true}}},
		"two":      {two, []Node{{0, []int{0, 1, 4, 5}, true}, {1, []int{2, 3, 6, 7}, true}, {10, nil, true}}},
		"bad list": {map[string]string{"node0/cpulist": "x", "node1/cpulist": "1"}, []Node{{0, nil, false}, {1, []int{1}, false}}},
	} {
		if got := Read(tree(c.files)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	if runtime.GOOS == "linux" {
		for _, n := range Nodes() {
			if len(n.Cores) == 0 && !n.Memory {
				t.Errorf("%+v has neither cores nor memory", n)
			}
		}
	}
}

func TestArrange(t *testing.T) {
	two := Read(tree(map[string]string{"node0/cpulist": "0-1,4-5", "node1/cpulist": "2-3,6-7"}))
	for _, c := range []struct {
		cores []int
		nodes []Node
		want  []int
	}{
		{[]int{3, 1, 2}, nil, []int{1, 2, 3}},
		{[]int{0, 1, 2}, Read(tree(map[string]string{"node0/cpulist": "0-7"})), []int{0, 1, 2}},
		{[]int{0, 1, 2, 3, 4, 5, 6, 7}, two, []int{0, 1, 4, 5, 2, 3, 6, 7}},
		{[]int{9, 7, 4, 2}, two, []int{4, 2, 7, 9}}, // some are not allowed, one is in no node
	} {
		if got := Arrange(c.cores, c.nodes); !slices.Equal(got, c.want) {
			t.Errorf("%v of %v: %v, want %v", c.cores, c.nodes, got, c.want)
		}
	}
}

// A list is read back from its numbers one by one.
func FuzzParseList(f *testing.F) {
	for _, s := range []string{"0-3,8", "", "5", "3,1-2", "0-", "-1", "7-3", "0-99999999", "1,,2", " 4\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := ParseList(s)
		if !ok && got != nil {
			t.Fatalf("%q: %v of what is no list", s, got)
		}
		for i, n := range got {
			if n < 0 || n > maxNumber || i > 0 && n <= got[i-1] {
				t.Fatalf("%q: %v", s, got)
			}
		}
	})
}

func TestParseList(t *testing.T) {
	for s, want := range map[string][]int{"0-3,8": {0, 1, 2, 3, 8}, "": nil, " 4\n": {4}, "3,1-2,2": {1, 2, 3}} {
		if got, ok := ParseList(s); !ok || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %t", s, got, ok)
		}
	}
	for _, s := range []string{"0-", "-1", "7-3", "0-99999999", "1,,2", "x", "1-2-3"} {
		if got, ok := ParseList(s); ok {
			t.Errorf("%q is taken for %v", s, got)
		}
	}
}
