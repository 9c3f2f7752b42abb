package vulkan

import "testing"

// What is used of a heap follows from what a process may use and uses.
func TestUsed(t *testing.T) {
	for _, c := range []struct {
		size, budget, usage uint64
		part                float64
		bytes               int64
	}{
		{1000, 1000, 0, 0, 1000},    // all is free
		{1000, 800, 300, 0.5, 1000}, // 300 of ours, 200 of others
		{1000, 300, 400, 1, 1000},   // more than may be used
		{1000, 2000, 0, 0, 1000},    // a promise beyond the heap
		{1000, 0, 0, -1, -1},        // a driver that does not say
		{0, 10, 0, -1, -1},
	} {
		if part, bytes := used(c.size, c.budget, c.usage); part != c.part || bytes != c.bytes {
			t.Errorf("of %d with a budget of %d and a use of %d: %v of %d, want %v of %d", c.size, c.budget, c.usage, part, bytes, c.part, c.bytes)
		}
	}
}
