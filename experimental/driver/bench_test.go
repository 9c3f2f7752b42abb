package driver_test

import (
	"testing"

	"github.com/weft-run/weft/experimental/driver"
)

// BenchmarkBoard is what a task adds to by its completion and one wait.
func BenchmarkBoard(b *testing.B) {
	board := driver.NewBoard(2)
	for seq := uint32(0); b.Loop(); seq++ {
		board.Done(1, seq+1, false)
		if done, ok := board.State(driver.Wait{Lane: 1, Seq: seq}); !done || !ok {
			b.Fatal("what completed has not")
		}
	}
}
