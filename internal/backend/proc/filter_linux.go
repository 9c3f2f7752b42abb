package proc

import (
	"golang.org/x/sys/unix"
)

// The system calls that a child may make. A child that is not confined may make all except those
// listed in never, since drivers come with new calls every year. A confined one, whose kernels are
// Go functions, may make those listed in allowed, and some others with certain arguments.

// never lists calls that neither a driver nor a kernel needs: calls that trace other processes, and
// calls that change the system or a process's view of it.
var never = append([]uint32{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT,
	unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	unix.SYS_SETNS, unix.SYS_UNSHARE, unix.SYS_KEXEC_LOAD, unix.SYS_REBOOT, unix.SYS_BPF, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
	unix.SYS_SYSLOG, unix.SYS_USERFAULTFD, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_VHANGUP,
}, neverHere...)

// allowed are the calls that a confined process may make with any arguments: what the Go runtime, C libraries
// and weft need to compute, wait, read files and talk over the control socket. They act on the process
// itself, its own threads and its own descriptors. Memory that they take counts for RLIMIT_DATA.
var allowed = append([]uint32{
	// Threads, waiting, signals to itself.
	unix.SYS_FUTEX, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_SCHED_YIELD, unix.SYS_RESTART_SYSCALL,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_RT_SIGTIMEDWAIT, unix.SYS_SIGALTSTACK,
	unix.SYS_SET_ROBUST_LIST, unix.SYS_SET_TID_ADDRESS, unix.SYS_RSEQ, unix.SYS_MEMBARRIER, unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
	unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_GETPPID, unix.SYS_GETCPU,
	unix.SYS_SCHED_GETAFFINITY, unix.SYS_SCHED_GETATTR, unix.SYS_SCHED_GETPARAM, unix.SYS_SCHED_GETSCHEDULER,
	unix.SYS_SCHED_GET_PRIORITY_MAX, unix.SYS_SCHED_GET_PRIORITY_MIN, unix.SYS_GETPRIORITY,
	// Memory.
	unix.SYS_MUNMAP, unix.SYS_MPROTECT, unix.SYS_MINCORE, unix.SYS_MSYNC, unix.SYS_BRK,
	// Descriptors.
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_PREAD64, unix.SYS_PWRITE64, unix.SYS_PREADV, unix.SYS_PWRITEV,
	unix.SYS_LSEEK, unix.SYS_CLOSE, unix.SYS_DUP, unix.SYS_DUP3,
	unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_PWAIT2, unix.SYS_EVENTFD2, unix.SYS_PPOLL, unix.SYS_PSELECT6,
	unix.SYS_SENDMSG, unix.SYS_RECVMSG, unix.SYS_SENDTO, unix.SYS_RECVFROM, unix.SYS_SHUTDOWN,
	unix.SYS_GETSOCKOPT, unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME,
	// What files and the system are like.
	unix.SYS_FSTAT, unix.SYS_STATX, unix.SYS_STATFS, unix.SYS_FSTATFS, unix.SYS_READLINKAT, unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2, unix.SYS_GETDENTS64, unix.SYS_GETCWD,
	unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_GETRES, unix.SYS_GETTIMEOFDAY, unix.SYS_TIMES, unix.SYS_GETRUSAGE, unix.SYS_GETRLIMIT, unix.SYS_GETRANDOM,
	unix.SYS_UNAME, unix.SYS_SYSINFO, unix.SYS_GETUID, unix.SYS_GETEUID, unix.SYS_GETGID, unix.SYS_GETEGID, unix.SYS_GETGROUPS,
}, allowedHere...)

// newest is the last call that weft knows. Those after it are said to be missing, which has a library use
// others.
const newest = unix.SYS_RSEQ_SLICE_YIELD

// ownThread are calls whose first argument is a thread, 0 for the calling one. A confined process
// has no other.
var ownThread = []uint32{unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR}

// ioprioProcess says that ioprio_set is for a thread, and not for a user's or group's.
const ioprioProcess = 1

// namespaces are the flags of clone that make namespaces.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// Flags of clone: a thread has all of ofThread and may have those of perThread. A thread with its
// own descriptors would also have its own limit on them.
const (
	ofThread  = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD
	perThread = unix.CLONE_SYSVSEM | unix.CLONE_SETTLS | unix.CLONE_PARENT_SETTID | unix.CLONE_CHILD_CLEARTID | unix.CLONE_CHILD_SETTID | unix.CLONE_DETACHED
)

var (
	// fcntls are the commands of fcntl, besides F_SETFL. Others name whom a descriptor signals, and by
	// which signal (F_SETOWN, F_SETSIG), take locks, or make the buffer of a pipe larger.
	fcntls = []uint32{unix.F_DUPFD, unix.F_DUPFD_CLOEXEC, unix.F_GETFD, unix.F_SETFD, unix.F_GETFL}
	// ioctls are the requests of ioctl. Others name whom a descriptor signals (FIOSETOWN, SIOCSPGRP,
	// FIOASYNC), type into a terminal (TIOCSTI), or are a device's.
	ioctls = []uint32{unix.TCGETS, unix.TIOCGWINSZ, fionread, fionbio, fioclex, fionclex}
	// prctls are those that name a thread and memory. Others would have the process outlive its parent, or
	// open it to others.
	prctls = []uint32{unix.PR_SET_NAME, unix.PR_GET_NAME, unix.PR_SET_VMA}
	// broken are the arguments of madvise by which root has memory of the machine count as broken.
	broken = []uint32{unix.MADV_HWPOISON, softOffline}
)

// What package unix does not name: requests of ioctl, the same on every architecture that has a filter, and
// an advice of madvise.
const (
	fionread    = 0x541b
	fionbio     = 0x5421
	fionclex    = 0x5450
	fioclex     = 0x5451
	softOffline = 101
)

const (
	// changes are the flags of open that write, make, shorten or signal.
	changes = unix.O_ACCMODE | unix.O_CREAT | unix.O_TRUNC | unix.O_ASYNC
	// uncounted are the flags of mmap whose memory no limit sees: it is shared, of huge pages, locked, or grows like
	// a stack. Without them it is private and counts for RLIMIT_DATA as soon as it can be written.
	uncounted = unix.MAP_SHARED | unix.MAP_HUGETLB | unix.MAP_LOCKED | unix.MAP_GROWSDOWN
)

// Offset in struct seccomp_data of the call's number and of its architecture.
const (
	dataCall = 0
	dataArch = 4
)

// argument is the offset of the lower half of an argument, and high of its upper one. The kernel takes 32 bits
// of descriptors, commands, requests and flags, so that the lower half is all there is of them.
func argument(n uint32) uint32 { return 16 + 8*n }

func high(n uint32) uint32 { return argument(n) + 4 }

func load(at uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
}

// without clears the bits of k in what was loaded.
func without(k uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: ^k}
}

// equal, hasAny and above go on yes or no instructions after the next, as what was loaded is k, has
// a bit of k, or is greater.
func equal(k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: yes, Jf: no, K: k}
}

func hasAny(k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, Jt: yes, Jf: no, K: k}
}

func above(k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K, Jt: yes, Jf: no, K: k}
}

// ret ends the filter.
func ret(k uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k}
}

// What the kernel does with a call.
var (
	allow   = ret(unix.SECCOMP_RET_ALLOW)
	deny    = ret(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM))
	missing = ret(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS))
)

// oneOf goes on with the rest unless what was loaded is one of ks: those end with as.
func oneOf(ks []uint32, as unix.SockFilter, rest ...unix.SockFilter) (p []unix.SockFilter) {
	for _, k := range ks {
		p = append(p, equal(k, 0, 1), as)
	}
	return append(p, rest...)
}

// judge has what follows decide on a call. The call's number was loaded.
func judge(call uint32, by ...unix.SockFilter) []unix.SockFilter {
	return append([]unix.SockFilter{equal(call, 0, uint8(len(by)))}, by...)
}

// filter returns the program by which the kernel judges the calls of this process. A refused call
// fails with EPERM. clone makes no namespaces. clone3 and openat2, whose flags a filter cannot see,
// and in a confined process all calls newer than this list, fail as if missing, so that callers use
// others.
func filter(arch uint32, strict bool, pid uint32) []unix.SockFilter {
	p := []unix.SockFilter{load(dataArch), equal(arch, 1, 0), deny, load(dataCall)}
	// Numbers from here on are those of another way to call (x32), which nothing uses.
	p = append(p, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, Jf: 1, K: 0x40000000}, deny)
	if strict {
		return append(p, strictly(pid)...)
	}
	p = append(p, oneOf(never, deny)...)
	p = append(p, judge(unix.SYS_CLONE3, missing)...)
	p = append(p, judge(unix.SYS_CLONE, load(argument(0)), hasAny(namespaces, 0, 1), deny, allow)...)
	return append(p, allow)
}

// strictly returns the filter's part for a confined process. clone makes threads only. tgkill, by
// which the Go runtime interrupts its threads, reaches only threads of the process itself.
// prlimit64 only reads its own limits, and a thread sets only its own cores and priority. Files are
// opened only for reading, and memory is mapped where limits count it.
func strictly(pid uint32) []unix.SockFilter {
	p := oneOf(allowed, allow)
	add := func(call uint32, by ...unix.SockFilter) { p = append(p, judge(call, by...)...) }
	add(unix.SYS_MMAP, load(argument(3)), hasAny(uncounted, 0, 1), deny, allow)
	add(unix.SYS_MADVISE, append([]unix.SockFilter{load(argument(2))}, oneOf(broken, deny, allow)...)...)
	add(unix.SYS_FCNTL, append([]unix.SockFilter{load(argument(1))}, oneOf(fcntls, allow,
		equal(unix.F_SETFL, 1, 0), deny, load(argument(2)), hasAny(unix.O_ASYNC, 0, 1), deny, allow)...)...)
	add(unix.SYS_IOCTL, append([]unix.SockFilter{load(argument(1))}, oneOf(ioctls, allow, deny)...)...)
	add(unix.SYS_PRCTL, append([]unix.SockFilter{load(argument(0))}, oneOf(prctls, allow, deny)...)...)
	for _, o := range opens {
		add(o.call, load(argument(o.flags)), hasAny(changes, 0, 1), deny, allow)
	}
	add(unix.SYS_CLONE, load(argument(0)), without(perThread), equal(ofThread, 1, 0), deny, allow)
	for _, call := range ownThread {
		add(call, load(argument(0)), equal(0, 1, 0), deny, allow)
	}
	for _, c := range [][2]uint32{{unix.SYS_SETPRIORITY, unix.PRIO_PROCESS}, {unix.SYS_IOPRIO_SET, ioprioProcess}} {
		add(c[0], load(argument(0)), equal(c[1], 0, 2), load(argument(1)), equal(0, 1, 0), deny, allow)
	}
	add(unix.SYS_TGKILL, load(argument(0)), equal(pid, 1, 0), deny, allow)
	add(unix.SYS_PRLIMIT64, load(argument(0)), equal(0, 1, 0), equal(pid, 0, 4),
		load(argument(2)), equal(0, 0, 2), load(high(2)), equal(0, 1, 0), deny, allow)
	p = append(p, oneOf([]uint32{unix.SYS_CLONE3, unix.SYS_OPENAT2}, missing)...)
	return append(p, above(newest, 1, 0), deny, missing)
}

// opening is a call that opens files, with the place of its flags among its arguments.
type opening struct{ call, flags uint32 }
