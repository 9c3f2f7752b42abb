//go:build linux || darwin

package terminal

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// OpenScreen takes over a terminal: keys are told at once and not shown. It returns nil if
// there is none that takes control sequences, which TERM=dumb denies. The caller calls
// Close.
func OpenScreen(in, out *os.File) *Screen {
	fd := int(in.Fd())
	was, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil || !Interactive(out) || os.Getenv("TERM") == "dumb" || os.Getenv("TERM") == "" {
		return nil
	}
	if _, err := unix.IoctlGetWinsize(int(out.Fd()), unix.TIOCGWINSZ); err != nil {
		return nil // a character device, and no terminal
	}
	raw := *was
	raw.Lflag &^= unix.ICANON | unix.ECHO | unix.ISIG // Ctrl-C is a key: nothing ends the process unless Close was called
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 0, 1      // a read returns after 0.1 s
	if unix.IoctlSetTermios(fd, setTermios, &raw) != nil {
		return nil
	}
	s := &Screen{out: out, keys: make(chan byte), resized: make(chan os.Signal, 1), hung: make(chan os.Signal, 1)}
	signal.Notify(s.resized, syscall.SIGWINCH)
	signal.Notify(s.hung, syscall.SIGHUP)
	stop, read := make(chan struct{}), make(chan struct{})
	s.restore = sync.OnceFunc(func() {
		signal.Stop(s.resized)
		signal.Stop(s.hung)
		close(stop)
		<-read
		_, _ = out.WriteString(leaveScreen) // there is nobody to tell
		_ = unix.IoctlSetTermios(fd, setTermios, was)
		shown.CompareAndSwap(s, nil)
	})
	shown.Store(s)
	go s.read(in, stop, read)
	_, _ = out.WriteString(enterScreen) // Show will say it
	return s
}

// read tells keys until stop is closed.
func (s *Screen) read(in *os.File, stop <-chan struct{}, ended chan<- struct{}) {
	defer close(ended)
	key := make([]byte, 1)
	for {
		n, _ := in.Read(key)
		if n == 0 { // none was pressed, or the terminal is gone
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
			continue
		}
		select {
		case s.keys <- key[0]:
		case <-stop:
			return
		}
	}
}

// size returns the size of a terminal, 80 columns and 24 rows if it does not tell it.
func size(f *os.File) (columns, rows int) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 || size.Row == 0 {
		return Width, 24
	}
	return int(size.Col), int(size.Row)
}
