package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Files that a confined child may open. Landlock, where the kernel has it, takes all others from
// it, and with them /proc of other processes: none outside can be looked into. A rule of Landlock
// holds for one thread and for what that thread starts, and a Go program has several threads
// before main. A child that is to be confined therefore gives up its files first of all, and then
// starts its own program anew in the same process.

// shutVar tells a child to give up files and start anew, and its program then that it has.
const (
	shutVar = "WEFT_SHUT"
	toShut  = "on"
	isShut  = "done"
)

const (
	readFiles = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	// changeFiles are the rights that change files or folders, as the first version has them.
	changeFiles = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	// onFiles are those rights that a file can have; the others are of folders.
	onFiles = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE
)

// open are the files and folders that a confined child may use, with their rights: the program's
// libraries, time zones, what the Go runtime asks about cores and memory, and the process itself.
// What is not there is left out.
var open = map[string]uint64{
	"/usr": readFiles, "/lib": readFiles, "/lib32": readFiles, "/lib64": readFiles, "/bin": readFiles, "/sbin": readFiles, "/opt": readFiles,
	"/nix/store": readFiles, "/gnu/store": readFiles,
	"/etc/ld.so.cache": readFiles, "/etc/ld.so.conf": readFiles, "/etc/ld.so.conf.d": readFiles, "/etc/localtime": readFiles,
	"/sys/devices/system": readFiles, "/sys/fs/cgroup": readFiles, "/sys/kernel/mm": readFiles,
	"/proc/meminfo": readFiles, "/proc/cpuinfo": readFiles, "/dev/zero": readFiles, "/dev/random": readFiles, "/dev/urandom": readFiles,
	"/dev/null": onFiles, "/proc/self": readFiles,
	"/proc/self/exe": readFiles, // the program, wherever it is
}

// landlockVersion returns the version of Landlock that the kernel has, 0 for none.
func landlockVersion() int {
	n, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// startShut has this process open no files but those it needs, for good, and starts its program
// anew. It returns if the kernel has no Landlock, or with an error.
func startShut() error {
	version := landlockVersion()
	if version == 0 {
		return nil
	}
	if err := os.Setenv(shutVar, isShut); err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = dieFirst() // which it cannot later; giveUp does it for those that have no Landlock, and reports
	if err := shutFiles(version); err != nil {
		return fmt.Errorf("proc: confine the process to its files: %w", err)
	}
	return fmt.Errorf("proc: start anew: %w", unix.Exec("/proc/self/exe", os.Args, os.Environ()))
}

// handledBy returns the rights that a version of Landlock takes away unless a rule grants them:
// all that it knows. Fields that it does not know are zero, which it accepts.
func handledBy(version int) (attr unix.LandlockRulesetAttr) {
	attr.Handled_access_fs = readFiles | changeFiles
	if version >= 2 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= 3 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= 4 {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if version >= 5 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if version >= 6 { // signals to processes outside, by whatever way, and connections to sockets outside
		attr.Scoped = unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
	}
	return attr
}

// shutFiles takes from the calling thread, and from what it starts, the right to open files but
// those that are open, and with a version of Landlock that can do so the rights to use TCP and to signal others.
func shutFiles(version int) error {
	attr := handledBy(version)
	ruleset, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return fmt.Errorf("landlock_create_ruleset: %w", errno)
	}
	defer func() { _ = unix.Close(int(ruleset)) }()
	for name, rights := range open {
		if err := permit(int(ruleset), name, rights); err != nil {
			return err
		}
	}
	for _, name := range mappedFiles() {
		if err := permit(int(ruleset), name, readFiles); err != nil {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0, 0); errno != 0 {
		return fmt.Errorf("landlock_restrict_self: %w", errno)
	}
	return nil
}

// permit adds rights on a file, or on all that is in a folder, to a ruleset. One that cannot be
// opened has none. A rule belongs to an inode. The kernel frees inodes of /proc that are not open and
// makes new ones later, for which there is no rule: files of /proc are therefore kept open, by a
// descriptor that gives no rights and that the program keeps when it is started anew.
func permit(ruleset int, name string, rights uint64) error {
	fd, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	if filepath.Dir(name) == "/proc" {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0)
	} else {
		defer func() { _ = unix.Close(fd) }()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= onFiles
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
		return fmt.Errorf("landlock_add_rule for %s: %w", name, errno)
	}
	return nil
}

// mappedFiles returns the files that this process has mapped: its libraries, wherever they are.
func mappedFiles() (names []string) {
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil
	}
	seen := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		// 7f0c…-7f0c… r-xp 00026000 fe:00 1234   /opt/lib/libx.so
		_, name, ok := strings.Cut(line, " /")
		if name = "/" + strings.TrimSuffix(name, "\n"); ok && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

// hideMemory keeps children of the same user from this process's memory where no Landlock does:
// it can be looked into by root alone from then on, and leaves no core file.
func hideMemory(landlock int) error {
	if landlock > 0 {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hide the memory of the program from confined workers: %w", err)
	}
	return nil
}
