package proc

import (
	"testing"
	"time"
)

func TestVictim(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	for name, c := range map[string]struct {
		left int64
		all  []holder
		want int
	}{
		"enough is left":                {100, []holder{{50, at(1)}}, -1},
		"nobody runs":                   {1, nil, -1},
		"the only one":                  {1, []holder{{50, at(1)}}, 0},
		"the newest":                    {1, []holder{{50, at(1)}, {50, at(3)}, {50, at(2)}}, 1},
		"newest of the large":           {1, []holder{{100, at(1)}, {60, at(2)}, {10, at(3)}}, 1},
		"a small one frees little":      {1, []holder{{100, at(1)}, {49, at(2)}}, 0},
		"the largest of equally new":    {1, []holder{{80, at(2)}, {100, at(2)}, {90, at(2)}}, 1},
		"nothing is known of it":        {1, []holder{{0, at(2)}}, -1},
		"one of unknown size is spared": {1, []holder{{0, at(9)}, {5, at(2)}}, 1},
	} {
		if got := victim(c.left, 100, c.all); got != c.want {
			t.Errorf("%s: worker %d, want %d", name, got, c.want)
		}
	}
}
