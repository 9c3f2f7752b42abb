package proc

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// neverHere are calls that some architectures do not have.
var neverHere = []uint32{unix.SYS_KEXEC_FILE_LOAD}
