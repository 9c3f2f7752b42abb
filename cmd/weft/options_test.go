package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/driver"
	"github.com/weft-run/weft/internal/terminal"
)

// failing is a driver whose devices do not open.
type failing struct{ err error }

func (failing) Name() string { return "cpu" }

func (f failing) Open(context.Context, *slog.Logger) ([]driver.Device, error) { return nil, f.err }

// It is a mistake of the user to ask for devices that are not here, not that devices which are fail to open.
func TestOpenStatus(t *testing.T) {
	for _, c := range []struct {
		err   error
		usage bool
	}{
		{errors.New("cpu: open: worker process 7: signal: killed"), false},
		{fmt.Errorf("cpu: %w", driver.ErrUnavailable), true},
	} {
		_, err := open(t.Context(), weft.Options{Devices: "cpu", Drivers: []driver.Driver{failing{c.err}}, CacheDir: "off"}, io.Discard)
		var usage terminal.UsageError
		if !errors.Is(err, c.err) || errors.As(err, &usage) != c.usage {
			t.Errorf("the error is %v, a mistake of the user's: %v", err, !c.usage)
		}
	}
}
