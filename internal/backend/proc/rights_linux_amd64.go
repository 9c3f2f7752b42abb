package proc

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// neverHere and confinedHere are calls that not every architecture has.
var (
	neverHere    = []uint32{unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_KEXEC_FILE_LOAD}
	confinedHere = []uint32{unix.SYS_SETRLIMIT, unix.SYS_FORK, unix.SYS_VFORK, unix.SYS_SEMOP,
		unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT}
)
