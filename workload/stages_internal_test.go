package workload

import (
	"slices"
	"strings"
	"testing"

	"github.com/weft-run/weft/sched"
)

// Ranges are read back as they were, in their order, and those that are not all items, each
// once, are refused.
func TestRanges(t *testing.T) {
	in := []sched.Range{{Lo: 5, Hi: 9}, {Lo: 0, Hi: 5}, {Lo: 9, Hi: 9}, {Lo: 9, Hi: 10}}
	if out, err := parseRanges(formatRanges(in), 10); err != nil || !slices.Equal(in, out) {
		t.Errorf("%v, %v", out, err)
	}
	for text, want := range map[string]string{
		"": "end at 0", "0-9": "end at 9", "0-11": "no range", "-1-5 5-10": "no range", "0-5 6-10": "item 5", "0-6 5-10": "item 5",
		"5-0": "no range", "x": "no range", "0-5 5-99999999999999999999": "no range",
	} {
		if out, err := parseRanges(text, 10); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %q", text, out, err, want)
		}
	}
}
