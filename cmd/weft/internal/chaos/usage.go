package chaos

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/weft-run/weft/internal/backend/proc"
)

// Use holds the resources that this process uses. Resident memory and descriptors are 0 without
// /proc.
type Use struct {
	RSS         int64 `json:"rss_bytes"`  // resident memory: the process's own, and pages of files
	Own         int64 `json:"own_bytes"`  // of it what is no file's: a program that runs longer has touched more of its code
	Heap        int64 `json:"heap_bytes"` // objects that the garbage collector keeps
	Goroutines  int   `json:"goroutines"`
	Descriptors int   `json:"descriptors"`
	Processes   int   `json:"processes"` // that it started
}

// Usage returns what this process uses, after it has given its garbage back: that counts as
// growth until then.
func Usage() Use {
	debug.FreeOSMemory()
	u := counts()
	var ms runtime.MemStats
	runtime.ReadMemStats(&ms)
	u.Heap = int64(ms.HeapAlloc)
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		if f := strings.Fields(string(text)); len(f) > 2 {
			all, _ := strconv.ParseInt(f[1], 10, 64) // 0 when it is not a number
			files, _ := strconv.ParseInt(f[2], 10, 64)
			u.RSS, u.Own = all*int64(os.Getpagesize()), (all-files)*int64(os.Getpagesize())
		}
	}
	return u
}

// counts is Usage without memory.
func counts() (u Use) {
	if list, err := os.ReadDir("/proc/self/fd"); err == nil {
		u.Descriptors = len(list)
	}
	u.Goroutines, u.Processes = runtime.NumGoroutine(), len(proc.Pids(""))
	return u
}

// more says what there is more of than before, memory aside; "" if nothing.
func (u Use) more(before Use) string {
	if u.Goroutines <= before.Goroutines && u.Descriptors <= before.Descriptors && u.Processes <= before.Processes {
		return ""
	}
	return fmt.Sprintf("%d goroutines (%d before), %d descriptors (%d), %d processes (%d)",
		u.Goroutines, before.Goroutines, u.Descriptors, before.Descriptors, u.Processes, before.Processes)
}

// settled returns what this process uses when there is no more than before, or leftWait has
// passed: what was killed last may not be cleared away yet.
func settled(before Use) Use {
	for end := time.Now().Add(leftWait); counts().more(before) != "" && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	return Usage()
}

// steady returns what this process uses when that has not changed for a fifth of a second and
// no child is left, or leftWait has passed.
func steady() Use {
	for end, last := time.Now().Add(leftWait), (Use{}); time.Now().Before(end); {
		now := counts()
		if now == last && now.Processes == 0 {
			break
		}
		last = now
		time.Sleep(200 * time.Millisecond)
	}
	return Usage()
}
