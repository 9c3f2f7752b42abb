package enumerative_test

import (
	"bufio"
	"fmt"
	"os"
	"testing"

	"github.com/weft-run/weft/workload/enumerative"
)

// coefficient is a line of testdata/littlewood.txt: how often c is in the product of a and b.
type coefficient struct {
	k, n    int
	a, b, c []int
	count   int64
}

// recorded reads what littlewood.sh recorded.
func recorded(t *testing.T) (out []coefficient) {
	t.Helper()
	f, err := os.Open("testdata/littlewood.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var r coefficient
		var words [3]string
		if _, err := fmt.Sscan(s.Text(), &r.k, &r.n, &words[0], &words[1], &words[2], &r.count); err != nil {
			t.Fatalf("%q: %v", s.Text(), err)
		}
		for i, p := range []*[]int{&r.a, &r.b, &r.c} {
			classes, err := enumerative.ParseClasses(words[i])
			if err != nil {
				t.Fatal(err)
			}
			*p = classes[0]
		}
		out = append(out, r)
	}
	if len(out) < 30 {
		t.Fatalf("%d coefficients, want 30 or more", len(out))
	}
	return out
}
