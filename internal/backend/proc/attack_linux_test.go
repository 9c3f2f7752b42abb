package proc_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/proc"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/test/poll"
)

// tools are descriptors that signal when something can be read or written: a pipe, a pair of sockets, and a
// pipe that the process writes to and another one reads.
type tools struct {
	r, w    int
	near    int
	far     int
	printed int
}

// newTools makes them. What cannot be made is what the process has been given.
func newTools() *tools {
	t := &tools{printed: 1}
	p := make([]int, 2)
	if unix.Pipe2(p, 0) != nil {
		p[0], p[1] = t.printed, t.printed
	}
	t.r, t.w = p[0], p[1]
	s, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		s[0], s[1] = givenSocket(), givenSocket()
	}
	t.near, t.far = s[0], s[1]
	return t
}

// givenSocket returns a socket of this process, -1 without one.
func givenSocket() int {
	list, _ := os.ReadDir("/proc/self/fd") // without it the test fails
	for _, e := range list {
		fd, _ := strconv.Atoi(e.Name())
		if to, _ := os.Readlink("/proc/self/fd/" + e.Name()); strings.HasPrefix(to, "socket:") {
			return fd
		}
	}
	return -1
}

const (
	fSetOwn   = 8 // of fcntl
	fSetSig   = 10
	fSetOwnEx = 15
	fioAsync  = 0x5452 // of ioctl
	fioSetOwn = 0x8901
	siocSpGrp = 0x8902
)

func fcntl(fd, command int, arg uintptr) error {
	if _, _, errno := unix.Syscall(unix.SYS_FCNTL, uintptr(fd), uintptr(command), arg); errno != 0 {
		return errno
	}
	return nil
}

func ioctl(fd, request int, value int32) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(unsafe.Pointer(&value))); errno != 0 {
		return errno
	}
	return nil
}

// async has a descriptor signal, and write makes another one readable.
func async(fd int) error {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	return errors.Join(err, fcntl(fd, unix.F_SETFL, uintptr(flags|unix.O_ASYNC)))
}

func write(fd int) error {
	_, err := unix.Write(fd, []byte("look\n"))
	return err
}

// queued is what rt_sigqueueinfo sends: number, error, and a code that says who sent it.
func queued() uintptr {
	info := make([]int32, 32)
	info[0], info[2] = int32(unix.SIGKILL), -1
	return uintptr(unsafe.Pointer(&info[0]))
}

// kills are ways to kill another process. Each ends with an error if it is refused.
var kills = []struct {
	name string
	by   func(pid int, t *tools) error
}{
	{"kill", func(pid int, _ *tools) error { return unix.Kill(pid, unix.SIGKILL) }},
	{"kill of its group", func(pid int, _ *tools) error { return unix.Kill(-pid, unix.SIGKILL) }},
	{"tkill", func(pid int, _ *tools) error { return call(unix.SYS_TKILL, uintptr(pid), uintptr(unix.SIGKILL)) }},
	{"tgkill", func(pid int, _ *tools) error { return unix.Tgkill(pid, pid, unix.SIGKILL) }},
	{"rt_sigqueueinfo", func(pid int, _ *tools) error {
		return call(unix.SYS_RT_SIGQUEUEINFO, uintptr(pid), uintptr(unix.SIGKILL), queued())
	}},
	{"rt_tgsigqueueinfo", func(pid int, _ *tools) error {
		return call(unix.SYS_RT_TGSIGQUEUEINFO, uintptr(pid), uintptr(pid), uintptr(unix.SIGKILL), queued())
	}},
	{"pidfd_send_signal", func(pid int, _ *tools) error {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return err
		}
		return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}},
	{"a program that kills", func(pid int, _ *tools) error {
		return osexec.Command("/bin/sh", "-c", fmt.Sprint("kill -9 ", pid)).Run()
	}},
	{"F_SETOWN of a pipe", func(pid int, t *tools) error {
		return errors.Join(fcntl(t.r, fSetOwn, uintptr(pid)), fcntl(t.r, fSetSig, uintptr(unix.SIGKILL)), async(t.r), write(t.w))
	}},
	{"F_SETOWN of a pipe's group", func(pid int, t *tools) error {
		return errors.Join(fcntl(t.r, fSetOwn, uintptr(-pid)), async(t.r), write(t.w)) // SIGIO, which ends it too
	}},
	{"F_SETOWN_EX of a pipe", func(pid int, t *tools) error {
		owner := [2]int32{1, int32(pid)} // F_OWNER_PID
		return errors.Join(fcntl(t.r, fSetOwnEx, uintptr(unsafe.Pointer(&owner))), async(t.r), write(t.w))
	}},
	{"F_SETOWN of what it prints to", func(pid int, t *tools) error {
		return errors.Join(fcntl(t.printed, fSetOwn, uintptr(pid)), fcntl(t.printed, fSetSig, uintptr(unix.SIGKILL)), async(t.printed), write(t.printed))
	}},
	{"F_SETOWN of a socket", func(pid int, t *tools) error {
		return errors.Join(fcntl(t.near, fSetOwn, uintptr(pid)), async(t.near), send(t))
	}},
	{"FIOSETOWN", func(pid int, t *tools) error {
		return errors.Join(ioctl(t.near, fioSetOwn, int32(pid)), ioctl(t.near, fioAsync, 1), send(t))
	}},
	{"SIOCSPGRP", func(pid int, t *tools) error {
		return errors.Join(ioctl(t.near, siocSpGrp, int32(pid)), ioctl(t.near, fioAsync, 1), send(t))
	}},
}

// send makes the near socket readable. One that was given is the control socket, to which nothing is sent.
func send(t *tools) error {
	if t.near == t.far {
		return errors.New("there is no pair of sockets")
	}
	return write(t.far)
}

func call(number uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
		return errno
	}
	return nil
}

func init() {
	// murder tries one way to kill a process, or all of them: its parameters are a process and a name. It
	// writes a line for each that was not refused.
	funcs["murder"] = func(c *driver.Call, _, _ int) {
		copy(c.Args[0], murder(string(c.Params)))
	}
	// takes tries all ways to take memory, likewise.
	funcs["takes"] = func(c *driver.Call, _, _ int) {
		var b strings.Builder
		for _, m := range unseen {
			if m.by() == nil {
				fmt.Fprintln(&b, m.name)
			}
		}
		copy(c.Args[0], b.String())
	}
}

func murder(params string) string {
	at, name, _ := strings.Cut(params, " ")
	pid, err := strconv.Atoi(at)
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	t := newTools()
	for _, k := range kills {
		if name == "" || name == k.name {
			if k.by(pid, t) == nil {
				fmt.Fprintln(&b, k.name)
			}
		}
	}
	return b.String()
}

// victim is a process in a group of its own that repeats what it is told.
type victim struct {
	cmd *osexec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func newVictim(t *testing.T) *victim {
	t.Helper()
	v := &victim{cmd: osexec.Command("cat")}
	v.cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	var err error
	if v.in, err = v.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := v.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	v.out = bufio.NewReader(out)
	if err := v.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = v.cmd.Process.Kill()
		_ = v.cmd.Wait() // it was killed
	})
	if !v.lives() {
		t.Fatal("the victim does not begin to live")
	}
	return v
}

// lives reports whether the process answers. One to which a deadly signal was sent does not.
func (v *victim) lives() bool {
	if _, err := io.WriteString(v.in, "well?\n"); err != nil {
		return false
	}
	line, err := v.out.ReadString('\n')
	return err == nil && line == "well?\n"
}

// dies waits for the end of the process.
func (v *victim) dies() { _, _ = io.Copy(io.Discard, v.out) } // its output ends with it

func (v *victim) pid() int { return v.cmd.Process.Pid }

// wrote runs a kernel with parameters that writes a text.
func wrote(t *testing.T, r *rig, name, params string) string {
	t.Helper()
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: 4096, Output: true})
	b.Add(graph.Task{
		Steps: []graph.Step{{Kernel: kernel(name), Launch: graph.Grid(1), Params: []byte(params)}},
		Uses:  []graph.Use{{Data: x, Access: graph.Write}},
	})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := r.run(t, g, nil)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimRight(string(out), "\x00")
}

// Every way by which a worker kills another process, tried with real signals, ends at each of the walls of
// a confined one, whichever of them the kernel has. Without them it kills.
func TestMurder(t *testing.T) {
	if wall := os.Getenv("WEFT_TEST_WALL"); wall != "" {
		behind(t, wall)
		return
	}
	r := start(t, proc.Options{Driver: "cpu"}, engine.Options{})
	for _, k := range kills {
		v := newVictim(t)
		if got := wrote(t, r, "murder", fmt.Sprint(v.pid(), " ", k.name)); got != k.name+"\n" {
			t.Errorf("without walls, %s is refused: %q", k.name, got)
			continue
		}
		v.dies()
	}
	v := newVictim(t)
	survives := func(at, got string) {
		t.Helper()
		if got != "" {
			t.Errorf("%s, these are not refused:\n%s", at, got)
		}
		if !v.lives() {
			t.Fatalf("%s, it is killed", at)
		}
	}
	r = start(t, proc.Options{Workers: proc.Workers{Confine: true}, Driver: "cpu"}, engine.Options{})
	survives("in a confined worker", wrote(t, r, "murder", fmt.Sprint(v.pid(), " ")))
	walls := []string{"filter"}
	if proc.LandlockVersion() >= 6 {
		walls = append(walls, "landlock")
	}
	for _, wall := range walls {
		cmd := osexec.Command("/proc/self/exe", "-test.run=^TestMurder$")
		cmd.Env = append(os.Environ(), "WEFT_TEST_WALL="+wall, fmt.Sprintf("WEFT_TEST_VICTIM=%d ", v.pid()))
		out, err := cmd.Output()
		if err != nil || !strings.Contains(string(out), "all tried\n") {
			t.Errorf("%s: %v\n%s", wall, err, out)
		}
		got := ""
		for line := range strings.Lines(string(out)) {
			if name, ok := strings.CutPrefix(line, "not refused: "); ok {
				got += name
			}
		}
		if wall == "landlock" {
			got = "" // it has commands that name whom to signal succeed, and drops the signals
		}
		survives("behind the "+wall, got)
	}
}

// behind tries to kill a process behind a wall alone, with descriptors that were there before.
func behind(t *testing.T, wall string) {
	runtime.LockOSThread() // Landlock is for a thread
	made := newTools()
	var err error
	if wall == "filter" {
		err = proc.Confine(true)
	} else {
		err = proc.ShutFiles(proc.LandlockVersion())
	}
	if err != nil {
		t.Fatal(err)
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(os.Getenv("WEFT_TEST_VICTIM")))
	for _, k := range kills {
		if k.by(pid, made) == nil {
			fmt.Println("not refused:", k.name)
		}
	}
	fmt.Println("all tried")
}

// unseen are ways to take memory that no limit on private memory sees.
var unseen = []struct {
	name string
	by   func() error
}{
	{"write to a memfd", func() error {
		fd, err := unix.MemfdCreate("hoard", unix.MFD_CLOEXEC)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		_, err = unix.Write(fd, make([]byte, piece))
		return err
	}},
	{"fallocate of a memfd", func() error {
		fd, err := unix.MemfdCreate("hoard", unix.MFD_CLOEXEC)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Fallocate(fd, 0, 0, piece)
	}},
	{"shared memory without a name", func() error { return mapped(-1, unix.MAP_SHARED|unix.MAP_ANONYMOUS) }},
	{"shared memory of /dev/zero", func() error {
		fd, err := unix.Open("/dev/zero", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return mapped(fd, unix.MAP_SHARED)
	}},
	{"a stack", func() error { return mapped(-1, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_GROWSDOWN) }},
	{"the stack of the first thread", func() error {
		maps, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(maps)) {
			if !strings.Contains(line, "[stack]") {
				continue
			}
			from, _, _ := strings.Cut(line, "-")
			at, err := strconv.ParseUint(from, 16, 64)
			if err != nil {
				return err
			}
			return call(unix.SYS_GETRANDOM, uintptr(at-deepStack), 1) // which writes there
		}
		return errors.New("there is no stack")
	}},
	{"a pipe", func() error {
		p := make([]int, 2)
		if err := unix.Pipe2(p, unix.O_CLOEXEC); err != nil {
			return err
		}
		defer unix.Close(p[0])
		defer unix.Close(p[1])
		return fcntl(p[1], unix.F_SETPIPE_SZ, piece)
	}},
	{"System V memory", func() error {
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, piece, 0o600)
		if err != nil {
			return err
		}
		_, err = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		return err
	}},
	{"tables of pages", func() error { // a page of tables for each 2 MiB of them
		b, err := unix.Mmap(-1, 0, 80<<30, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
		if err != nil {
			return err
		}
		return unix.Munmap(b)
	}},
	{"a file in memory", func() error {
		f, err := os.Create(filepath.Join("/dev/shm", fmt.Sprint("weft-test-", os.Getpid())))
		if err != nil {
			return err
		}
		return errors.Join(f.Close(), os.Remove(f.Name()))
	}},
}

const (
	piece = 1 << 20
	// deepStack is the depth in bytes at which the test writes: above maxStack, and below largeStack, the limit that the test sets.
	deepStack  = 16 << 20
	largeStack = 64 << 20
)

// mapped maps memory for a moment.
func mapped(fd, flags int) error {
	b, err := unix.Mmap(fd, 0, piece, unix.PROT_READ, flags)
	if err != nil {
		return err
	}
	return unix.Munmap(b)
}

// A confined worker takes no memory that its limit does not see. One that is not confined does.
func TestUnseenMemory(t *testing.T) {
	var all strings.Builder
	for _, m := range unseen {
		fmt.Fprintln(&all, m.name)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_STACK, &limit); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_STACK, &unix.Rlimit{Cur: largeStack, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Setrlimit(unix.RLIMIT_STACK, &limit); err != nil {
			t.Error(err)
		}
	})
	for _, confined := range []bool{false, true} {
		r := start(t, proc.Options{Workers: proc.Workers{Confine: confined, WorkerBytes: 1 << 30}, Driver: "cpu"}, engine.Options{})
		want := ""
		if !confined {
			want = all.String()
		}
		if got := wrote(t, r, "takes", ""); got != want {
			t.Errorf("confined %v: it takes\n%swant\n%s", confined, got, want)
		}
	}
}

// Children have no descriptors of the program but those that are for them, whether these are closed
// when a program is started or not.
func TestInherited(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := unix.Open(name, unix.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(file)
	folder, err := unix.Open(filepath.Dir(name), unix.O_PATH, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(folder)
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(socket)
	const far = 200 // with a gap before it
	if err := unix.Dup3(file, far, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(far)
	var secrets []string
	for _, fd := range []int{file, folder, socket} {
		to, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		if err != nil {
			t.Fatal(err)
		}
		secrets = append(secrets, to)
	}
	for _, confined := range []bool{false, true} {
		r := start(t, proc.Options{Workers: proc.Workers{Confine: confined, Standby: true}, Driver: "cpu"}, engine.Options{})
		g, in, want := chain(t, 10_000, 4, 3)
		r.mustRun(t, g, in, want)
		poll.True(t, "a standby", func() bool { return strings.Contains(r.log.String(), "a worker stands by") })
		all := slices.Concat(proc.Pids("worker"), proc.Pids("keeper"))
		if len(all) < 3 {
			t.Errorf("there are %d children", len(all))
		}
		for _, pid := range all {
			list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range list {
				to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, e.Name())) // it may be closed meanwhile
				if slices.Contains(secrets, to) {
					t.Errorf("confined %v: child %d has descriptor %s: %s", confined, pid, e.Name(), to)
				}
			}
		}
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
