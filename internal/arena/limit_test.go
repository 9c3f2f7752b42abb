//go:build linux

package arena

import (
	"io/fs"
	"math"
	"testing"
)

// The limit of every group around the process counts, in both versions of control
// groups, and where a container sees only a part of the hierarchy.
func TestCgroupLimit(t *testing.T) {
	const (
		v2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
		v1 = "31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n" +
			"33 23 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
		inside = "31 23 0:27 /docker/abc /sys/fs/cgroup/memory ro master:9 - cgroup cgroup rw,memory\n"
	)
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no control groups": {nil, math.MaxInt64},
		"one level": {map[string]string{
			"/proc/self/mountinfo": v2, "/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "200000000\n",
		}, 200e6},
		"the group around it": {map[string]string{
			"/proc/self/mountinfo": v2, "/proc/self/cgroup": "0::/a/b/c\n",
			"/sys/fs/cgroup/a/memory.max": "200000000\n", "/sys/fs/cgroup/a/b/memory.max": "max\n", "/sys/fs/cgroup/a/b/c/memory.max": "300000000\n",
		}, 200e6},
		"the innermost": {map[string]string{
			"/proc/self/mountinfo": v2, "/proc/self/cgroup": "0::/a/b\n",
			"/sys/fs/cgroup/a/memory.max": "400000000\n", "/sys/fs/cgroup/a/b/memory.max": "100000000\n",
		}, 100e6},
		"none set": {map[string]string{
			"/proc/self/mountinfo": v2, "/proc/self/cgroup": "0::/a\n", "/sys/fs/cgroup/a/memory.max": "max\n",
		}, math.MaxInt64},
		"version 1": {map[string]string{
			"/proc/self/mountinfo": v1, "/proc/self/cgroup": "2:cpu:/x\n4:hugetlb,memory:/a/b\n0::/\n",
			"/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n", "/sys/fs/cgroup/memory/a/memory.limit_in_bytes": "250000000\n",
			"/sys/fs/cgroup/memory/x/memory.limit_in_bytes": "5\n",
		}, 250e6},
		"within a container": {map[string]string{
			"/proc/self/mountinfo": inside, "/proc/self/cgroup": "4:memory:/docker/abc/job\n",
			"/sys/fs/cgroup/memory/job/memory.limit_in_bytes": "150000000\n", "/sys/fs/cgroup/memory/memory.limit_in_bytes": "180000000\n",
		}, 150e6},
		"a group outside of what is mounted": {map[string]string{
			"/proc/self/mountinfo": inside, "/proc/self/cgroup": "4:memory:/docker/abcdef\n",
			"/sys/fs/cgroup/memory/memory.limit_in_bytes": "180000000\n",
		}, 180e6},
	} {
		got := cgroupLimit(func(file string) ([]byte, error) {
			if text, ok := c.files[file]; ok {
				return []byte(text), nil
			}
			return nil, fs.ErrNotExist
		})
		if got != c.want {
			t.Errorf("%s: %d bytes, want %d", name, got, c.want)
		}
	}
}

// What is left is the least of what the machine has and what every group still allows.
func TestAvailable(t *testing.T) {
	const (
		v2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
		v1 = "33 23 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
	)
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"nothing known": {nil, math.MaxInt64},
		"the machine":   {map[string]string{"/proc/meminfo": "MemTotal:  9 kB\nMemAvailable:    1000 kB\n"}, 1000 << 10},
		"a group has less": {map[string]string{
			"/proc/meminfo": "MemAvailable: 1000 kB\n", "/proc/self/mountinfo": v2, "/proc/self/cgroup": "0::/a/b\n",
			"/sys/fs/cgroup/a/memory.max": "500000\n", "/sys/fs/cgroup/a/memory.current": "450000\n", "/sys/fs/cgroup/a/memory.stat": "anon 1\ninactive_file 30000\nactive_file 7000\nshmem 900\n",
			"/sys/fs/cgroup/a/b/memory.max": "max\n", "/sys/fs/cgroup/a/b/memory.current": "440000\n",
		}, 87000},
		"a group has more": {map[string]string{
			"/proc/meminfo": "MemAvailable: 10 kB\n", "/proc/self/mountinfo": v2, "/proc/self/cgroup": "0::/\n",
			"/sys/fs/cgroup/memory.max": "500000\n", "/sys/fs/cgroup/memory.current": "1000\n",
		}, 10 << 10},
		"cache of version 1": {map[string]string{
			"/proc/self/mountinfo": v1, "/proc/self/cgroup": "4:memory:/\n",
			"/sys/fs/cgroup/memory/memory.limit_in_bytes": "2000\n", "/sys/fs/cgroup/memory/memory.usage_in_bytes": "1500\n",
			"/sys/fs/cgroup/memory/memory.stat": "inactive_file 900\nactive_file 900\ntotal_inactive_file 100\ntotal_active_file 300\n",
		}, 900},
		"beyond its limit": {map[string]string{
			"/proc/self/mountinfo": v1, "/proc/self/cgroup": "4:memory:/\n",
			"/sys/fs/cgroup/memory/memory.limit_in_bytes": "1000\n", "/sys/fs/cgroup/memory/memory.usage_in_bytes": "1500\n",
			"/sys/fs/cgroup/memory/memory.stat": "inactive_file 900\nactive_file 900\ntotal_inactive_file 100\ntotal_active_file 300\n",
		}, 0},
	} {
		got := available(func(file string) ([]byte, error) {
			if text, ok := c.files[file]; ok {
				return []byte(text), nil
			}
			return nil, fs.ErrNotExist
		})
		if got != c.want {
			t.Errorf("%s: %d bytes, want %d", name, got, c.want)
		}
	}
	if n := Available(); n <= 0 || n > Memory() {
		t.Errorf("%d bytes are available of %d", n, Memory())
	}
}
