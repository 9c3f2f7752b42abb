package proc

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weft-run/weft/driver"
)

// What a child gives up. Its environment is cleaned before it starts; the rest it gives up
// itself, once its device is open: NVIDIA's library may start a helper of the system then
// (nvidia-modprobe) that has rights of its own.

// keptEnv are beginnings of the names of variables that every child keeps: what programs,
// the Go runtime and weft's own tests look at.
var keptEnv = []string{"PATH=", "HOME=", "USER=", "LOGNAME=", "TMPDIR=", "TZ=", "LANG=", "LC_", "LD_LIBRARY_PATH=", "XDG_", "GOMAXPROCS=", "GODEBUG=", "GOGC=", "GOMEMLIMIT=", "GOTRACEBACK=", "GORACE=", "GOCOVERDIR=", "WEFT_"}

// cleaned returns the variables of an environment that a child keeps; extra are further
// beginnings of names. With nil it keeps all but those by which a child is told what it is.
func cleaned(env, extra []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		begins := func(p string) bool { return strings.HasPrefix(v, p) }
		if begins(roleVar+"=") || begins(shutVar+"=") {
			return true
		}
		return extra != nil && !slices.ContainsFunc(keptEnv, begins) && !slices.ContainsFunc(extra, begins)
	})
}

const (
	// maxFiles is how many descriptors a child that runs Go kernels may have.
	maxFiles = 1024
	// oomScore makes such a child the first choice of the kernel's OOM killer: the scale ends
	// at 1000, and an ordinary process that takes half of the memory has 500.
	oomScore = "600"
)

// giveUp takes rights from this process for good. It errs if the system cannot take what was
// asked for expressly (confined, and the limit on memory); what else it cannot take is
// returned as a warning.
func (m *message) giveUp(hostKernels bool) (warning, err error) {
	none := &unix.Rlimit{}
	warning = unix.Setrlimit(unix.RLIMIT_CORE, none) // a core would hold all of the arena
	if hostKernels {
		warning = errors.Join(warning, dieFirst(), lower(unix.RLIMIT_NOFILE, maxFiles))
		if m.MaxData > 0 {
			if err := limitData(m.MaxData); err != nil {
				return warning, fmt.Errorf("limit the memory of the process: %w", err)
			}
		}
	}
	if err := confine(m.Confined); err != nil {
		if m.Confined {
			return warning, fmt.Errorf("confine the process: %w", err)
		}
		warning = errors.Join(warning, err)
	}
	return warning, nil
}

// dieFirst makes this process the first choice of the kernel's OOM killer, if it is not already.
func dieFirst() error {
	const name = "/proc/self/oom_score_adj"
	if is, err := os.ReadFile(name); err == nil && strings.TrimSpace(string(is)) == oomScore {
		return nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(oomScore)
	return errors.Join(err, f.Close())
}

// shed is giveUp for a child with these devices. Warnings are logged.
func (m *message) shed(devs []driver.Device, log *slog.Logger) error {
	host := slices.ContainsFunc(devs, func(d driver.Device) bool { return d.Info().HostMemory })
	warning, err := m.giveUp(host)
	if warning != nil {
		log.Warn("a child keeps rights that it was to give up", "err", warning)
	}
	return err
}

// lower sets both limits of a resource to at most n.
func lower(resource int, n uint64) error {
	var l unix.Rlimit
	if err := unix.Getrlimit(resource, &l); err != nil {
		return err
	}
	l.Cur, l.Max = min(l.Cur, n), min(l.Max, n)
	return unix.Setrlimit(resource, &l)
}

// limitData limits the private memory of this process to n bytes beyond what it has. It is
// RLIMIT_DATA: the arena, which is shared, and the addresses that the Go runtime only
// reserves do not count.
func limitData(n int64) error {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(status), "\nVmData:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return errors.New("/proc/self/status has no VmData")
	}
	kib, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		return err
	}
	return lower(unix.RLIMIT_DATA, uint64(kib<<10+n))
}

// never are calls of the system that neither a driver nor a kernel needs: those that trace
// other processes, and those that change the system or what of it a process sees.
var never = append([]uint32{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT,
	unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	unix.SYS_SETNS, unix.SYS_UNSHARE, unix.SYS_KEXEC_LOAD, unix.SYS_REBOOT, unix.SYS_BPF, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
	unix.SYS_SYSLOG, unix.SYS_USERFAULTFD, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_VHANGUP,
}, neverHere...)

// confined are those that a process loses besides when it is confined: to start programs, to
// make connections, to reach into other processes or signal them, to raise its limits; to change
// what is said of files, or their length by name, which Landlock does not govern or not in its first
// versions; memory, messages and semaphores that all processes of a user can reach.
var confined = append([]uint32{
	unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_CONNECT, unix.SYS_ACCEPT, unix.SYS_ACCEPT4,
	unix.SYS_PROCESS_VM_READV, unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_GETFD, unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_KILL, unix.SYS_TKILL,
	unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO, unix.SYS_IO_URING_SETUP, unix.SYS_PERF_EVENT_OPEN,
	unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,
	unix.SYS_TRUNCATE, unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT, unix.SYS_FILE_SETATTR,
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_SETXATTRAT,
	unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, unix.SYS_REMOVEXATTRAT,
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL,
	unix.SYS_SEMGET, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
}, confinedHere...)

// ownThread are calls whose first argument is a thread, 0 for the calling one. A confined process
// has no other.
var ownThread = []uint32{unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR}

// ioprioProcess says that ioprio_set is for a thread, and not for a user's or group's.
const ioprioProcess = 1

// namespaces are the flags of clone that make namespaces.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// Offsets in struct seccomp_data. Of an argument, these are of its lower half.
const (
	dataCall = 0
	dataArch = 4
	dataArgs = 16
)

func load(at uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
}

// equal and hasAny go on yes or no instructions after the next, as what was loaded is k, or has
// a bit of k.
func equal(k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: yes, Jf: no, K: k}
}

func hasAny(k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, Jt: yes, Jf: no, K: k}
}

// ret ends the filter.
func ret(k uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k}
}

// filter returns the program by which the kernel judges the calls of this process: a refused
// one fails with EPERM. clone makes no namespaces, and clone3, whose flags a filter cannot see, is
// said to be missing, which has callers use clone. In a confined process clone makes threads
// only, tgkill, by which the Go runtime interrupts its threads, reaches those of the process itself
// only, prlimit64 reads its own limits only, and a thread sets the cores and the priority of
// itself only.
func filter(arch uint32, strict bool, pid uint32) []unix.SockFilter {
	allow, deny := ret(unix.SECCOMP_RET_ALLOW), ret(unix.SECCOMP_RET_ERRNO|uint32(unix.EPERM))
	p := []unix.SockFilter{load(dataArch), equal(arch, 1, 0), deny, load(dataCall)}
	// Numbers from here on are those of another way to call (x32), which nothing uses.
	p = append(p, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, Jf: 1, K: 0x40000000}, deny)
	refused := never
	if strict {
		refused = slices.Concat(never, confined)
	}
	for _, call := range refused {
		p = append(p, equal(call, 0, 1), deny)
	}
	// judge has what follows decide on a call.
	judge := func(call uint32, by ...unix.SockFilter) {
		p = append(append(p, equal(call, 0, uint8(len(by)))), by...)
	}
	judge(unix.SYS_CLONE3, ret(unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS)))
	if strict {
		judge(unix.SYS_CLONE, load(dataArgs), hasAny(namespaces, 1, 0), hasAny(unix.CLONE_THREAD, 1, 0), deny, allow)
		for _, call := range ownThread {
			judge(call, load(dataArgs), equal(0, 1, 0), deny, allow)
		}
		for _, c := range [][2]uint32{{unix.SYS_SETPRIORITY, unix.PRIO_PROCESS}, {unix.SYS_IOPRIO_SET, ioprioProcess}} {
			judge(c[0], load(dataArgs), equal(c[1], 0, 2), load(dataArgs+8), equal(0, 1, 0), deny, allow)
		}
		judge(unix.SYS_TGKILL, load(dataArgs), equal(pid, 1, 0), deny, allow)
		newLimit := uint32(dataArgs + 2*8)
		judge(unix.SYS_PRLIMIT64, load(dataArgs), equal(0, 1, 0), equal(pid, 0, 4),
			load(newLimit), equal(0, 0, 2), load(newLimit+4), equal(0, 1, 0), deny, allow)
	} else {
		judge(unix.SYS_CLONE, load(dataArgs), hasAny(namespaces, 0, 1), deny, allow)
	}
	return append(p, allow)
}

// confine has all threads of this process, and all programs it starts, gain no rights any
// more, and refuses them the calls above.
func confine(strict bool) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if auditArch == 0 {
		return fmt.Errorf("seccomp: weft has no filter for %s", runtime.GOARCH)
	}
	p := filter(auditArch, strict, uint32(os.Getpid()))
	prog := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	// TSYNC gives all threads the filter, and no_new_privs with it.
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(p)
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	if thread != 0 {
		return fmt.Errorf("seccomp: thread %d has a filter of its own", thread)
	}
	return nil
}
