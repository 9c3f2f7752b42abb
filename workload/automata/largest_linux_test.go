package automata

import (
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
)

func TestLargest(t *testing.T) {
	rule, err := ParseRule("B36/S23")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []int{1, deepest} {
		for _, of := range []Rule{Life, rule} {
			c := Config{Rows: maxSide, Cols: maxSide, Steps: 2*deepest + 1, Pattern: "random"}
			if err := c.Validate(); err != nil {
				t.Fatal(err)
			}
			j := &job{c: c, words: maxSide / 64, rule: of}
			j.every(k)
			j.start, j.end = workloadtest.Hollow[uint64](t, j.words*c.Rows), workloadtest.Hollow[uint64](t, j.words*c.Rows)
			workloadtest.Largest(t, j)
		}
	}
}
