//go:build !linux

package arena

import (
	"fmt"
	"math"

	"github.com/weft-run/weft/experimental/driver"
)

type file struct{ fd int }

func create(int64) (*file, []byte, error) {
	return nil, nil, fmt.Errorf("%w: memory is shared between processes on Linux alone", driver.ErrUnavailable)
}

// Close gives the memory up.
func (a *Arena) Close() error { return nil }

func (a *Arena) board(n int) (*driver.Board, error) { return driver.NewBoard(n), nil }

func fill([]byte) {}

func memoryLimit() int64 { return 0 }

// Available reports that the free memory of this system is not known.
func Available() int64 { return math.MaxInt64 }

func sizeLimit() int64 { return math.MaxInt64 }
