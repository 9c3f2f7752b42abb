package vulkan

import (
	"errors"
	"fmt"

	"github.com/weft-run/weft/experimental/driver"
)

// Error is an error code of Vulkan. errors.Is matches it with
// driver.ErrOutOfMemory, ErrDeviceLost, ErrKernel and ErrUnavailable by its code.
type Error struct {
	Call string // the function that answered with it
	Code int32
}

// Codes of Vulkan that mean something to weft.
const (
	timedOut   = 2
	incomplete = 5
	deviceLost = -4
	unknown    = -13
)

var codes = map[int32]struct {
	name string
	kind error
}{
	-1:          {"out of host memory", driver.ErrOutOfMemory},
	-2:          {"out of device memory", driver.ErrOutOfMemory},
	-3:          {"initialization failed", driver.ErrUnavailable},
	deviceLost:  {"device lost", driver.ErrDeviceLost},
	-5:          {"memory map failed", driver.ErrOutOfMemory},
	-6:          {"layer not present", driver.ErrUnavailable},
	-7:          {"extension not present", driver.ErrUnavailable},
	-8:          {"feature not present", driver.ErrUnavailable},
	-9:          {"incompatible driver", driver.ErrUnavailable},
	-10:         {"too many objects", driver.ErrOutOfMemory},
	unknown:     {"unknown", driver.ErrDeviceLost},
	-1000069000: {"out of pool memory", driver.ErrOutOfMemory},
	-1000072003: {"invalid external handle", driver.ErrOutOfMemory},
	-1000012000: {"invalid shader", driver.ErrUnfit},
}

func (e *Error) Error() string {
	if c, ok := codes[e.Code]; ok {
		return fmt.Sprintf("%s: %s (%d)", e.Call, c.name, e.Code)
	}
	return fmt.Sprintf("%s: error %d", e.Call, e.Code)
}

// Is reports whether the code is of the kind target stands for.
func (e *Error) Is(target error) bool { return errors.Is(codes[e.Code].kind, target) }

// isLost reports whether an error means that the device is lost.
func isLost(err error) bool { return errors.Is(err, driver.ErrDeviceLost) }
