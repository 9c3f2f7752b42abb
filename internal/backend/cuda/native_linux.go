package cuda

import (
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"
)

func dlopen(path string) (uintptr, error) {
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
}

// absent reports whether a library could not be opened because it is not there: then
// it is named itself, else it may be another that it needs.
func absent(path string, err error) bool {
	return strings.Contains(err.Error(), path+":") && strings.Contains(err.Error(), "No such file")
}

func dlsym(handle uintptr, name string) uintptr {
	addr, err := purego.Dlsym(handle, name)
	if err != nil {
		return 0
	}
	return addr
}

// nap blocks the thread for about d. The runtime's own timers are as coarse as
// a millisecond when nothing else runs.
func nap(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&t, nil) // being woken early does no harm
}

// sharpen makes the calling thread's naps end on time rather than up to 50 µs
// late.
func sharpen() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1000, 0, 0, 0) }

// numaNode is the node a PCI device is attached to, 0 when that is not known.
func numaNode(pci string) int {
	b, err := os.ReadFile("/sys/bus/pci/devices/" + strings.ToLower(pci) + "/numa_node")
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || n < 0 {
		return 0
	}
	return n
}
