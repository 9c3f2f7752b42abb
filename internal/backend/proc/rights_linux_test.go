package proc_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weft-run/weft/driver"
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
		status, _ := os.ReadFile("/proc/thread-self/status")
		for line := range strings.Lines(string(status)) {
			if strings.HasPrefix(line, "NoNewPrivs") || strings.HasPrefix(line, "Seccomp:") {
				b.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
			}
		}
		var core, files unix.Rlimit
		_, _ = unix.Getrlimit(unix.RLIMIT_CORE, &core), unix.Getrlimit(unix.RLIMIT_NOFILE, &files)
		fmt.Fprintf(&b, "core %d files %d\n", core.Max, files.Max)
		score, _ := os.ReadFile("/proc/self/oom_score_adj")
		fmt.Fprintf(&b, "oom %s", score)
		fmt.Fprintf(&b, "secret %q cuda %q\n", os.Getenv("SECRET_TOKEN"), os.Getenv("CUDA_X"))
		_, err = os.Stat("/proc/self/fd/5") // where the arena was
		fmt.Fprintf(&b, "arena open %v\n", err == nil)
		copy(c.Args[1], b.String())
	}
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
	for _, confined := range []bool{false, true} {
		r := start(t, proc.Options{Driver: "cpu", Env: []string{"CUDA_"}, Confined: confined, MaxData: 1 << 30}, engine.Options{})
		want := fmt.Sprintf(`ptrace false
keyctl false
unshare false
exec %[1]v
socket %[1]v
kill parent %[1]v
tgkill parent %[1]v
tgkill self true
NoNewPrivs: 1
Seccomp: 2
core 0 files 1024
oom 600
secret "" cuda "seen"
arena open false
`, !confined)
		if got := said(t, r, "rights"); got != want {
			t.Errorf("confined %v:\n%s", confined, got)
		}
	}
	r := start(t, proc.Options{Driver: "cpu"}, engine.Options{})
	if got := said(t, r, "rights"); !strings.Contains(got, `secret "hidden"`) {
		t.Errorf("without a list of variables the worker has not all of them:\n%s", got)
	}
}
