package house

import (
	"fmt"
	"os"
	"testing"
)

// The tests name files from the root of the tree.
func TestMain(m *testing.M) {
	if err := os.Chdir("../../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
