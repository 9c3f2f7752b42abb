package proc_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/proc"
	"github.com/weft-run/weft/internal/engine"
)

func init() {
	// rights writes what its process may do.
	funcs["rights"] = func(c *driver.Call, _, _ int) {
		var b strings.Builder
		try := func(name string, err error) {
			fmt.Fprintf(&b, "%s %v\n", name, !errors.Is(err, unix.EPERM))
		}
		// Each would change nothing if it were permitted.
		_, _, ptrace := unix.Syscall6(unix.SYS_PTRACE, 0xffff, 1<<30, 0, 0, 0, 0)
		try("ptrace", ptrace)
		_, _, keyctl := unix.Syscall(unix.SYS_KEYCTL, 0xffff, 0, 0)
		try("keyctl", keyctl)
		try("unshare", unix.Unshare(0))
		try("setns", unix.Setns(-1, 0))
		clone := func(flags uintptr) error { // with flags that go together
			if _, _, errno := unix.RawSyscall(unix.SYS_CLONE, flags, 0, 0); errno != 0 {
				return errno
			}
			panic("clone takes flags that do not go together")
		}
		try("clone user namespace", clone(unix.CLONE_NEWUSER|unix.CLONE_FS))
		try("clone mount namespace", clone(unix.CLONE_NEWNS|unix.CLONE_FS))
		_, _, clone3 := unix.Syscall(unix.SYS_CLONE3, 0, 0, 0)
		fmt.Fprintf(&b, "clone3 %v\n", clone3 != unix.ENOSYS)
		try("clone process", clone(unix.CLONE_SIGHAND))
		try("clone thread with files", clone(unix.CLONE_THREAD))
		try("exec", unix.Exec("/nonexistent", []string{"nonexistent"}, nil))
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err == nil {
			unix.Close(fd)
		}
		try("socket", err)
		try("kill parent", unix.Kill(os.Getppid(), 0))
		_, _, other := unix.Syscall(unix.SYS_TGKILL, uintptr(os.Getppid()), uintptr(os.Getppid()), 0)
		try("tgkill parent", other)
		_, _, self := unix.Syscall(unix.SYS_TGKILL, uintptr(os.Getpid()), uintptr(os.Getpid()), 0)
		try("tgkill self", self)
		var l unix.Rlimit
		try("limits", unix.Prlimit(0, unix.RLIMIT_CORE, nil, &l))
		try("limits by number", unix.Prlimit(os.Getpid(), unix.RLIMIT_CORE, nil, &l))
		try("set limits", unix.Prlimit(0, unix.RLIMIT_CORE, &l, nil))
		try("limits of parent", unix.Prlimit(os.Getppid(), unix.RLIMIT_CORE, nil, &l))
		var set unix.CPUSet
		try("cores", errors.Join(unix.SchedGetaffinity(0, &set), unix.SchedSetaffinity(0, &set)))
		_, _, cores := unix.Syscall(unix.SYS_SCHED_SETAFFINITY, uintptr(os.Getppid()), 0, 0)
		try("cores of parent", cores)
		_, _, shm := unix.Syscall(unix.SYS_SHMAT, 1<<30, 0, 0)
		try("shared memory", shm)
		for _, name := range []string{"environ", "mem", "maps", "cmdline"} {
			f, err := os.Open(fmt.Sprintf("/proc/%d/%s", os.Getppid(), name))
			if err == nil {
				_ = f.Close()
			}
			fmt.Fprintf(&b, "%s of parent %v\n", name, err == nil)
		}
		secret := os.Getenv("WEFT_TEST_FILE")
		_, err = os.ReadFile(secret)
		fmt.Fprintf(&b, "read a file %v\n", err == nil)
		_, err = os.ReadDir(filepath.Dir(secret))
		fmt.Fprintf(&b, "read a folder %v\n", err == nil)
		fmt.Fprintf(&b, "rights of a file %v\n", os.Chmod(secret, 0o600) == nil)
		fmt.Fprintf(&b, "times of a file %v\n", os.Chtimes(secret, time.Now(), time.Now()) == nil)
		fmt.Fprintf(&b, "length of a file %v\n", os.Truncate(secret, 3) == nil)
		fmt.Fprintf(&b, "write a file %v\n", os.WriteFile(secret, []byte("x"), 0o600) == nil)
		fmt.Fprintf(&b, "make a folder %v\n", os.Mkdir(fmt.Sprintf("%s%d", secret, os.Getpid()), 0o700) == nil)
		status, _ := os.ReadFile("/proc/thread-self/status")
		for line := range strings.Lines(string(status)) {
			if strings.HasPrefix(line, "NoNewPrivs") || strings.HasPrefix(line, "Seccomp:") {
				b.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
			}
		}
		var core, files unix.Rlimit
		try("getrlimit", errors.Join(unix.Getrlimit(unix.RLIMIT_CORE, &core), unix.Getrlimit(unix.RLIMIT_NOFILE, &files)))
		fmt.Fprintf(&b, "core %d files %d\n", core.Max, files.Max)
		score, _ := os.ReadFile("/proc/self/oom_score_adj")
		fmt.Fprintf(&b, "oom %s", score)
		f, err := os.OpenFile("/proc/self/oom_score_adj", os.O_WRONLY, 0)
		if err == nil {
			_, err = f.Write(score)
			_ = f.Close()
		}
		fmt.Fprintf(&b, "set oom %v\n", err == nil)
		fmt.Fprintf(&b, "secret %q cuda %q\n", os.Getenv("SECRET_TOKEN"), os.Getenv("CUDA_X"))
		_, err = os.Stat("/proc/self/fd/5") // where the arena was
		fmt.Fprintf(&b, "arena open %v\n", err == nil)
		fmt.Fprintf(&b, "own folder open %v\n", isOpen(fmt.Sprintf("/proc/%d", os.Getpid())))
		copy(c.Args[1], b.String())
	}
}

// isOpen reports whether this process has a file or folder open.
func isOpen(name string) bool {
	fds, _ := os.ReadDir("/proc/self/fd") // without it the test fails
	for _, fd := range fds {
		if is, _ := os.Readlink("/proc/self/fd/" + fd.Name()); is == name {
			return true
		}
	}
	return false
}

// said runs a kernel that writes a text.
func said(t *testing.T, r *rig, kernelName string) string {
	t.Helper()
	var b graph.Builder
	in := b.Data(graph.Data{Name: "in", Bytes: 4096, Input: true})
	x := b.Data(graph.Data{Name: "out", Bytes: 4096, Output: true})
	b.Add(graph.Task{
		Steps: []graph.Step{{Kernel: kernel(kernelName), Launch: graph.Grid(1)}},
		Uses:  []graph.Use{{Data: in, Access: graph.Read}, {Data: x, Access: graph.Write}},
	})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := r.run(t, g, make([]byte, 4096))
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimRight(out, "\x00"))
}

// A worker has the rights that are left to it, and no others.
func TestRights(t *testing.T) {
	t.Setenv("SECRET_TOKEN", "hidden")
	t.Setenv("CUDA_X", "seen")
	file := filepath.Join(t.TempDir(), "file")
	t.Setenv("WEFT_TEST_FILE", file)
	version, _, _ := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	landlock := int(version) > 0
	t.Logf("the kernel has Landlock: %v", landlock)
	for _, confined := range []bool{false, true} {
		if err := os.WriteFile(file, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		r := start(t, proc.Options{Workers: proc.Workers{Confine: confined, WorkerBytes: 1 << 30}, Driver: "cpu", Env: []string{"CUDA_"}}, engine.Options{})
		want := fmt.Sprintf(`ptrace false
keyctl false
unshare false
setns false
clone user namespace false
clone mount namespace false
clone3 false
clone process %[1]v
clone thread with files %[1]v
exec %[1]v
socket %[1]v
kill parent %[1]v
tgkill parent %[1]v
tgkill self true
limits true
limits by number true
set limits %[1]v
limits of parent %[1]v
cores true
cores of parent %[1]v
shared memory %[1]v
cmdline of parent %[2]v
read a file %[2]v
read a folder %[2]v
rights of a file %[1]v
times of a file %[1]v
length of a file %[1]v
write a file %[1]v
make a folder %[1]v
NoNewPrivs: 1
Seccomp: 2
getrlimit true
core 0 files 1024
oom 600
set oom %[1]v
secret "" cuda "seen"
arena open false
own folder open %[3]v
`, !confined, !confined || !landlock, confined && landlock)
		got := said(t, r, "rights")
		// The system may refuse these to a worker that is not confined too.
		for _, name := range []string{"environ", "mem", "maps"} {
			line := name + " of parent "
			if closed := confined && (landlock || os.Geteuid() != 0); closed && strings.Contains(got, line+"true\n") {
				t.Errorf("confined, it has the %s", line)
			}
			got = strings.NewReplacer(line+"true\n", "", line+"false\n", "").Replace(got)
		}
		if got != want {
			t.Errorf("confined %v:\n%s", confined, got)
		}
	}
	r := start(t, proc.Options{Driver: "cpu"}, engine.Options{})
	if got := said(t, r, "rights"); !strings.Contains(got, `secret "hidden"`) {
		t.Errorf("without a list of variables the worker has not all of them:\n%s", got)
	}
}
