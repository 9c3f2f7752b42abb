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

	"github.com/weft-run/weft/experimental/driver"
)

// What a child gives up. Its environment is cleaned before it starts, and what it inherits is closed first
// of all. The rest it gives up itself, once its device is open: NVIDIA's library may start a helper of the
// system then (nvidia-modprobe) that has rights of its own. filter_linux.go says which calls it loses.

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

// closeInherited closes the descriptors that this process was started with, except those of its
// channel and its output: files, sockets and terminals that the program has open without
// close-on-exec. It runs before anything else in main. Descriptors that the process has opened
// itself since, as the Go runtime does, have close-on-exec set and so can be told apart.
func closeInherited(role string) error {
	own := controlFD
	if role == asWorker {
		own = arenaFD
	}
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("proc: inherited descriptors: %w", err)
	}
	for _, e := range list {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= own {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
	return nil
}

const (
	// maxFiles is the most descriptors of a child that runs Go kernels.
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
		if m.WorkerBytes > 0 {
			err = limitMemory(unix.RLIMIT_DATA, "VmData", m.WorkerBytes)
			if err == nil && m.Confine {
				err = errors.Join(limitMemory(unix.RLIMIT_AS, "VmSize", m.WorkerBytes+spareAddresses), lower(unix.RLIMIT_STACK, maxStack))
			}
			if err != nil {
				return warning, fmt.Errorf("limit the memory of the process: %w", err)
			}
		}
	}
	if m.Confine {
		// Signals that wait count for all processes of the user together.
		warning = errors.Join(warning, lower(unix.RLIMIT_SIGPENDING, 0))
	}
	if err := confine(m.Confine); err != nil {
		if m.Confine {
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

// spareAddresses is the address space that a confined worker may take beyond the memory it may: what the Go
// runtime and the race detector only reserve. Memory that is mapped and never written takes 4 KiB of tables for
// 2 MiB: 128 MiB for all of it.
const spareAddresses = 64 << 30

// maxStack is the most that the stack of a confined worker's first thread takes: it grows by itself wherever it is
// written, and RLIMIT_DATA does not count it. 8 MiB is what systems allow by default.
const maxStack = 8 << 20

// limitMemory limits a resource to n bytes beyond what this process has of it, which /proc names. RLIMIT_DATA
// counts private memory that can be written: neither the arena, which is shared, nor the addresses that
// the Go runtime only reserves. RLIMIT_AS counts all of them.
func limitMemory(resource int, name string, n int64) error {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(status), "\n"+name+":")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return errors.New("/proc/self/status has no " + name)
	}
	kib, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		return err
	}
	return lower(resource, uint64(kib<<10+n))
}

// confine has all threads of this process, and all programs it starts, gain no rights any
// more, and refuses them the calls of filter.
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
