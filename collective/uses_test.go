package collective

import (
	"errors"
	"testing"

	"github.com/weft-run/weft"
)

// Operations at the same time may read the same memory, and none may write what another uses.
func TestUses(t *testing.T) {
	mem := make([]float32, 100)
	a, b, c := mem[:40], mem[30:60], mem[60:]
	for _, test := range []struct {
		in1, out1, in2, out2 []float32
		clash                bool
	}{
		{a, c, b, nil, false},   // both read
		{a, c, nil, b, true},    // the second writes what the first reads
		{nil, a, b, nil, true},  // the second reads what the first writes
		{a, a, b, b, true},      // in place
		{a, a, c, c, false},     // in place, apart
		{nil, b, nil, c, false}, // one behind the other
	} {
		var u uses
		first, err := claim(&u, [][]float32{test.in1}, [][]float32{test.out1})
		if err != nil {
			t.Fatal(err)
		}
		second, err := claim(&u, [][]float32{test.in2}, [][]float32{test.out2})
		if (err != nil) != test.clash || err != nil && !errors.Is(err, weft.ErrBinding) {
			t.Errorf("%+v: %v", test, err)
		}
		u.release(first)
		if test.clash {
			if second, err = claim(&u, [][]float32{test.in2}, [][]float32{test.out2}); err != nil {
				t.Errorf("after the first has ended: %v", err)
			}
		}
		if u.release(second); len(u.spans) > 0 {
			t.Errorf("left behind: %v", u.spans)
		}
	}
}
