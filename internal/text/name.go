package text

import (
	"fmt"
	"strings"
)

// Unknown is the error for a name that is none of names: it says which may have
// been meant, or else which there are.
func Unknown(what, name string, names []string) error {
	if near, ok := Nearest(name, names); ok {
		return fmt.Errorf("unknown %s %q; did you mean %s?", what, name, near)
	}
	return fmt.Errorf("unknown %s %q; there are %s", what, name, strings.Join(names, ", "))
}

// Nearest returns the name that the fewest edits make of what was written, unless
// they are more than a third of it.
func Nearest(written string, names []string) (string, bool) {
	best, fewest := "", max(len(written)/3, 1)+1
	for _, name := range names {
		if n := distance(strings.ToLower(written), strings.ToLower(name)); n < fewest {
			best, fewest = name, n
		}
	}
	return best, best != ""
}

// distance counts the bytes that must be added, dropped, changed or swapped with
// their neighbour to make b of a (Damerau's distance, restricted to one edit of
// each place).
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			change := last[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
