package cuda

import (
	"slices"
	"testing"
)

// Lanes that copy, also those of a worker for copies in parts, have streams of their own.
func TestStreamsOfLanes(t *testing.T) {
	for _, c := range []struct {
		lanes, given int
		want         []int
	}{
		{1, 3, []int{0, 1, 2}},
		{1, 5, []int{0, 1, 2, 1, 2}},
		{2, 4, []int{0, 1, 2, 3}},
		{2, 6, []int{0, 1, 2, 3, 2, 3}},
		{2, 3, []int{0, 2, 3}}, // fewer than it could have
	} {
		d := &device{streams: make([]*stream, c.lanes+2)}
		d.info.Lanes = c.lanes
		var got []int
		for i := range c.given {
			got = append(got, d.streamOf(i, c.given))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%d lanes of a device with %d streams for kernels have streams %v, want %v", c.given, c.lanes, got, c.want)
		}
	}
}
