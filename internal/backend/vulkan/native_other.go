//go:build !linux

package vulkan

import "errors"

// libraryNames are what the Vulkan loader is called.
var libraryNames = []string{"libvulkan"}

// errPlatform is why no library opens: GPU workers need Linux.
var errPlatform = errors.New("the vulkan backend needs Linux")

func dlopen(string) (uintptr, error) { return 0, errPlatform }

func dlsym(uintptr, string) uintptr { return 0 }

func callback(any) uintptr { return 0 }

// SeesGPU reports whether the system shows a GPU to programs that this backend
// could use.
func SeesGPU() bool { return false }
