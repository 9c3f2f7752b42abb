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
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			acc &= in.K
			continue
		case unix.BPF_RET | unix.BPF_K:
			return in.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			holds = acc == in.K
		case unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K:
			holds = acc > in.K
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
	private := uint64(unix.MAP_PRIVATE | unix.MAP_ANONYMOUS)
	high := uint64(1) << 32
	junk := uint64(0xdead) << 32 // which the kernel drops
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
		{"clone a thread of C", unix.SYS_CLONE, []uint64{thread | unix.CLONE_SETTLS | unix.CLONE_PARENT_SETTID | unix.CLONE_CHILD_CLEARTID}, allow, allow},
		{"clone a process", unix.SYS_CLONE, []uint64{uint64(unix.SIGCHLD)}, allow, deny},
		{"clone a thread with descriptors of its own", unix.SYS_CLONE, []uint64{thread &^ unix.CLONE_FILES}, allow, deny},
		{"clone a traced thread", unix.SYS_CLONE, []uint64{thread | unix.CLONE_PTRACE}, allow, deny},
		{"memfd_create", unix.SYS_MEMFD_CREATE, nil, allow, deny},
		{"memfd_secret", unix.SYS_MEMFD_SECRET, nil, allow, deny},
		{"fallocate", unix.SYS_FALLOCATE, nil, allow, deny},
		{"ftruncate", unix.SYS_FTRUNCATE, nil, allow, deny},
		{"mremap", unix.SYS_MREMAP, nil, allow, deny},
		{"remap_file_pages", unix.SYS_REMAP_FILE_PAGES, nil, allow, deny},
		{"mlock", unix.SYS_MLOCK, nil, allow, deny},
		{"mlockall", unix.SYS_MLOCKALL, nil, allow, deny},
		{"mmap", unix.SYS_MMAP, []uint64{0, 4096, 3, private}, allow, allow},
		{"mmap of a stack", unix.SYS_MMAP, []uint64{0, 4096, 3, private | unix.MAP_STACK | unix.MAP_NORESERVE}, allow, allow},
		{"mmap shared", unix.SYS_MMAP, []uint64{0, 4096, 3, unix.MAP_SHARED | unix.MAP_ANONYMOUS}, allow, deny},
		{"mmap shared, with more above", unix.SYS_MMAP, []uint64{0, 4096, 3, unix.MAP_SHARED | junk}, allow, deny},
		{"mmap shared and checked", unix.SYS_MMAP, []uint64{0, 4096, 3, unix.MAP_SHARED_VALIDATE}, allow, deny},
		{"mmap that grows", unix.SYS_MMAP, []uint64{0, 4096, 3, private | unix.MAP_GROWSDOWN}, allow, deny},
		{"mmap of huge pages", unix.SYS_MMAP, []uint64{0, 4096, 3, private | unix.MAP_HUGETLB}, allow, deny},
		{"mmap locked", unix.SYS_MMAP, []uint64{0, 4096, 3, private | unix.MAP_LOCKED}, allow, deny},
		{"madvise", unix.SYS_MADVISE, []uint64{0, 4096, unix.MADV_DONTNEED}, allow, allow},
		{"madvise of broken memory", unix.SYS_MADVISE, []uint64{0, 4096, 100}, allow, deny},
		{"madvise of memory to be left, with more above", unix.SYS_MADVISE, []uint64{0, 4096, 101 | junk}, allow, deny},
		{"fcntl F_DUPFD_CLOEXEC", unix.SYS_FCNTL, []uint64{3, unix.F_DUPFD_CLOEXEC, 0}, allow, allow},
		{"fcntl F_SETFL", unix.SYS_FCNTL, []uint64{3, unix.F_SETFL, unix.O_NONBLOCK | unix.O_RDWR}, allow, allow},
		{"fcntl F_SETFL O_ASYNC", unix.SYS_FCNTL, []uint64{3, unix.F_SETFL, unix.O_ASYNC | unix.O_NONBLOCK}, allow, deny},
		{"fcntl F_SETFL O_ASYNC, with more above", unix.SYS_FCNTL, []uint64{3, unix.F_SETFL | junk, unix.O_ASYNC | junk}, allow, deny},
		{"fcntl F_SETOWN", unix.SYS_FCNTL, []uint64{3, 8, 1}, allow, deny},
		{"fcntl F_SETOWN, with more above", unix.SYS_FCNTL, []uint64{3, 8 | junk, 1}, allow, deny},
		{"fcntl F_SETSIG", unix.SYS_FCNTL, []uint64{3, 10, 9}, allow, deny},
		{"fcntl F_SETOWN_EX", unix.SYS_FCNTL, []uint64{3, 15, 1}, allow, deny},
		{"fcntl F_SETPIPE_SZ", unix.SYS_FCNTL, []uint64{3, 1031, 1 << 20}, allow, deny},
		{"fcntl F_NOTIFY", unix.SYS_FCNTL, []uint64{3, 1026, 1}, allow, deny},
		{"fcntl F_SETLK", unix.SYS_FCNTL, []uint64{3, unix.F_SETLK, 1}, allow, deny},
		{"fcntl F_ADD_SEALS", unix.SYS_FCNTL, []uint64{3, unix.F_ADD_SEALS, 1}, allow, deny},
		{"ioctl FIONREAD", unix.SYS_IOCTL, []uint64{3, 0x541b, 1}, allow, allow},
		{"ioctl FIOASYNC", unix.SYS_IOCTL, []uint64{3, 0x5452, 1}, allow, deny},
		{"ioctl FIOASYNC, with more above", unix.SYS_IOCTL, []uint64{3, 0x5452 | junk, 1}, allow, deny},
		{"ioctl FIOSETOWN", unix.SYS_IOCTL, []uint64{3, 0x8901, 1}, allow, deny},
		{"ioctl SIOCSPGRP", unix.SYS_IOCTL, []uint64{3, 0x8902, 1}, allow, deny},
		{"ioctl TIOCSTI", unix.SYS_IOCTL, []uint64{3, unix.TIOCSTI, 1}, allow, deny},
		{"prctl PR_SET_VMA", unix.SYS_PRCTL, []uint64{unix.PR_SET_VMA}, allow, allow},
		{"prctl PR_SET_PDEATHSIG", unix.SYS_PRCTL, []uint64{unix.PR_SET_PDEATHSIG, 0}, allow, deny},
		{"prctl PR_SET_PDEATHSIG, with more above", unix.SYS_PRCTL, []uint64{unix.PR_SET_PDEATHSIG | junk, 0}, allow, deny},
		{"prctl PR_SET_DUMPABLE", unix.SYS_PRCTL, []uint64{unix.PR_SET_DUMPABLE, 1}, allow, deny},
		{"prctl PR_SET_PTRACER", unix.SYS_PRCTL, []uint64{unix.PR_SET_PTRACER, 1}, allow, deny},
		{"openat2", unix.SYS_OPENAT2, nil, allow, missing},
		{"setpgid", unix.SYS_SETPGID, nil, allow, deny},
		{"setsid", unix.SYS_SETSID, nil, allow, deny},
		{"timer_create", unix.SYS_TIMER_CREATE, nil, allow, deny},
		{"setitimer", unix.SYS_SETITIMER, nil, allow, deny},
		{"kcmp", unix.SYS_KCMP, nil, allow, deny},
		{"process_madvise", unix.SYS_PROCESS_MADVISE, nil, allow, deny},
		{"process_mrelease", unix.SYS_PROCESS_MRELEASE, nil, allow, deny},
		{"io_uring_setup", unix.SYS_IO_URING_SETUP, nil, allow, deny},
		{"io_setup", unix.SYS_IO_SETUP, nil, allow, deny},
		{"inotify_init1", unix.SYS_INOTIFY_INIT1, nil, allow, deny},
		{"fanotify_init", unix.SYS_FANOTIFY_INIT, nil, allow, deny},
		{"pipe2", unix.SYS_PIPE2, nil, allow, deny},
		{"socketpair", unix.SYS_SOCKETPAIR, nil, allow, deny},
		{"vmsplice", unix.SYS_VMSPLICE, nil, allow, deny},
		{"close_range", unix.SYS_CLOSE_RANGE, nil, allow, deny},
		{"seccomp", unix.SYS_SECCOMP, nil, allow, deny},
		{"setuid", unix.SYS_SETUID, nil, allow, deny},
		{"capset", unix.SYS_CAPSET, nil, allow, deny},
		{"unlinkat", unix.SYS_UNLINKAT, nil, allow, deny},
		{"renameat2", unix.SYS_RENAMEAT2, nil, allow, deny},
		{"linkat", unix.SYS_LINKAT, nil, allow, deny},
		{"mknodat", unix.SYS_MKNODAT, nil, allow, deny},
		{"sync", unix.SYS_SYNC, nil, allow, deny},
		{"setrlimit", unix.SYS_SETRLIMIT, nil, allow, deny},
		{"a call of tomorrow", newest + 1, nil, allow, missing},
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
		{"sched_setparam of itself", unix.SYS_SCHED_SETPARAM, []uint64{0, 0}, allow, allow},
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
	for _, o := range opens {
		with := func(flags uint64) []uint64 { return append(make([]uint64, o.flags), flags) }
		rows = append(rows,
			row{"open to read", o.call, with(unix.O_RDONLY | unix.O_CLOEXEC | unix.O_DIRECTORY), allow, allow},
			row{"open to write", o.call, with(unix.O_WRONLY), allow, deny},
			row{"open to write, with more above", o.call, with(unix.O_RDWR | junk), allow, deny},
			row{"open to make", o.call, with(unix.O_CREAT), allow, deny},
			row{"open to shorten", o.call, with(unix.O_TRUNC), allow, deny},
			row{"open of a file without a name", o.call, with(unix.O_TMPFILE | unix.O_RDWR), allow, deny})
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
	strict := filter(arch, true, pid)
	if len(strict) > 4096 {
		t.Errorf("the filter has %d instructions, and the kernel takes 4096", len(strict))
	}
	// A call is refused unless it is listed, or passes with the arguments above.
	some := map[uint32]bool{unix.SYS_CLONE3: true}
	for _, r := range rows {
		some[r.call] = some[r.call] || r.strict != deny
	}
	for call := range uint32(newest + 1) {
		listed := slices.Contains(allowed, call)
		if got := judged(t, strict, arch, call); listed != (got == allow) && !some[call] {
			t.Errorf("strict: call %d: %#x, listed %v", call, got, listed)
		}
		if listed && slices.Contains(never, call) {
			t.Errorf("call %d is allowed to confined processes and to no others", call)
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
