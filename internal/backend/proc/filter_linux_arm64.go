package proc

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// neverHere and allowedHere are calls that not every architecture has.
var (
	neverHere   = []uint32{unix.SYS_KEXEC_FILE_LOAD}
	allowedHere = []uint32{unix.SYS_FSTATAT}
	opens       = []opening{{unix.SYS_OPENAT, 2}}
)
