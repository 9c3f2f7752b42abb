package chaos

import (
	"maps"
	"slices"
	"testing"
)

func TestPick(t *testing.T) {
	for devices, want := range map[string]struct {
		counts map[string]int
		gpus   []string
		parts  int
		names  string
	}{
		"cpu/2":                            {map[string]int{"cpu": 2}, nil, 0, "cpu"},
		"fake/3, cpu":                      {map[string]int{"cpu": 1, "fake": 3}, nil, 0, "cpu,fake"},
		"vulkan":                           {nil, []string{"vulkan"}, 1, "vulkan"},
		"cuda:0/4 ,cpu/2, vulkan:1,cuda:1": {map[string]int{"cpu": 2}, []string{"cuda:0/4", "vulkan:1", "cuda:1"}, 4, "cpu,cuda:0/4,vulkan:1,cuda:1"},
	} {
		p, err := pick(devices)
		if err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(p.counts, want.counts) || !slices.Equal(p.gpus, want.gpus) || p.parts != want.parts || p.names() != want.names {
			t.Errorf("%s: %+v, named %s", devices, p, p.names())
		}
	}
}
