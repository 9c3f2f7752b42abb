package proc

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/fault"
)

// What an error says to the executor arrives from a worker: whether the kernel can never run, memory
// was short, or what the task reads may have changed.
func TestClasses(t *testing.T) {
	known := []error{
		driver.ErrDeviceLost, driver.ErrKernel, driver.ErrUnfit, driver.ErrFaulted, driver.ErrOutOfMemory, driver.ErrSpoilt,
		driver.ErrChecksum, driver.ErrStopped, driver.ErrClosed, driver.ErrUnavailable, driver.ErrDependency, fault.ErrPanic,
	}
	for _, c := range []struct {
		err error
		is  []error
	}{
		{driver.ErrKernel, []error{driver.ErrKernel}},
		{driver.ErrUnfit, []error{driver.ErrKernel, driver.ErrUnfit}},
		{fmt.Errorf("%w: %w", driver.ErrUnfit, driver.ErrNoFunc), []error{driver.ErrKernel, driver.ErrUnfit}},
		{fmt.Errorf("%w: %w", driver.ErrKernel, driver.ErrOutOfMemory), []error{driver.ErrOutOfMemory}},
		{fmt.Errorf("%w: %w", driver.ErrKernel, driver.ErrFaulted), []error{driver.ErrKernel, driver.ErrFaulted}},
		{fmt.Errorf("%w: %w", driver.ErrKernel, driver.ErrUnavailable), []error{driver.ErrKernel}},
		{driver.Spoilt(driver.ErrUnfit), []error{driver.ErrSpoilt}},
		{driver.Spoilt(fault.ErrPanic), []error{driver.ErrSpoilt, fault.ErrPanic}},
		{fmt.Errorf("%w; %w", fault.ErrPanic, driver.ErrChecksum), []error{driver.ErrChecksum}},
		{errors.New("boom"), nil},
	} {
		got := errorOf(classOf(c.err), c.err.Error())
		for _, k := range known {
			want := false
			for _, is := range c.is {
				want = want || is == k
			}
			if errors.Is(got, k) != want {
				t.Errorf("%v arrives as class %d, which is %v: %v", c.err, classOf(c.err), k, !want)
			}
		}
	}
}
