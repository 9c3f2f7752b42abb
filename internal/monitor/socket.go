package monitor

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/weft-run/weft/internal/safefile"
)

const (
	suffix = ".sock"
	// maxPath is the longest name that a socket may have: 104 bytes on macOS, with a zero.
	maxPath = 103
	// maxSockets is the greatest number of sockets of one process, and of entries of the
	// folder that are looked at.
	maxSockets = 64
	maxEntries = 4096
)

// Dir is the folder that sockets without a path are in.
func Dir() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "weft")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("weft-%d", os.Geteuid()))
}

// socket is a listener with its file, by which it is known among others of its name.
type socket struct {
	*net.UnixListener
	file fs.FileInfo
}

// Close removes the listener's file, unless another process has replaced it, and then closes the
// listener. The order matters: while the listener is open, no other file can get its inode number.
func (s *socket) Close() error {
	path := s.Addr().String()
	err := locked(filepath.Dir(path), func() error {
		if now, err := os.Lstat(path); err != nil || !os.SameFile(now, s.file) {
			return nil // somebody removed it
		}
		return os.Remove(path)
	})
	return errors.Join(err, s.UnixListener.Close())
}

// listen makes a socket at a path, or with "" one of this process in Dir.
func listen(path string) (s *socket, err error) {
	if err := supported(); err != nil {
		return nil, err
	}
	if path != "" {
		path, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		if err := private(filepath.Dir(path)); err != nil {
			return nil, err
		}
		err = locked(filepath.Dir(path), func() error {
			s, err = bind(path)
			return err
		})
		return s, err
	}
	dir := Dir()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := private(dir); err != nil {
		return nil, err
	}
	err = locked(dir, func() error {
		sweep(dir)
		for i := range maxSockets {
			name := strconv.Itoa(os.Getpid())
			if i > 0 {
				name += "-" + strconv.Itoa(i) // another runtime of this process
			}
			s, err = bind(filepath.Join(dir, name+suffix))
			if !errors.Is(err, errInUse) {
				return err
			}
		}
		return fmt.Errorf("%s: %d sockets of this process are in use", dir, maxSockets)
	})
	return s, err
}

var errInUse = errors.New("another runtime listens there; choose another path")

// bind makes a socket at a path in a private folder, which is locked. One that nobody listens
// at is replaced.
func bind(path string) (*socket, error) {
	if len(path) > maxPath {
		return nil, fmt.Errorf("%s: the name of a socket has at most %d bytes; choose a shorter path", path, maxPath)
	}
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSocket == 0:
		return nil, fmt.Errorf("%s: there is a file that is no socket; choose another path", path)
	case !abandoned(path):
		return nil, fmt.Errorf("%s: %w", path, errInUse)
	default:
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	// Until here the folder alone keeps others out.
	err = os.Chmod(path, 0o600)
	file, missing := os.Lstat(path)
	if err = errors.Join(err, missing); err != nil {
		_ = l.Close() // which removes it; the first error says more
		return nil, err
	}
	l.SetUnlinkOnClose(false) // which goes by the name alone
	return &socket{l, file}, nil
}

// private errs unless only this user can enter a folder, and no other can exchange it.
func private(dir string) error {
	if err := safefile.Trusted(dir); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 || !owned(info) {
		return fmt.Errorf("%s: others can enter the folder of the socket (mode %04o); make one for it by mkdir -m 700", dir, mode)
	}
	return nil
}

// abandoned reports whether nobody listens at a socket.
func abandoned(path string) bool {
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err == nil {
		_ = c.Close() // nothing was sent
		return false
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// Socket is one that a runtime may listen at.
type Socket struct {
	Path string
	PID  int
}

// Sockets returns the sockets in Dir whose processes live, by process.
func Sockets() []Socket {
	var out []Socket
	for _, s := range entries(Dir()) {
		if alive(s.PID) && !abandoned(s.Path) {
			out = append(out, s)
		}
	}
	return out
}

// sweep removes the sockets in a folder, which is locked, of processes that have ended. Where
// processes are numbered apart, as in containers that share the folder, one that is not found
// may still listen.
func sweep(dir string) {
	for _, s := range entries(dir) {
		if !alive(s.PID) && abandoned(s.Path) {
			_ = os.Remove(s.Path) // another process may have done so
		}
	}
}

// entries returns the sockets of this user in a folder that are called by a process.
func entries(dir string) (out []Socket) {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	list, _ := f.ReadDir(maxEntries) // what was read is good, whatever ended it
	for _, e := range list {
		stem, ok := strings.CutSuffix(e.Name(), suffix)
		number, _, _ := strings.Cut(stem, "-")
		pid, err := strconv.Atoi(number)
		if !ok || err != nil || pid <= 0 {
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode()&fs.ModeSocket != 0 && owned(info) {
			out = append(out, Socket{filepath.Join(dir, e.Name()), pid})
		}
	}
	slices.SortFunc(out, func(a, b Socket) int {
		if a.PID != b.PID {
			return a.PID - b.PID
		}
		return strings.Compare(a.Path, b.Path)
	})
	return out
}
