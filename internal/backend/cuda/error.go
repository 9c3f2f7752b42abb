package cuda

import (
	"fmt"

	"github.com/weft-run/weft/experimental/driver"
)

// Error is an error code of one of NVIDIA's libraries. errors.Is matches it with
// driver.ErrOutOfMemory, ErrDeviceLost, ErrKernel and ErrUnavailable by its code.
type Error struct {
	Call string // the function that answered with it
	Code int32
	Name string // as CUDA_ERROR_ILLEGAL_ADDRESS
	Text string
	// Log is the output of a compiler, if one ran.
	Log string
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s: %s (%d)", e.Call, e.Name, e.Code)
	if e.Text != "" {
		s += ": " + e.Text
	}
	if e.Log != "" {
		s += ": " + e.Log
	}
	return s
}

// Codes of libcuda that mean something to weft.
const (
	errInvalidValue  = 1
	errOutOfMemory   = 2
	errNotInit       = 3
	errDeinitialized = 4
	errUnavailable   = 46
	errNoDevice      = 100
	errNotReady      = 600
	errRegistered    = 712
	errNotSupported  = 801
)

// kinds sorts codes of libcuda by what they mean to the caller. Those of a lost
// device stay until the process ends: every later call answers the same.
var kinds = map[int32]error{
	errOutOfMemory: driver.ErrOutOfMemory,

	errNotInit: driver.ErrUnavailable, errUnavailable: driver.ErrUnavailable, errNoDevice: driver.ErrUnavailable,
	34: driver.ErrUnavailable, 802: driver.ErrUnavailable, 803: driver.ErrUnavailable, 804: driver.ErrUnavailable,

	errDeinitialized: driver.ErrDeviceLost, 201: driver.ErrDeviceLost, 214: driver.ErrDeviceLost, 220: driver.ErrDeviceLost,
	226: driver.ErrDeviceLost, 700: driver.ErrDeviceLost, 702: driver.ErrDeviceLost, 709: driver.ErrDeviceLost,
	710: driver.ErrDeviceLost, 714: driver.ErrDeviceLost, 715: driver.ErrDeviceLost, 716: driver.ErrDeviceLost,
	717: driver.ErrDeviceLost, 718: driver.ErrDeviceLost, 719: driver.ErrDeviceLost, 721: driver.ErrDeviceLost,
	999: driver.ErrDeviceLost,

	errInvalidValue: driver.ErrKernel, 98: driver.ErrKernel, 200: driver.ErrKernel, 209: driver.ErrKernel, 218: driver.ErrKernel,
	221: driver.ErrKernel, 222: driver.ErrKernel, 300: driver.ErrKernel, 301: driver.ErrKernel, 500: driver.ErrKernel,
	701: driver.ErrKernel, 703: driver.ErrKernel, 720: driver.ErrKernel, errNotSupported: driver.ErrKernel,
}

// Is reports whether the code is of the kind target stands for.
func (e *Error) Is(target error) bool { return kinds[e.Code] == target }

// lost reports whether a code means that the process has lost the device.
func lost(code int32) bool { return kinds[code] == driver.ErrDeviceLost }
