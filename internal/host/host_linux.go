package host

import (
	"cmp"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Read returns the limits of this process and of its control groups, of version 2
// or 1. Limits that cannot be read are zero.
func Read() Limits { return readLimits("/") }

// readLimits reads the files of the kernel below root, which is another folder in
// tests.
func readLimits(root string) Limits {
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(b))
	}
	var l Limits
	info := colonLines(read("proc/meminfo"))
	l.Memory, l.Available = kilobytes(info["MemTotal"]), kilobytes(info["MemAvailable"])
	limits := read("proc/self/limits")
	limit := func(name string) int64 { // -1 for none, 0 where it is not known
		for line := range strings.Lines(limits) {
			if rest, ok := strings.CutPrefix(line, name); ok {
				if f := strings.Fields(rest); len(f) > 0 {
					return number(f[0], -1)
				}
			}
		}
		return 0
	}
	l.Locked = limit("Max locked memory")
	if _, rest, ok := strings.Cut(read("sys/kernel/mm/transparent_hugepage/enabled"), "["); ok {
		l.HugePages, _, _ = strings.Cut(rest, "]")
	}
	if f := strings.Fields(read("proc/loadavg")); len(f) >= 3 {
		l.Load = strings.Join(f[:3], " ")
	}
	for line := range strings.Lines(read("proc/self/cgroup")) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		l.restrict(read, f[1], f[2])
	}
	// What the process has counts against its own limits, also address space that is only reserved.
	has := colonLines(read("proc/self/status"))
	for _, own := range []struct {
		most int64
		has  string
	}{{limit("Max address space"), "VmSize"}, {limit("Max data size"), "VmData"}} {
		if own.most > 0 {
			left := max(own.most-kilobytes(has[own.has]), 1)
			l.Memory, l.Available = min(cmp.Or(l.Memory, own.most), own.most), min(cmp.Or(l.Available, left), left)
			if own.has == "VmSize" {
				l.Space, l.SpaceLeft = own.most, left
			} else {
				l.Data, l.DataLeft = own.most, left
			}
		}
	}
	return l
}

// restrict applies the limits of a control group and of the groups above it, the root last. In a
// container the own group appears as the root, while its path is the one on the machine outside.
func (l *Limits) restrict(read func(string) string, controllers, path string) {
	base, mem, used := "sys/fs/cgroup", "memory.max", "memory.current"
	switch {
	case strings.Contains(","+controllers+",", ",memory,"):
		base, mem, used = "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
	case strings.Contains(","+controllers+",", ",cpu,"):
		base = "sys/fs/cgroup/cpu"
	case controllers != "":
		return
	}
	for {
		dir := filepath.Join(base, path)
		if most := number(read(filepath.Join(dir, mem)), 0); most > 0 && (l.Memory == 0 || most < l.Memory) {
			l.Memory = most
			l.Available = min(l.Available, max(most-number(read(filepath.Join(dir, used)), 0), 1))
		}
		quota, period, _ := strings.Cut(read(filepath.Join(dir, "cpu.max")), " ")
		if quota == "" {
			quota, period = read(filepath.Join(dir, "cpu.cfs_quota_us")), read(filepath.Join(dir, "cpu.cfs_period_us"))
		}
		if q, p := number(quota, 0), number(period, 0); q > 0 && p > 0 {
			if cores := float64(q) / float64(p); l.Cores == 0 || cores < l.Cores {
				l.Cores = cores
			}
		}
		if path == "/" || path == "." || path == "" {
			return
		}
		path = filepath.Dir(path)
	}
}

// colonLines splits lines of the form name: value.
func colonLines(text string) map[string]string {
	out := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(line, ":"); ok {
			out[name] = strings.TrimSpace(value)
		}
	}
	return out
}

func kilobytes(s string) int64 { return number(strings.TrimSuffix(s, " kB"), 0) << 10 }

// number reads a whole number. It returns otherwise for words ("max", "unlimited")
// and for numbers above 2⁶², by which version 1 says that there is no limit.
func number(s string, otherwise int64) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n > math.MaxInt64/2 {
		return otherwise
	}
	return n
}
