package cpu

import (
	"bufio"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// pin ties the calling thread to cores [lo, hi). Where that is not allowed the
// thread stays free, which costs speed and nothing else.
func pin(lo, hi int) {
	var set unix.CPUSet
	var allowed unix.CPUSet
	if unix.SchedGetaffinity(0, &allowed) != nil {
		return
	}
	n := 0
	for c := 0; c < len(allowed)*64; c++ {
		if allowed.IsSet(c) {
			if n >= lo && n < hi {
				set.Set(c)
			}
			n++
		}
	}
	_ = unix.SchedSetaffinity(0, &set)
}

// modelName is what the machine calls its processor.
func modelName() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "CPU"
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if name, v, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(v)
		}
	}
	return "CPU"
}

// quota says how much of its cores the process may use, when that is limited.
func quota() string {
	b, err := os.ReadFile("/sys/fs/cgroup/cpu.max") // "max 100000" or "150000 100000"
	if err != nil || strings.HasPrefix(string(b), "max") {
		return ""
	}
	return ", quota " + strings.TrimSpace(string(b))
}
