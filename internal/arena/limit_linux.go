package arena

import (
	"math"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// memoryLimit is the least of what the machine has, what every control group around
// this process allows, and what its address space has room for.
func memoryLimit() int64 {
	limit := min(cgroupLimit(os.ReadFile), addressSpace())
	var si unix.Sysinfo_t
	if unix.Sysinfo(&si) == nil {
		limit = min(limit, int64(si.Totalram)*int64(si.Unit))
	}
	return limit
}

// sizeLimit returns the largest size of the file behind an arena: the limit of a file (ulimit
// -f), and at most half of the address space that is left (ulimit -v), so that the other half
// stays for everything else this process maps.
func sizeLimit() int64 {
	limit := int64(math.MaxInt64)
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_FSIZE, &l) == nil && l.Cur < math.MaxInt64 {
		limit = int64(l.Cur)
	}
	if left := addressSpace(); left < math.MaxInt64 {
		limit = min(limit, left/2)
	}
	return limit
}

// addressSpace returns the number of bytes that this process may still map.
func addressSpace() int64 {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_AS, &l) != nil || l.Cur >= math.MaxInt64 {
		return math.MaxInt64
	}
	mapped := int64(0)
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		first, _, _ := strings.Cut(string(text), " ")
		pages, _ := strconv.ParseInt(first, 10, 64)
		mapped = pages * int64(os.Getpagesize())
	}
	return max(int64(l.Cur)-mapped, 0)
}

// cgroupLimit is the least that the control groups around this process allow, those
// of every level: a group may say nothing where one around it does.
func cgroupLimit(read readFile) int64 {
	limit := int64(math.MaxInt64)
	eachGroup(read, func(dir string, names *groupFiles) {
		limit = min(limit, readLimit(read, path.Join(dir, names.limit)))
	})
	return limit
}

// readFile is os.ReadFile, or a test's own.
type readFile func(name string) ([]byte, error)

// eachGroup calls fn with the folder of every control group around this process that may
// limit memory, and what the files in it are called.
func eachGroup(read readFile, fn func(dir string, names *groupFiles)) {
	groups, _ := read("/proc/self/cgroup")
	mounts, _ := read("/proc/self/mountinfo")
	for _, m := range cgroupMounts(string(mounts)) {
		for dir := m.path(string(groups)); ; dir = path.Dir(dir) {
			fn(path.Join(m.at, dir), m.names)
			if dir == "/" {
				break
			}
		}
	}
}

// readLimit reads a group's limit. Version 2 says "max" and version 1 some 2⁶³ where there is
// none.
func readLimit(read readFile, name string) int64 {
	text, err := read(name)
	if err != nil {
		return math.MaxInt64
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n <= 0 {
		return math.MaxInt64
	}
	return n
}

// Available returns the memory that is left before the system ends processes: the least of what
// the machine has available and what every control group around this process still allows,
// counting what the kernel can take back from the cache of files, those used lately among them:
// it takes them all back before it ends a process.
func Available() int64 { return available(os.ReadFile) }

func available(read readFile) int64 {
	left := int64(math.MaxInt64)
	if text, err := read("/proc/meminfo"); err == nil {
		if kib, ok := field(string(text), "MemAvailable:"); ok {
			left = kib << 10
		}
	}
	eachGroup(read, func(dir string, names *groupFiles) {
		limit := readLimit(read, path.Join(dir, names.limit))
		if limit == math.MaxInt64 {
			return
		}
		text, err := read(path.Join(dir, names.usage))
		if err != nil {
			return
		}
		used, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			return
		}
		if stat, err := read(path.Join(dir, "memory.stat")); err == nil {
			for _, line := range names.cached {
				n, _ := field(string(stat), line)
				used -= min(max(n, 0), used)
			}
		}
		left = min(left, max(limit-used, 0))
	})
	return left
}

// field returns the number behind a word that begins a line.
func field(text, word string) (int64, bool) {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == word {
			n, err := strconv.ParseInt(f[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// cgroupMount is a mounted hierarchy of control groups that limits memory.
type cgroupMount struct {
	at    string // the folder it is mounted on
	root  string // the group that this folder is
	v2    bool
	names *groupFiles
}

// groupFiles are the names of files that hold a group's limit and how much it uses, and of
// the lines of memory.stat that say how much of that is cache of files. Memory that processes
// share, which only swapping frees, is not in these lines.
type groupFiles struct {
	limit, usage string
	cached       []string
}

var (
	version1 = &groupFiles{"memory.limit_in_bytes", "memory.usage_in_bytes", []string{"total_inactive_file", "total_active_file"}}
	version2 = &groupFiles{"memory.max", "memory.current", []string{"inactive_file", "active_file"}}
)

// cgroupMounts finds the hierarchies that limit memory in the text of mountinfo.
func cgroupMounts(mountinfo string) []cgroupMount {
	var out []cgroupMount
	for line := range strings.Lines(mountinfo) {
		// 30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw
		front, back, ok := strings.Cut(line, " - ")
		f, b := strings.Fields(front), strings.Fields(back)
		if !ok || len(f) < 5 || len(b) < 3 {
			continue
		}
		switch {
		case b[0] == "cgroup2":
			out = append(out, cgroupMount{at: f[4], root: f[3], v2: true, names: version2})
		case b[0] == "cgroup" && listed(b[2], "memory"):
			out = append(out, cgroupMount{at: f[4], root: f[3], names: version1})
		}
	}
	return out
}

// path returns the group of this process below a mount, from the text of its cgroup file. In a
// container that text may name a group outside the mount; the mount itself is then the best
// answer.
func (m *cgroupMount) path(groups string) string {
	for line := range strings.Lines(groups) {
		// 4:memory:/a/b in version 1, 0::/a/b in version 2
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) < 3 || m.v2 != (f[1] == "") || !m.v2 && !listed(f[1], "memory") {
			continue
		}
		if rest, ok := strings.CutPrefix(f[2], strings.TrimSuffix(m.root, "/")); ok && (rest == "" || rest[0] == '/') {
			return path.Clean("/" + rest)
		}
	}
	return "/"
}

// listed reports whether a word is in a list separated by commas.
func listed(list, word string) bool { return strings.Contains(","+list+",", ","+word+",") }
