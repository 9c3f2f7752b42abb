package host

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// tree writes files below a folder.
func tree(t *testing.T, files map[string]string) string {
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestLimits(t *testing.T) {
	const meminfo = "MemTotal:       16777216 kB\nMemFree:         1 kB\nMemAvailable:    8388608 kB\n"
	const gib = 1 << 30
	for name, c := range map[string]struct {
		files map[string]string
		want  Limits
	}{
		"nothing known": {nil, Limits{}},
		"no group": {map[string]string{
			"proc/meminfo":     meminfo,
			"proc/self/limits": "Limit                     Soft Limit           Hard Limit           Units\nMax locked memory         unlimited            unlimited            bytes\n",
			"sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
			"proc/loadavg": "0.50 1.25 2.00 3/456 789\n",
		}, Limits{Memory: 16 * gib, Available: 8 * gib, Locked: -1, HugePages: "madvise", Load: "0.50 1.25 2.00"}},
		"version 2, limited above": {map[string]string{
			"proc/meminfo":                   meminfo,
			"proc/self/cgroup":               "0::/a/b\n",
			"sys/fs/cgroup/a/cpu.max":        "150000 100000\n",
			"sys/fs/cgroup/a/b/cpu.max":      "max 100000\n",
			"sys/fs/cgroup/a/memory.max":     "4294967296\n",
			"sys/fs/cgroup/a/memory.current": "1073741824\n",
			"sys/fs/cgroup/a/b/memory.max":   "max\n",
			"proc/self/limits":               "Max locked memory         8388608              8388608              bytes\n",
		}, Limits{Cores: 1.5, Memory: 4 * gib, Available: 3 * gib, Locked: 8 << 20}},
		"version 2, seen from inside": {map[string]string{
			"proc/meminfo":                 meminfo,
			"proc/self/cgroup":             "0::/docker/1234\n",
			"sys/fs/cgroup/cpu.max":        "200000 100000\n",
			"sys/fs/cgroup/memory.max":     "2147483648\n",
			"sys/fs/cgroup/memory.current": "3221225472\n",
		}, Limits{Cores: 2, Memory: 2 * gib, Available: 1}},
		"version 1": {map[string]string{
			"proc/meminfo":                                   meminfo,
			"proc/self/cgroup":                               "4:memory:/job\n2:cpu,cpuacct:/job\n1:name=systemd:/x\n",
			"sys/fs/cgroup/cpu/job/cpu.cfs_quota_us":         "50000\n",
			"sys/fs/cgroup/cpu/job/cpu.cfs_period_us":        "100000\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us":             "-1\n",
			"sys/fs/cgroup/cpu/cpu.cfs_period_us":            "100000\n",
			"sys/fs/cgroup/memory/job/memory.limit_in_bytes": "1073741824\n",
			"sys/fs/cgroup/memory/job/memory.usage_in_bytes": "0\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":     "9223372036854771712\n",
		}, Limits{Cores: 0.5, Memory: gib, Available: gib}},
		"address space": {map[string]string{
			"proc/meminfo":     meminfo,
			"proc/self/limits": "Max data size             unlimited            unlimited            bytes\nMax address space         2147483648           unlimited            bytes\n",
			"proc/self/status": "Name:\tweft\nVmSize:\t 1048576 kB\nVmData:\t   65536 kB\n",
		}, Limits{Memory: 2 * gib, Available: gib, Space: 2 * gib, SpaceLeft: gib}},
		"data": {map[string]string{
			"proc/meminfo":     meminfo,
			"proc/self/limits": "Max data size             1073741824           1073741824           bytes\nMax address space         unlimited            unlimited            bytes\n",
			"proc/self/status": "VmSize:\t 1048576 kB\nVmData:\t  524288 kB\n",
		}, Limits{Memory: gib, Available: gib / 2, Data: gib, DataLeft: gib / 2}},
		"both, used up, in a group with less": {map[string]string{
			"proc/meminfo":                   meminfo,
			"proc/self/limits":               "Max data size             4294967296           4294967296           bytes\nMax address space         4294967296            4294967296            bytes\n",
			"proc/self/status":               "VmSize:\t 8388608 kB\nVmData:\t  524288 kB\n",
			"proc/self/cgroup":               "0::/a\n",
			"sys/fs/cgroup/a/memory.max":     "1073741824\n",
			"sys/fs/cgroup/a/memory.current": "0\n",
		}, Limits{Memory: gib, Available: 1, Space: 4 * gib, SpaceLeft: 1, Data: 4 * gib, DataLeft: 7 * gib / 2}},
	} {
		if got := readLimits(tree(t, c.files)); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	if l := Read(); l.Memory <= 0 || l.Available <= 0 {
		t.Errorf("this machine has no memory: %+v", l)
	}
}

// A limit that leaves little address space or memory is named in one line, with what is left and what is needed.
func TestRoom(t *testing.T) {
	for _, l := range []Limits{{}, {Space: 4 << 30, SpaceLeft: 1 << 30}, {Data: 300e6, DataLeft: 170e6}, {Available: 1}} {
		if err := room(l); err != nil {
			t.Errorf("%+v: %v", l, err)
		}
	}
	err := room(Limits{Space: 1400e6, SpaceLeft: 90e6})
	if !errors.Is(err, ErrMemory) || err.Error() != "this process may have 1.4 GB of address space, and 90 MB of them are left, of which weft needs 268.4 MB; raise the limit by ulimit -v" {
		t.Error(err)
	}
	err = room(Limits{Data: 150e6, DataLeft: 20e6})
	if !errors.Is(err, ErrMemory) || err.Error() != "this process may have 150 MB of memory of its own, and 20 MB of them are left, of which weft needs 134.2 MB; raise the limit by ulimit -d" {
		t.Error(err)
	}
}

// A limit of a process is seen, by what it has already. It is set in a process of its own, which would end wherever
// another test took memory under the limit.
func TestRoomHere(t *testing.T) {
	const child = "WEFT_TEST_ROOM"
	if os.Getenv(child) == "" {
		c := exec.Command(os.Args[0], "-test.run", "^TestRoomHere$", "-test.v")
		c.Env = append(os.Environ(), child+"=1")
		if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestRoomHere") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	has := colonLines(string(status))
	for _, c := range []struct {
		resource int
		has      string
		least    int64
		of       func(Limits) (most, left int64)
	}{
		{syscall.RLIMIT_AS, "VmSize", leastSpace, func(l Limits) (int64, int64) { return l.Space, l.SpaceLeft }},
		{syscall.RLIMIT_DATA, "VmData", leastData, func(l Limits) (int64, int64) { return l.Data, l.DataLeft }},
	} {
		var was, little syscall.Rlimit
		if err := syscall.Getrlimit(c.resource, &was); err != nil {
			t.Fatal(err)
		}
		little = was
		little.Cur = uint64(kilobytes(has[c.has]) + c.least*3/4)
		if err := syscall.Setrlimit(c.resource, &little); err != nil {
			t.Fatal(err)
		}
		l, err := Read(), Room()
		if err := syscall.Setrlimit(c.resource, &was); err != nil {
			t.Fatal(err)
		}
		if most, left := c.of(l); most != int64(little.Cur) || left > c.least*3/4 || l.Available > left || !errors.Is(err, ErrMemory) {
			t.Errorf("%s: %+v of %d: %v", c.has, l, little.Cur, err)
		}
	}
}

// Processor time of others is what neither this process nor its children used.
func TestProcessor(t *testing.T) {
	stat := func(pid, ppid, user int) string {
		return fmt.Sprintf("%d (a (b) c) S %d 1 1 0 -1 4194560 1 2 3 4 %d 10 5 5 20 0 1 0 100\n", pid, ppid, user)
	}
	at := func(busy, own, child int) Processor {
		root := tree(t, map[string]string{
			"proc/stat":    fmt.Sprintf("cpu  %d 10 10 99999 50 5 5 20 0 0\ncpu0 1 1 1\n", busy),
			"proc/7/stat":  stat(7, 1, own),
			"proc/8/stat":  stat(8, 7, child),
			"proc/9/stat":  stat(9, 1, 100000),
			"proc/10/stat": "10 (gone",
		})
		p, ok := readProcessor(root, 7)
		if !ok {
			t.Fatal("not known")
		}
		return p
	}
	before, after := at(1000, 100, 200), at(1400, 150, 250)
	if want := (Processor{All: 10500 * time.Millisecond, Own: 3400 * time.Millisecond}); before != want {
		t.Errorf("%+v, want %+v", before, want)
	}
	if got := after.Others(before, 2*time.Second); got != 1.5 { // 4 s less 1 s of 2 s
		t.Errorf("others used %v cores, want 1.5", got)
	}
	if got := after.Others(before, 0); got != 0 {
		t.Errorf("in no time others used %v cores", got)
	}
	if _, ok := readProcessor(t.TempDir(), 7); ok {
		t.Error("known without a file")
	}
	if p, ok := ReadProcessor(); !ok || p.All < p.Own {
		t.Errorf("here: %+v, %v", p, ok)
	}
}
