package bytevm

import "testing"

// known are seeds that once showed an error in the engine, by what it was.
var known = map[string][]uint64{
	"another run read what a detached launch was making":              {3534},
	"a launch was detached from a device that was dropped beside":     {11475},
	"a detached launch ran on a device that was lost":                 {1569, 2848, 3435, 4117, 5149, 8757, 9150, 12440, 14945, 18298},
	"a recipe was kept for a result made again in host memory":        {8269},
	"the target of a failed copy was freed under launches behind it":  {17046},
	"a buffer used again was freed while an operation referred to it": {1795, 5743, 8887, 13187, 13838, 17027, 19374},
	"a device was taken to wait for room after it was let on":         {15567},
	"recipes without recovery, or of data that was given up":          {1884, 2467, 5361, 6792, 7329, 7525, 9589, 9793, 11370, 12543, 12641, 16321, 17277, 17416, 17439, 17737, 19219, 19360},
	"closed data waited for a step that need not come":                {10753},
	"second copies filled host memory":                                {11233},
	"volatile updates behind a detached launch":                       {974, 2064, 5475, 7513, 8165, 8651},
}

// TestKnown runs the known seeds.
func TestKnown(t *testing.T) {
	for what, seeds := range known {
		if testing.Short() {
			seeds = seeds[:1]
		}
		for _, seed := range seeds {
			if drawn, _, err := Run(seed, All, nil); err != nil {
				t.Errorf("%s: seed %d, %v:\n%v", what, seed, drawn, err)
			}
		}
	}
}
