//go:build !linux

package proc

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/weft-run/weft/experimental/driver"
)

// Open says that there are no workers here.
func (d *procDriver) Open(context.Context, *slog.Logger) ([]driver.Device, error) {
	return nil, fmt.Errorf("%w: devices in worker processes need Linux", driver.ErrUnavailable)
}

// Main does nothing: no process is a worker here.
func Main(map[string]Maker) {}

// Pids returns nothing: there are no workers here.
func Pids(string) []int { return nil }
