package proc

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// neverHere and confinedHere are calls that not every architecture has.
var (
	neverHere    = []uint32{unix.SYS_KEXEC_FILE_LOAD}
	confinedHere = []uint32{unix.SYS_SETRLIMIT, unix.SYS_SEMOP}
)
