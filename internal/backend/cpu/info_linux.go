package cpu

import (
	"bufio"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// allowed are the cores that the process may use, ascending.
func allowed() (cores []int) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	for c := range len(set) * 64 {
		if set.IsSet(c) {
			cores = append(cores, c)
		}
	}
	return cores
}

// pin ties the calling thread to cores. Where that is not allowed the thread stays free,
// which costs speed and nothing else.
func pin(cores []int) {
	var set unix.CPUSet
	for _, c := range cores {
		set.Set(c)
	}
	_ = unix.SchedSetaffinity(0, &set)
}

// Realtime gives the calling thread, which must be locked to its goroutine, the policy
// SCHED_FIFO at the lowest priority: it goes before every ordinary thread of the machine.
func Realtime() error {
	return unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0)
}

// modelName returns the processor's name as the machine reports it.
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
