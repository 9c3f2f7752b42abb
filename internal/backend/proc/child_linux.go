package proc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weft-run/weft/internal/arena"
)

// roleVar tells a process that it was started as a child, and as what.
const roleVar = "WEFT_WORKER"

// Roles of children.
const (
	asWorker = "worker"
	asKeeper = "keeper"
)

// Descriptors a child is born with.
const (
	controlFD = 3
	ringFD    = 4
	arenaFD   = 5
)

var (
	errHung    = errors.New("it does not answer")
	errStopped = errors.New("ended")
	errNoMain  = errors.New("the program does not call weft.Worker first in main; do so, or set worker_command")
)

// entered is set once Main was called: then a child started from the same program
// calls it too, and does not run the program a second time.
var entered atomic.Bool

// child is a process this one started. It ends when its control socket closes.
type child struct {
	role string
	log  *slog.Logger
	cmd  *exec.Cmd
	conn *conn
	// answer limits the time from a request to its answer, end that from being asked
	// to end to doing so, reap that from being killed to vanishing.
	answer, end, reap time.Duration

	// A worker's: see ring_linux.go. The memory goes when the owner says so.
	rings                 []byte
	commands, completions *ring
	serves                chan struct{} // closed when it does its device's work: watch follows its beats from then on
	unwatched             chan struct{} // closed when watchBeats, which uses the rings, has ended; nil before it has begun
	// The device's lock guards these.
	taken bool           // it stood by and was taken
	lost  chan struct{}  // closed when what it had in flight has ended
	segs  int            // as a standby: the number of segments of the arena that it knows
	slabs map[int32]bool // as a standby: the slabs that it has mapped
	stale chan struct{}  // as a standby: told that there are slabs it has not mapped

	mu    sync.Mutex
	calls map[int]chan reply // requests that are not answered yet; nil after the end
	next  int
	cause error         // why it was killed, if it was
	doom  chan struct{} // closed when it is
	last  string        // the line of its output that says most about its end
	talk  allowance     // for what it prints and logs

	readers sync.WaitGroup
	reaped  chan struct{} // closed when the process is
	exited  chan struct{} // closed when all readers have ended besides
}

type reply struct {
	m  *message
	fd int
}

// spawn starts a child. memory is the descriptor of the arena, for a worker.
func spawn(o *Options, role string, memory int, log *slog.Logger) (_ *child, err error) {
	argv := o.WorkerCommand
	if len(argv) == 0 {
		if !entered.Load() {
			return nil, fmt.Errorf("proc: start a %s: %w", role, errNoMain)
		}
		argv = []string{"/proc/self/exe"}
	}
	c := &child{role: role, log: log, answer: o.Answer, end: o.End / 2, reap: reapWait, calls: make(map[int]chan reply), reaped: make(chan struct{}), exited: make(chan struct{}), doom: make(chan struct{}), lost: make(chan struct{}), serves: make(chan struct{}), slabs: make(map[int32]bool), stale: make(chan struct{}, 1)}
	c.cmd = exec.Command(argv[0], argv[1:]...)
	c.cmd.Env = append(cleaned(c.cmd.Environ(), o.Env), roleVar+"="+role)
	if o.Confine {
		if err := hideMemory(landlockVersion()); err != nil {
			return nil, fmt.Errorf("proc: start a %s: %w", role, err)
		}
		c.cmd.Env = append(c.cmd.Env, shutVar+"="+toShut)
	}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			_ = f.Close()
		}
		if err != nil {
			err = fmt.Errorf("proc: start a %s: %w", role, err)
			c.unmap()
		}
	}()
	var end *os.File
	if c.conn, end, err = newPair(); err != nil {
		return nil, err
	}
	theirs = append(theirs, end)
	if role == asWorker {
		if theirs, err = c.share(theirs, memory); err != nil {
			c.conn.close()
			return nil, err
		}
	}
	out, in, err := os.Pipe()
	if err != nil {
		c.conn.close()
		return nil, err
	}
	theirs = append(theirs, in)
	c.cmd.Stdout, c.cmd.Stderr = in, in
	c.cmd.ExtraFiles = theirs[:len(theirs)-1]
	c.readers.Add(2)
	started := make(chan error)
	go c.live(out, started)
	if err := <-started; err != nil {
		_ = out.Close()
		c.conn.close()
		return nil, err
	}
	go c.listen()
	go c.echo(out)
	return c, nil
}

// share makes the rings, and adds them and the arena to what the child is given.
func (c *child) share(files []*os.File, memory int) ([]*os.File, error) {
	fd, err := arena.Memfd("weft rings", ringMemory)
	if err != nil {
		return files, err
	}
	files = append(files, os.NewFile(uintptr(fd), "rings"))
	if c.rings, c.commands, c.completions, err = mapRings(fd, true); err != nil {
		return files, err
	}
	dup, err := unix.FcntlInt(uintptr(memory), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return files, err
	}
	return append(files, os.NewFile(uintptr(dup), "arena")), nil
}

// unmap unmaps the rings, which must not be used after.
func (c *child) unmap() {
	if c.unwatched != nil {
		<-c.unwatched // soon: it ends with the child
	}
	if c.rings != nil {
		_ = unix.Munmap(c.rings)
		c.rings, c.commands, c.completions = nil, nil, nil
	}
}

// listen takes answers and log records until the socket closes.
func (c *child) listen() {
	defer c.readers.Done()
	buf := make([]byte, maxMessage)
	for {
		m, fd, err := c.conn.receive(buf)
		if err != nil {
			if errors.Is(err, errGarbage) {
				c.kill(err)
			} else {
				c.kill(errStopped)
			}
			c.mu.Lock()
			for _, ch := range c.calls {
				close(ch)
			}
			c.calls = nil
			c.mu.Unlock()
			return
		}
		switch m.Kind {
		case answer:
			c.mu.Lock()
			ch := c.calls[m.ID]
			delete(c.calls, m.ID)
			c.mu.Unlock()
			if ch != nil {
				ch <- reply{m, fd} // the call closes it, or hands it on
				continue
			}
		case tellLog:
			c.relay(m)
		default:
			c.kill(fmt.Errorf("%w: message %q", errGarbage, m.Kind))
		}
		closeFD(fd) // no request takes a descriptor that comes with this message
	}
}

// relay logs what the child has logged.
func (c *child) relay(m *message) {
	n := len(m.Text)
	for _, a := range m.Attrs {
		n += len(a)
	}
	if !c.said(n) {
		return
	}
	attrs := make([]any, len(m.Attrs))
	for i := range attrs {
		attrs[i] = m.Attrs[i]
	}
	c.log.Log(context.Background(), m.Level, m.Text, attrs...)
}

// echo logs the child's output: the runtime's message at a crash, or a library's. It reads
// everything, since a child whose pipe is full would wait, and drops what exceeds its
// allowance.
func (c *child) echo(out *os.File) {
	defer c.readers.Done()
	lines := bufio.NewReaderSize(&output{f: out}, 4096)
	for {
		line, err := lines.ReadSlice('\n')
		if text := strings.TrimSpace(string(line)); text != "" {
			c.mu.Lock()
			if !isCause(c.last) {
				c.last = text
			}
			c.mu.Unlock()
			if c.said(len(text)) {
				c.log.Warn("printed by a child", "role", c.role, "pid", c.pid(), "text", text)
			}
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// output reads a child's output. Once a deadline has passed, because the child has ended, reads
// no longer wait and end where the pipe is empty.
type output struct {
	f    *os.File
	over bool
}

func (o *output) Read(b []byte) (n int, err error) {
	if !o.over {
		if n, err = o.f.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		o.over = true
		_ = o.f.SetReadDeadline(time.Time{})
	}
	raw, err := o.f.SyscallConn()
	if err != nil {
		return 0, err
	}
	failed := raw.Read(func(fd uintptr) bool {
		n, err = unix.Read(int(fd), b)
		return true
	})
	if failed != nil || err != nil || n <= 0 {
		return 0, io.EOF
	}
	return n, nil
}

// isCause reports whether a line is the one with which a process says why it ends:
// registers and stacks follow.
func isCause(line string) bool {
	for _, p := range []string{"panic:", "fatal error:", "unexpected fault", "SIG"} {
		if strings.HasPrefix(line, p) {
			return true
		}
	}
	return false
}

// said counts what the child printed or logged and reports whether it is to be
// logged. That there is too much is said once.
func (c *child) said(n int) bool {
	c.mu.Lock()
	ok, first := c.talk.take(time.Now(), n)
	c.mu.Unlock()
	if first {
		c.log.Warn("a child prints more than is logged; the rest is dropped", "role", c.role, "pid", c.pid(), "burst", talkBurst, "rate", talkRate)
	}
	return ok
}

// live starts the process and waits until it and its readers have ended. It has a thread of its
// own until the process is gone: the kernel kills a child, even a stopped one, when the thread
// that started it ends, and other threads of a Go program may end before the program does.
func (c *child) live(out *os.File, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := c.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	_ = c.cmd.Wait() // how it ended is in ProcessState
	close(c.reaped)
	c.conn.close()
	// What it printed is there already. Its own children may hold the pipe, and that it ends
	// is told late by the Go runtime where all its threads are busy: echo is not to wait.
	_ = out.SetReadDeadline(time.Unix(1, 0))
	c.readers.Wait()
	_ = out.Close()
	close(c.exited)
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// kill ends the child for a reason; the first one counts.
func (c *child) kill(cause error) {
	c.mu.Lock()
	if c.cause == nil {
		c.cause = cause
		close(c.doom)
	}
	c.mu.Unlock()
	_ = c.cmd.Process.Kill() // it may have ended
}

// why says how the child ended. It is called after exited.
func (c *child) why() error {
	return c.because(c.ending().String())
}

// because says how the child ends, and why if it was killed for a reason.
func (c *child) because(how string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last != "" {
		how += ": " + c.last
	}
	if c.cause == nil || errors.Is(c.cause, errStopped) {
		return fmt.Errorf("%s process %d: %s", c.role, c.pid(), how)
	}
	return fmt.Errorf("%s process %d: %w", c.role, c.pid(), c.cause)
}

// fell reports whether the child, which ends as it is told, does so by itself, as by a crash of
// what it ran, and was not killed.
func (c *child) fell(e ending) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return e.known && !e.killed() && (c.cause == nil || errors.Is(c.cause, errStopped))
}

// alive reports whether the child has not been reaped, or is still being read from.
func (c *child) alive() bool {
	select {
	case <-c.exited:
		return false
	default:
		return true
	}
}

// limit returns after what time without an answer to a request the child is killed.
func (c *child) limit(m *message) time.Duration {
	switch m.Kind {
	case askOpen, askAttach:
		return 2 * c.answer
	case askJoin:
		return m.Wait + c.answer
	}
	return c.answer
}

// call sends a request and waits for its answer.
func (c *child) call(ctx context.Context, m *message, fd int) (*message, error) {
	m, fd, err := c.callFD(ctx, m, fd)
	closeFD(fd) // not asked for
	return m, err
}

// callFD is call for a request whose answer comes with a descriptor, which is the
// caller's; without one it is -1.
func (c *child) callFD(ctx context.Context, m *message, fd int) (*message, int, error) {
	ch := make(chan reply, 1)
	c.mu.Lock()
	if c.calls == nil {
		c.mu.Unlock()
		return nil, -1, c.ended(m.Kind)
	}
	c.next++
	m.ID = c.next
	c.calls[m.ID] = ch
	c.mu.Unlock()
	if err := c.conn.send(m, fd); err != nil {
		if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed) {
			err = errStopped // how it ended says more
		}
		c.kill(err)
		c.forget(m.ID, ch)
		return nil, -1, c.ended(m.Kind)
	}
	late := time.NewTimer(c.limit(m))
	defer late.Stop()
	select {
	case r, ok := <-ch:
		if !ok {
			return nil, -1, c.ended(m.Kind)
		}
		if err := errorOf(r.m.Class, r.m.Err); err != nil {
			closeFD(r.fd)
			return nil, -1, fmt.Errorf("%s process %d: %w", c.role, c.pid(), err)
		}
		return r.m, r.fd, nil
	case <-late.C:
		c.kill(errHung)
		c.forget(m.ID, ch)
		return nil, -1, fmt.Errorf("%s process %d: %s: %w", c.role, c.pid(), m.Kind, errHung)
	case <-ctx.Done():
		c.kill(context.Cause(ctx)) // no caller would take its answer
		c.forget(m.ID, ch)
		return nil, -1, context.Cause(ctx)
	}
}

// forget ends the waiting for an answer. One that came meanwhile is thrown away
// with what it brought.
func (c *child) forget(id int, ch chan reply) {
	c.mu.Lock()
	waiting := c.calls[id] == ch
	delete(c.calls, id)
	c.mu.Unlock()
	if waiting {
		return
	}
	if r, ok := <-ch; ok { // it is there, or about to be
		closeFD(r.fd)
	}
}

// ended is the error of a request to a child that is gone, or about to be.
func (c *child) ended(what string) error {
	select {
	case <-c.exited:
		return &deathError{fmt.Errorf("%s: %w", what, c.why())}
	case <-time.After(sendTimeout): // it hangs in the kernel
		return fmt.Errorf("%s: %s process %d: %w", what, c.role, c.pid(), errHung)
	}
}

// finish asks the child to end and waits; one that does not is killed. It reports
// whether the child is gone: one that hangs in the kernel may never be.
func (c *child) finish() bool {
	c.conn.close()
	select {
	case <-c.exited:
		return true
	case <-time.After(c.end):
	}
	c.kill(errHung)
	select {
	case <-c.exited:
		return true
	case <-time.After(c.reap):
		c.log.Warn("a killed child has not ended; going on without it", "role", c.role, "pid", c.pid())
		return false
	}
}

// dispose ends the child and has its rings go with it, later where it does not end.
func (c *child) dispose() {
	if c.finish() {
		c.unmap()
		return
	}
	go func() {
		<-c.exited
		c.unmap()
	}()
}

// Main turns the process into a worker or a keeper if it was started as one, and
// never returns then. Else it returns at once. It is called first in main, and in
// TestMain. makers are the drivers that can run in children, by name.
func Main(makers map[string]Maker) {
	entered.Store(true)
	role := os.Getenv(roleVar)
	if role == "" {
		return
	}
	var err error
	shut := os.Getenv(shutVar)
	if shut != isShut {
		err = closeInherited(role)
	}
	if err == nil && shut == toShut {
		err = startShut()
	}
	_, _ = os.Unsetenv(shutVar), os.Unsetenv(roleVar) // not for processes this one may start
	if err == nil {
		err = endWith(controlFD)
	}
	switch {
	case err != nil:
	case role == asWorker:
		err = work(makers)
	case role == asKeeper:
		err = keep(makers)
	default:
		err = fmt.Errorf("%s=%s: there is no such role", roleVar, role)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// endWith ends this process when the other end of a socket closes, whatever else it
// does: a driver may never return from a call. The kernel does the same for a child
// of the program, but not for one that was started by way of another command.
func endWith(fd int) error {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("proc: control socket: %w", err)
	}
	go func() {
		for {
			p := []unix.PollFd{{Fd: int32(own), Events: unix.POLLRDHUP}}
			if _, err := unix.Poll(p, -1); err == nil || !errors.Is(err, unix.EINTR) {
				os.Exit(0) // the parent has ended
			}
		}
	}()
	return nil
}
