package vulkan

import (
	"path/filepath"

	"github.com/ebitengine/purego"
)

// libraryNames are what the Vulkan loader is called.
var libraryNames = []string{"libvulkan.so.1", "libvulkan.so"}

// dlopen opens a library once and for all: drivers it loads start threads that
// outlive a close.
func dlopen(path string) (uintptr, error) { return purego.Dlopen(path, purego.RTLD_NOW) }

func dlsym(handle uintptr, name string) uintptr {
	addr, err := purego.Dlsym(handle, name)
	if err != nil {
		return 0
	}
	return addr
}

// callback makes a Go function callable from C.
func callback(fn any) uintptr { return purego.NewCallback(fn) }

// SeesGPU reports whether the system shows a GPU to programs, for a look that
// costs nothing. A driver that computes on the CPU needs none.
func SeesGPU() bool {
	for _, pattern := range []string{"/dev/dri/renderD*", "/dev/nvidiactl", "/dev/dxg"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 { // the patterns are well formed
			return true
		}
	}
	return false
}
