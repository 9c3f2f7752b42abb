package proc

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/weft-run/weft/experimental/driver"
)

// Decisions with long names travel in parts that each fit into a message; one that
// never can is left out.
func TestTuneParts(t *testing.T) {
	var all, want []driver.Tuned
	for i := range 1000 {
		x := driver.Tuned{Kernel: strings.Repeat("k<", i%1500+1), Class: i, NS: 1e300}
		all, want = append(all, x), append(want, x)
		if i%400 == 0 {
			all = append(all, driver.Tuned{Kernel: strings.Repeat("x", maxMessage), Class: -1})
		}
	}
	var got []driver.Tuned
	for at := 0; at < len(all); {
		part, end := tunePart(all, at)
		if end <= at {
			t.Fatalf("a part from %d to %d", at, end)
		}
		b, err := json.Marshal(&message{Kind: answer, ID: 1 << 30, Tuned: part, From: end})
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > maxMessage {
			t.Fatalf("%d decisions take %d bytes; a message has %d", len(part), len(b), maxMessage)
		}
		got, at = append(got, part...), end
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d decisions arrived, want %d", len(got), len(want))
	}
}
