package cuda

import "testing"

func TestCluster(t *testing.T) {
	for _, c := range []struct{ arch, units, want int }{
		{75, 72, 0}, {89, 128, 0}, {90, 132, 16}, {90, 64, 16}, {90, 63, 8}, {90, 16, 8}, {100, 148, 16}, {120, 48, 8},
	} {
		if got := cluster(c.arch, c.units); got != c.want {
			t.Errorf("a GPU of architecture %d with %d multiprocessors has clusters of %d blocks, want %d", c.arch, c.units, got, c.want)
		}
	}
}
