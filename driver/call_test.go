package driver_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/weft-run/weft/driver"
)

// A kernel that fails with the error of another device does not say that its own is lost, or that
// it never began; all else that the error says is kept.
func TestFailOfAnother(t *testing.T) {
	path := &fs.PathError{Op: "read", Path: "x", Err: fs.ErrNotExist}
	for _, hidden := range []error{driver.ErrDeviceLost, driver.ErrDependency} {
		c := new(driver.Call)
		c.Fail(fmt.Errorf("elsewhere: %w: %w", hidden, path))
		err := fmt.Errorf("kernel: %w", c.Err())
		var found *fs.PathError
		if errors.Is(err, hidden) || !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &found) || found != path {
			t.Errorf("%v: the error is %v", hidden, err)
		}
		if want := fmt.Sprintf("kernel: elsewhere: %v: %v", hidden, path); err.Error() != want {
			t.Errorf("the error says %q and not %q", err, want)
		}
	}
	c := new(driver.Call)
	c.Fail(path)
	if c.Err() != error(path) {
		t.Errorf("the error is %v", c.Err())
	}
}
