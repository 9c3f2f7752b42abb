package host

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of processor time in /proc, USER_HZ, which is 100 on all platforms.
const tick = time.Second / 100

// ReadProcessor returns the processor time used since the machine started, by all
// processes and by this one with its children. The time that a hypervisor gave to other
// machines counts as used. It returns false where this is not known.
func ReadProcessor() (Processor, bool) { return readProcessor("/", os.Getpid()) }

// readProcessor reads the files of the kernel below root.
func readProcessor(root string, pid int) (p Processor, ok bool) {
	b, err := os.ReadFile(filepath.Join(root, "proc/stat"))
	if err != nil {
		return p, false
	}
	line, _, _ := strings.Cut(string(b), "\n")
	f := strings.Fields(line) // cpu user nice system idle iowait irq softirq steal …
	if len(f) < 9 || f[0] != "cpu" {
		return p, false
	}
	for _, i := range []int{1, 2, 3, 6, 7, 8} {
		p.All += time.Duration(number(f[i], 0)) * tick
	}
	names, err := filepath.Glob(filepath.Join(root, "proc/[0-9]*/stat"))
	if err != nil {
		return p, false
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		// The name of the program, in parentheses, may hold anything.
		_, rest, _ := strings.Cut(string(b[max(strings.LastIndexByte(string(b), ')'), 0):]), " ")
		f := strings.Fields(rest) // state ppid … utime stime cutime cstime from the 12th on
		if len(f) < 15 {
			continue
		}
		own := filepath.Base(filepath.Dir(name)) == strconv.Itoa(pid)
		if !own && f[1] != strconv.Itoa(pid) {
			continue
		}
		for _, field := range f[11:15] {
			p.Own += time.Duration(number(field, 0)) * tick
		}
	}
	return p, true
}
