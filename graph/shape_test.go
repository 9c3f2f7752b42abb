package graph

import "testing"

func TestShape(t *testing.T) {
	own := Launch{Grid: [3]uint32{7, 0, 2}, Block: [3]uint32{32, 1, 1}, SharedBytes: 5}
	for _, c := range []struct {
		name     string
		impl     Impl
		in, want Launch
	}{
		{"nothing said", Impl{}, Launch{}, Launch{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}}},
		{"the step's own block", Impl{Per: [3]uint32{9, 9, 9}, SharedBytes: 8}, own,
			Launch{Grid: [3]uint32{7, 1, 2}, Block: [3]uint32{32, 1, 1}, SharedBytes: 5}},
		{"cut", Impl{Per: [3]uint32{128, All, 0}, Block: [3]uint32{256}, SharedBytes: 8},
			Launch{Grid: [3]uint32{129, 77, 3}},
			Launch{Grid: [3]uint32{2, 1, 3}, Block: [3]uint32{256, 1, 1}, SharedBytes: 8}},
		{"exactly", Impl{Per: [3]uint32{128}}, Launch{Grid: [3]uint32{256}},
			Launch{Grid: [3]uint32{2, 1, 1}, Block: [3]uint32{1, 1, 1}}},
	} {
		if got := c.impl.Shape(c.in); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}
