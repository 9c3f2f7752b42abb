package weft

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/weft-run/weft/experimental/driver"
)

// closing is a driver of one device that counts how often it is closed, or fails.
type closing struct {
	driver.Device
	err    error
	closed int
}

func (c *closing) Name() string { return "closing" }

func (c *closing) Open(context.Context, *slog.Logger) ([]driver.Device, error) {
	if c.err != nil {
		return nil, c.err
	}
	return []driver.Device{c}, nil
}

func (c *closing) Close() error {
	c.closed++
	return nil
}

// Devices that were opened are closed if another fails to open.
func TestOpenEach(t *testing.T) {
	first, second := &closing{}, &closing{}
	devs, err := openEach(t.Context(), []driver.Driver{first, second})
	if err != nil || len(devs) != 2 || first.closed+second.closed != 0 {
		t.Errorf("%d devices, %v; closed %d and %d times", len(devs), err, first.closed, second.closed)
	}
	bad := &closing{err: errors.New("no cores")}
	if _, err := openEach(t.Context(), []driver.Driver{first, second, bad}); !errors.Is(err, bad.err) || first.closed != 1 || second.closed != 1 {
		t.Errorf("the error is %v; closed %d and %d times", err, first.closed, second.closed)
	}
}
