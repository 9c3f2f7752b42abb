package proc

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// neverHere and allowedHere are calls that not every architecture has.
var (
	neverHere   = []uint32{unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_KEXEC_FILE_LOAD}
	allowedHere = []uint32{unix.SYS_NEWFSTATAT, unix.SYS_STAT, unix.SYS_LSTAT, unix.SYS_ACCESS, unix.SYS_READLINK, unix.SYS_GETDENTS, unix.SYS_DUP2,
		unix.SYS_POLL, unix.SYS_SELECT, unix.SYS_EPOLL_CREATE, unix.SYS_EPOLL_WAIT, unix.SYS_TIME, unix.SYS_ARCH_PRCTL}
	opens = []opening{{unix.SYS_OPENAT, 2}, {unix.SYS_OPEN, 1}}
)
