package proc

import (
	"encoding/binary"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// judged runs a filter on a call, as the kernel does.
func judged(t *testing.T, p []unix.SockFilter, arch, call uint32, args ...uint64) uint32 {
	t.Helper()
	data := make([]byte, 64)
	binary.LittleEndian.PutUint32(data[0:], call)
	binary.LittleEndian.PutUint32(data[4:], arch)
	for i, a := range args {
		binary.LittleEndian.PutUint64(data[16+8*i:], a)
	}
	var acc uint32
	for at := 0; at < len(p); at++ {
		in, holds := p[at], false
		switch in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			acc = binary.LittleEndian.Uint32(data[in.K:])
			continue
		case unix.BPF_RET | unix.BPF_K:
			return in.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			holds = acc == in.K
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			holds = acc >= in.K
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			holds = acc&in.K != 0
		default:
			t.Fatalf("instruction %d is %#x", at, in.Code)
		}
		if holds {
			at += int(in.Jt)
		} else {
			at += int(in.Jf)
		}
	}
	t.Fatal("the filter does not end")
	return 0
}

// What the filters say of calls, by their arguments, on any architecture that has them.
func TestFilter(t *testing.T) {
	const arch, pid = 77, 4242
	const allow, deny, missing = unix.SECCOMP_RET_ALLOW, unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM), unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	thread := uint64(unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_SYSVSEM | unix.CLONE_THREAD)
	high := uint64(1) << 32
	type row struct {
		name          string
		call          uint32
		args          []uint64
		loose, strict uint32
	}
	rows := []row{
		{"read", unix.SYS_READ, nil, allow, allow},
		{"ptrace", unix.SYS_PTRACE, nil, deny, deny},
		{"unshare", unix.SYS_UNSHARE, []uint64{unix.CLONE_NEWUSER}, deny, deny},
		{"setns", unix.SYS_SETNS, nil, deny, deny},
		{"execve", unix.SYS_EXECVE, nil, allow, deny},
		{"truncate", unix.SYS_TRUNCATE, nil, allow, deny},
		{"fchmod", unix.SYS_FCHMOD, nil, allow, deny},
		{"fchmodat", unix.SYS_FCHMODAT, nil, allow, deny},
		{"fchmodat2", unix.SYS_FCHMODAT2, nil, allow, deny},
		{"fchown", unix.SYS_FCHOWN, nil, allow, deny},
		{"fchownat", unix.SYS_FCHOWNAT, nil, allow, deny},
		{"utimensat", unix.SYS_UTIMENSAT, nil, allow, deny},
		{"setxattr", unix.SYS_SETXATTR, nil, allow, deny},
		{"lsetxattr", unix.SYS_LSETXATTR, nil, allow, deny},
		{"fsetxattr", unix.SYS_FSETXATTR, nil, allow, deny},
		{"removexattr", unix.SYS_REMOVEXATTR, nil, allow, deny},
		{"lremovexattr", unix.SYS_LREMOVEXATTR, nil, allow, deny},
		{"fremovexattr", unix.SYS_FREMOVEXATTR, nil, allow, deny},
		{"shmget", unix.SYS_SHMGET, nil, allow, deny},
		{"shmat", unix.SYS_SHMAT, nil, allow, deny},
		{"shmctl", unix.SYS_SHMCTL, nil, allow, deny},
		{"msgget", unix.SYS_MSGGET, nil, allow, deny},
		{"semget", unix.SYS_SEMGET, nil, allow, deny},
		{"mq_open", unix.SYS_MQ_OPEN, nil, allow, deny},
		{"clone3", unix.SYS_CLONE3, nil, missing, missing},
		{"clone a thread", unix.SYS_CLONE, []uint64{thread}, allow, allow},
		{"clone a process", unix.SYS_CLONE, []uint64{uint64(unix.SIGCHLD)}, allow, deny},
		{"tgkill itself", unix.SYS_TGKILL, []uint64{pid, 9}, allow, allow},
		{"tgkill another", unix.SYS_TGKILL, []uint64{pid + 1, 9}, allow, deny},
		{"prlimit64 of itself", unix.SYS_PRLIMIT64, []uint64{0, 7, 0, 1}, allow, allow},
		{"prlimit64 of itself by number", unix.SYS_PRLIMIT64, []uint64{pid, 7, 0, 1}, allow, allow},
		{"prlimit64 of another", unix.SYS_PRLIMIT64, []uint64{1, 7, 0, 1}, allow, deny},
		{"prlimit64 sets", unix.SYS_PRLIMIT64, []uint64{0, 7, 1, 0}, allow, deny},
		{"prlimit64 sets, high address", unix.SYS_PRLIMIT64, []uint64{pid, 7, high, 0}, allow, deny},
		{"sched_setaffinity of itself", unix.SYS_SCHED_SETAFFINITY, []uint64{0, 8}, allow, allow},
		{"sched_setaffinity of another", unix.SYS_SCHED_SETAFFINITY, []uint64{1, 8}, allow, deny},
		{"sched_setscheduler of itself", unix.SYS_SCHED_SETSCHEDULER, []uint64{0, 1}, allow, allow},
		{"sched_setscheduler of another", unix.SYS_SCHED_SETSCHEDULER, []uint64{1, 0}, allow, deny},
		{"sched_setparam of another", unix.SYS_SCHED_SETPARAM, []uint64{1, 0}, allow, deny},
		{"sched_setattr of itself", unix.SYS_SCHED_SETATTR, []uint64{0, 1}, allow, allow},
		{"sched_setattr of another", unix.SYS_SCHED_SETATTR, []uint64{1, 1}, allow, deny},
		{"setpriority of itself", unix.SYS_SETPRIORITY, []uint64{0, 0, 5}, allow, allow},
		{"setpriority of another", unix.SYS_SETPRIORITY, []uint64{0, 1, 5}, allow, deny},
		{"setpriority of a user", unix.SYS_SETPRIORITY, []uint64{2, 0, 5}, allow, deny},
		{"ioprio_set of itself", unix.SYS_IOPRIO_SET, []uint64{1, 0, 5}, allow, allow},
		{"ioprio_set of another", unix.SYS_IOPRIO_SET, []uint64{1, 1, 5}, allow, deny},
		{"ioprio_set of a user", unix.SYS_IOPRIO_SET, []uint64{3, 0, 5}, allow, deny},
		{"another way to call", 0x40000000 + unix.SYS_READ, nil, deny, deny},
	}
	for bit := range uint64(32) {
		flag := uint64(1) << bit
		if flag&namespaces != 0 {
			rows = append(rows, row{"clone with a namespace", unix.SYS_CLONE, []uint64{thread | flag}, deny, deny},
				row{"clone a process with a namespace", unix.SYS_CLONE, []uint64{flag}, deny, deny})
		}
	}
	for _, strict := range []bool{false, true} {
		p := filter(arch, strict, pid)
		for _, r := range rows {
			want := r.loose
			if strict {
				want = r.strict
			}
			if got := judged(t, p, arch, r.call, r.args...); got != want {
				t.Errorf("strict %v: %s %x: %#x, want %#x", strict, r.name, r.args, got, want)
			}
			if got := judged(t, p, arch+1, r.call, r.args...); got != deny {
				t.Errorf("strict %v: %s on another architecture: %#x", strict, r.name, got)
			}
		}
		for _, call := range never {
			if got := judged(t, p, arch, call); got != deny {
				t.Errorf("strict %v: call %d: %#x", strict, call, got)
			}
		}
	}
	for _, call := range confined {
		if got := judged(t, filter(arch, false, pid), arch, call); got != allow {
			t.Errorf("call %d: %#x", call, got)
		}
		if got := judged(t, filter(arch, true, pid), arch, call); got != deny {
			t.Errorf("strict: call %d: %#x", call, got)
		}
	}
	if n := namespaces; n != 0x7e020000 {
		t.Errorf("flags of namespaces are %#x", n)
	}
}

// A child has the variables that it is to have, and is told what it is by its parent alone.
func TestCleaned(t *testing.T) {
	env := []string{"PATH=p", "SECRET=s", "CUDA_X=c", "WEFT_TEST=t", shutVar + "=on", roleVar + "=keeper", shutVar + "S=x"}
	for _, c := range []struct{ extra, want []string }{
		{nil, []string{"PATH=p", "SECRET=s", "CUDA_X=c", "WEFT_TEST=t", shutVar + "S=x"}},
		{[]string{}, []string{"PATH=p", "WEFT_TEST=t", shutVar + "S=x"}},
		{[]string{"CUDA_"}, []string{"PATH=p", "CUDA_X=c", "WEFT_TEST=t", shutVar + "S=x"}},
	} {
		if got := cleaned(env, c.extra); !slices.Equal(got, c.want) {
			t.Errorf("with %q: %q", c.extra, got)
		}
	}
}

// Where the kernel has no Landlock, the program cannot be looked into by others of its user.
func TestHideMemory(t *testing.T) {
	if os.Getenv("WEFT_TEST_HIDE") == "" {
		// What is hidden stays so: it is done in a process of its own.
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestHideMemory$", "-test.v")
		cmd.Env = append(os.Environ(), "WEFT_TEST_HIDE=on")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestHideMemory") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	for _, c := range []struct{ landlock, want int }{{1, 1}, {0, 0}} {
		if err := hideMemory(c.landlock); err != nil {
			t.Error(err)
		}
		if got, _, errno := unix.Syscall(unix.SYS_PRCTL, unix.PR_GET_DUMPABLE, 0, 0); int(got) != c.want || errno != 0 {
			t.Errorf("version %d of Landlock: dumpable is %d: %v", c.landlock, got, errno)
		}
	}
}

// The files that a process has mapped are there, and its own program is among them.
func TestMappedFiles(t *testing.T) {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if names := mappedFiles(); !slices.Contains(names, exe) {
		t.Errorf("%s is not among %q", exe, names)
	}
}
