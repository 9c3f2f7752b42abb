package driver_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/weft-run/weft/experimental/driver"
)

// A kernel that fails with the error of another device does not say of its own launch what that
// says by the errors of the package; all else that the error says is kept.
func TestFailOfAnother(t *testing.T) {
	path := &fs.PathError{Op: "read", Path: "x", Err: fs.ErrNotExist}
	for _, hidden := range []error{
		driver.ErrUnavailable, driver.ErrOutOfMemory, driver.ErrDeviceLost, driver.ErrKernel, driver.ErrUnfit, driver.ErrNoFunc,
		driver.ErrFaulted, driver.ErrDependency, driver.ErrSpoilt, driver.ErrChecksum, driver.ErrClosed, driver.ErrStopped,
	} {
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

// An error that is said to be of the launch says what is listed, and no more.
func TestOfLaunch(t *testing.T) {
	c := new(driver.Call)
	c.Fail(driver.OfLaunch(fmt.Errorf("%w: %w: %w", driver.ErrChecksum, driver.ErrDeviceLost, fs.ErrNotExist), driver.ErrChecksum, driver.ErrOutOfMemory))
	err := fmt.Errorf("kernel: %w", c.Err())
	if !errors.Is(err, driver.ErrChecksum) || !errors.Is(err, fs.ErrNotExist) || errors.Is(err, driver.ErrDeviceLost) || errors.Is(err, driver.ErrOutOfMemory) {
		t.Errorf("the error is %v", err)
	}
	c.Reset()
	driver.WithParams(func(*driver.Call, struct{ N int32 }, int, int) {})(c, 0, 1)
	if err := c.Err(); !errors.Is(err, driver.ErrUnfit) || !errors.Is(err, driver.ErrKernel) {
		t.Errorf("without parameters: %v", err)
	}
}
