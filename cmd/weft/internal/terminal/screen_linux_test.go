package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weft-run/weft/internal/test/poll"
)

// pty opens a pair of terminals: what is written to one is typed on the other.
func pty(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Skip(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Skip(err)
	}
	if slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { slave.Close() })
	return master, slave
}

// watch reads a terminal. It returns a function that waits until the terminal has shown a text.
func watch(t *testing.T, master *os.File) (sees func(text string)) {
	var mu sync.Mutex
	var seen strings.Builder
	go io.Copy(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return seen.Write(p)
	}), master)
	return func(text string) {
		t.Helper()
		poll.True(t, fmt.Sprintf("%q is on the screen", text), func() bool {
			mu.Lock()
			defer mu.Unlock()
			return strings.Contains(seen.String(), text)
		})
	}
}

// A line of progress fits into the terminal, also after its width has changed.
func TestProgressWidth(t *testing.T) {
	master, slave := pty(t)
	sees := watch(t, master)
	now := time.Now()
	p := &Progress{w: slave, unit: "frame", total: 500, done: 499, what: "step 499000: Q 0.95 RMSD 12.3 best 10.1", begin: now.Add(-500 * time.Second), last: now, left: -1}
	for columns, want := range map[uint16]string{
		0:   "\rstep 499000: Q 0.95 RMSD 12.3 best 10.1  [############.] 499/500  about 1s left",
		40:  "\rstep 499000: Q … 499/500  about 1s left",
		120: "\rstep 499000: Q 0.95 RMSD 12.3 best 10.1  [###################.] 499/500  1 s a frame  about 1s left",
	} {
		if err := unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: 24}); err != nil {
			t.Fatal(err)
		}
		p.draw(now)
		sees(strings.Replace(want, "\r", "\r\x1b[K", 1))
	}
}

// A screen shows what fits, tells keys, and leaves the terminal as it was.
func TestScreen(t *testing.T) {
	t.Setenv("TERM", "xterm")
	master, slave := pty(t)
	sees := watch(t, master)
	if err := unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: 10, Row: 2}); err != nil {
		t.Fatal(err)
	}
	before, err := unix.IoctlGetTermios(int(slave.Fd()), getTermios)
	if err != nil {
		t.Fatal(err)
	}
	s := OpenScreen(slave, slave)
	if s == nil {
		t.Fatal("no screen on a terminal")
	}
	sees("\x1b[?1049h")
	if err := s.Show([]string{"one", "a line that is too long", "a third"}); err != nil {
		t.Fatal(err)
	}
	sees("\x1b[Hone\x1b[K\r\na line th…\x1b[K\x1b[J")
	for _, key := range []byte{'q', CtrlC} {
		if _, err := master.Write([]byte{key}); err != nil {
			t.Fatal(err)
		}
		if got := <-s.Keys(); got != key {
			t.Errorf("key %q, want %q", got, key)
		}
	}
	CloseScreen() // as a process does that ends at once
	s.Close()
	sees(leaveScreen)
	after, err := unix.IoctlGetTermios(int(slave.Fd()), getTermios)
	if err != nil || *after != *before {
		t.Errorf("the terminal is left as %+v, %v, and was %+v", after, err, before)
	}
	CloseScreen() // when there is none
	t.Setenv("TERM", "dumb")
	if s := OpenScreen(slave, slave); s != nil {
		s.Close()
		t.Error("a screen on a terminal that takes no control sequences")
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// A file that is no terminal has no screen.
func TestNoScreen(t *testing.T) {
	t.Setenv("TERM", "xterm")
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if s := OpenScreen(null, null); s != nil {
		s.Close()
		t.Error("a screen on /dev/null")
	}
}
