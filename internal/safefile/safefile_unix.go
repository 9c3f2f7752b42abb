//go:build unix

package safefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// noWait is the flag with which a pipe is opened at once.
const noWait = syscall.O_NONBLOCK

// openFile opens a file, for reading or as access says, and returns at once whatever it is.
func openFile(path string, access int, follow bool) (*os.File, error) {
	flags := access | syscall.O_NONBLOCK | syscall.O_CLOEXEC
	if !follow {
		flags |= syscall.O_NOFOLLOW
	}
	f, err := os.OpenFile(path, flags, 0)
	if !follow && errors.Is(err, syscall.ELOOP) {
		return nil, about(path, &kindError{"is a link; give the file itself"})
	}
	return f, err
}

// own returns ErrUnsafe unless a file is this user's and writable by no other.
func own(info fs.FileInfo) error {
	st := info.Sys().(*syscall.Stat_t)
	if self := os.Geteuid(); int(st.Uid) != self {
		return fmt.Errorf("%w: it belongs to user %d and not to user %d", ErrUnsafe, st.Uid, self)
	}
	return private(info)
}

// private returns ErrUnsafe if others than a file's owner may write to it.
func private(info fs.FileInfo) error {
	if m := info.Mode().Perm(); m&0o022 != 0 {
		return fmt.Errorf("%w: others may write to it (mode %04o)", ErrUnsafe, m)
	}
	return nil
}

// secret returns ErrUnsafe unless a file is this user's or root's and no other may read it.
func secret(info fs.FileInfo) error {
	if uid := int(info.Sys().(*syscall.Stat_t).Uid); uid != 0 && uid != os.Geteuid() {
		return fmt.Errorf("%w: it belongs to user %d", ErrUnsafe, uid)
	}
	if m := info.Mode().Perm(); m&0o077 != 0 {
		return fmt.Errorf("%w: others may read it (mode %04o); chmod 600 it", ErrUnsafe, m)
	}
	return nil
}

// SyncFolder puts the names in an open folder on the disk.
func SyncFolder(dir *os.File) error { return dir.Sync() }

// Lock makes a file that no other process can lock until it is closed or this process ends, however
// it ends. A file that is locked is ErrLocked.
func Lock(path string) (io.Closer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrLocked
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, &fs.PathError{Op: "lock", Path: path, Err: err}
	}
	return f, nil
}

// maxLinks is how many links a path may lead over, as many as Linux follows.
const maxLinks = 40

// Trusted returns ErrUnsafe, with what is wrong, if any user but root and this user
// could have put a file where it is, or could exchange it: every folder on the way,
// over links too, and the file itself must belong to root or this user and be writable
// by no other. Folders where entries can be removed by their owners alone, such as
// /tmp, may be written by others. After nil a path may be used by its name, since
// no other user can change what it stands for.
func Trusted(path string) error { return trusted(path, os.Geteuid(), rootMapped()) }

func trusted(path string, self int, rooted bool) error {
	if !filepath.IsAbs(path) {
		here, err := os.Getwd()
		if err != nil {
			return err
		}
		path = here + "/" + path
	}
	links := 0
	at, rest := "/", strings.TrimLeft(path, "/") // not cleaned: .. after a link is the parent of where it leads
	for {
		info, err := os.Lstat(at)
		if err != nil {
			return err
		}
		link := info.Mode()&fs.ModeSymlink != 0
		if err := trustedEntry(info, at, self, rooted, rest == ""); err != nil {
			return fmt.Errorf("%s: %s: %w", path, at, err)
		}
		if link {
			if links++; links > maxLinks {
				return fmt.Errorf("%s: %w: too many links", path, ErrUnsafe)
			}
			to, err := os.Readlink(at)
			if err != nil {
				return err
			}
			if !filepath.IsAbs(to) {
				to = filepath.Dir(at) + "/" + to
			}
			at, rest = "/", strings.TrimLeft(to+"/"+rest, "/")
		}
		var next string
		for next == "" || next == "." {
			if rest == "" {
				return nil
			}
			next, rest, _ = strings.Cut(rest, "/")
			rest = strings.TrimLeft(rest, "/")
		}
		at = filepath.Join(at, next) // at is no link here, so .. is its parent
	}
}

// trustedEntry checks one entry on a path; last is whether the path ends there.
func trustedEntry(info fs.FileInfo, at string, self int, rooted, last bool) error {
	uid := int(info.Sys().(*syscall.Stat_t).Uid)
	if uid != 0 && uid != self && !(!rooted && uid == overflowUID && systemFolder(at)) {
		return fmt.Errorf("%w: it belongs to user %d", ErrUnsafe, uid)
	}
	switch m := info.Mode(); {
	case m&fs.ModeSymlink != 0: // who may change it is a matter of its folder
		return nil
	case m.IsDir():
		if m&fs.ModeSticky != 0 && !last {
			return nil
		}
	case !m.IsRegular():
		return fmt.Errorf("%w: %w", ErrUnsafe, regular(info))
	}
	return private(info)
}

// overflowUID is how files of users appear that a user namespace does not know.
const overflowUID = 65534

// rootMapped reports whether root is known here. In a user namespace without root, as
// sandboxes make them, the system's files appear to belong to the user nobody.
func rootMapped() bool {
	b, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return true // not Linux, or nothing to be told apart
	}
	for line := range strings.Lines(string(b)) {
		var inside, outside, count int64
		if _, err := fmt.Sscan(line, &inside, &outside, &count); err == nil && inside == 0 && count > 0 {
			return true
		}
	}
	return false
}

// systemFolder reports whether a path is one of those whose libraries every program
// opens, so that who can write there needs no help from this one.
func systemFolder(path string) bool {
	if path == "/" {
		return true
	}
	first, _, _ := strings.Cut(path[1:], "/")
	return first == "usr" || first == "etc" || strings.HasPrefix(first, "lib")
}
