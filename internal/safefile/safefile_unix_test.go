//go:build unix

package safefile

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// givesAway reports whether this process may give files to others: root outside of a
// sandbox may.
func givesAway(t *testing.T) bool {
	file := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(file, nil, 0o600))
	return os.Chown(file, 12345, -1) == nil && os.Chown(file, 54321, -1) == nil
}

// A pipe in the place of a file is refused at once: opening one waits for a writer
// else, for ever.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	must(t, syscall.Mkfifo(path, 0o600))
	for name, read := range map[string]func(string, int64) ([]byte, error){"own": ReadOwn, "named": ReadNamed} {
		if _, err := read(path, 10); !errors.Is(err, ErrKind) || !strings.Contains(err.Error(), path+": is a pipe") {
			t.Errorf("%s: %v; want ErrKind", name, err)
		}
	}
	if b, err := ReadInput(path, 10); err != nil || len(b) != 0 {
		t.Errorf("a pipe without a writer: %q, %v; want nothing", b, err)
	}
}

// The input of a command may come through a pipe, and ends with its writer.
func TestInputPipe(t *testing.T) {
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	if _, err := os.Stat("/dev/fd"); err != nil {
		t.Skip("no /dev/fd here")
	}
	go func() {
		_, _ = w.WriteString("hello")
		_ = w.Close()
	}()
	b, err := ReadInput("/dev/fd/"+strconv.Itoa(int(r.Fd())), 10)
	if err != nil || string(b) != "hello" {
		t.Errorf("read %q, %v", b, err)
	}
	if _, err := ReadInput("/dev/zero", 1000); !errors.Is(err, ErrSize) {
		t.Errorf("/dev/zero: %v; want ErrSize", err)
	}
}

// A cache file must be this user's, written by nobody else, and no link.
func TestOwn(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	must(t, os.WriteFile(path, []byte("x"), 0o600))
	for _, m := range []fs.FileMode{0o600, 0o644, 0o400} {
		must(t, os.Chmod(path, m))
		if _, err := ReadOwn(path, 10); err != nil {
			t.Errorf("mode %v: %v", m, err)
		}
	}
	for _, m := range []fs.FileMode{0o620, 0o602, 0o666} {
		must(t, os.Chmod(path, m))
		if _, err := ReadOwn(path, 10); !errors.Is(err, ErrUnsafe) {
			t.Errorf("mode %v: %v; want ErrUnsafe", m, err)
		}
		if _, err := ReadNamed(path, 10); err != nil {
			t.Errorf("a file the user named, mode %v: %v", m, err)
		}
	}
	must(t, os.Chmod(path, 0o600))
	link := filepath.Join(dir, "link")
	must(t, os.Symlink(path, link))
	if _, err := ReadOwn(link, 10); !errors.Is(err, ErrKind) {
		t.Errorf("link: %v; want ErrKind", err)
	}
	if b, err := ReadNamed(link, 10); err != nil || string(b) != "x" {
		t.Errorf("a link the user named: %q, %v", b, err)
	}
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	must(t, err)
	defer l.Close()
	if _, err := ReadOwn(socket, 10); err == nil {
		t.Error("a socket was read")
	}
	if givesAway(t) {
		must(t, os.Chown(path, 12345, -1))
		if _, err := ReadOwn(path, 10); !errors.Is(err, ErrUnsafe) {
			t.Errorf("another's file: %v; want ErrUnsafe", err)
		}
	}
}

// Temporaries of others, and links called like temporaries, are not removed.
func TestSweepOthers(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-2 * staleAfter)
	must(t, os.Symlink("nowhere", filepath.Join(dir, "kind-1.tmp")))
	must(t, syscall.Mkfifo(filepath.Join(dir, "kind-2.tmp"), 0o600))
	must(t, os.Chtimes(filepath.Join(dir, "kind-2.tmp"), old, old))
	want := 3
	if givesAway(t) {
		file := filepath.Join(dir, "kind-3.tmp")
		must(t, os.WriteFile(file, nil, 0o600))
		must(t, os.Chown(file, 12345, -1))
		must(t, os.Chtimes(file, old, old))
		want++
	}
	must(t, Write(filepath.Join(dir, "kind-4.json"), nil))
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != want {
		t.Errorf("%d entries, %v; want %d", len(entries), err, want)
	}
}

// A file is trusted if root and this user alone could have put it there, judged over
// every folder and link on the way.
func TestTrusted(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	in := func(parts ...string) string { return filepath.Join(append([]string{top}, parts...)...) }
	must(t, os.MkdirAll(in("good", "lib"), 0o755))
	must(t, os.MkdirAll(in("open", "lib"), 0o755))
	must(t, os.MkdirAll(in("sticky", "lib"), 0o755))
	for _, d := range []string{"good", "open", "sticky"} {
		must(t, os.WriteFile(in(d, "lib", "l.so"), nil, 0o644))
	}
	must(t, os.WriteFile(in("good", "w.so"), nil, 0o644))
	must(t, os.Chmod(in("good", "w.so"), 0o664))
	must(t, os.Chmod(in("open"), 0o777))
	must(t, os.Chmod(in("sticky"), 0o777|fs.ModeSticky))
	must(t, os.Symlink(in("good"), in("absolute")))
	must(t, os.Symlink("../good/lib/l.so", in("good", "relative")))
	must(t, os.Symlink("absolute/../good/./lib//l.so", in("up")))
	must(t, os.Symlink("open/lib", in("astray")))
	must(t, os.MkdirAll(in("open", "good", "lib"), 0o755))
	must(t, os.WriteFile(in("open", "good", "lib", "l.so"), nil, 0o644))
	must(t, os.Symlink("loop", in("loop")))
	must(t, syscall.Mkfifo(in("good", "pipe"), 0o600))
	for _, c := range []struct {
		path string
		want error
	}{
		{"good/lib/l.so", nil}, {"good/lib", nil}, {"absolute/lib/l.so", nil}, {"good/relative", nil}, {"up", nil},
		{"sticky/lib/l.so", nil},
		{"sticky", ErrUnsafe}, {"open/lib/l.so", ErrUnsafe}, {"open", ErrUnsafe}, {"good/w.so", ErrUnsafe},
		{"astray/l.so", ErrUnsafe}, {"astray/../good/lib/l.so", ErrUnsafe}, {"good/../good/lib/l.so", nil}, {"loop", ErrUnsafe}, {"good/pipe", ErrUnsafe}, {"good/gone", fs.ErrNotExist},
	} {
		if err := Trusted(top + "/" + c.path); !errors.Is(err, c.want) {
			t.Errorf("%s: %v; want %v", c.path, err, c.want)
		}
	}
	// To somebody else, what this user owns is not to be trusted.
	if self := os.Geteuid(); !givesAway(t) {
		if self == 0 {
			return
		}
		if err := trusted(in("good", "lib", "l.so"), self+1, true); !errors.Is(err, ErrUnsafe) {
			t.Errorf("to another user: %v; want ErrUnsafe", err)
		}
		return
	}
	must(t, os.Chown(in("good"), 12345, -1))
	for path, want := range map[string]error{"good/lib/l.so": ErrUnsafe, "absolute/lib/l.so": ErrUnsafe, "sticky/lib/l.so": nil} {
		if err := trusted(in(path), 0, true); !errors.Is(err, want) {
			t.Errorf("%s to root: %v; want %v", path, err, want)
		}
	}
	if err := trusted(in("good", "lib", "l.so"), 12345, true); err != nil {
		t.Errorf("to its owner: %v", err)
	}
	must(t, os.Lchown(in("absolute"), 54321, -1))
	if err := trusted(in("absolute", "lib", "l.so"), 12345, true); !errors.Is(err, ErrUnsafe) {
		t.Errorf("over another's link: %v; want ErrUnsafe", err)
	}
}

// In a sandbox that does not know root, the system's own folders are trusted although
// they appear to be nobody's, and nobody's other files are not.
func TestTrustedSandbox(t *testing.T) {
	info := entry{fs.ModeDir | 0o755, overflowUID}
	for _, c := range []struct {
		at     string
		rooted bool
		want   error
	}{
		{"/", false, nil}, {"/usr/lib", false, nil}, {"/lib64", false, nil}, {"/etc/vulkan", false, nil},
		{"/usr/lib", true, ErrUnsafe}, {"/opt", false, ErrUnsafe}, {"/home/x", false, ErrUnsafe}, {"/user", false, ErrUnsafe},
	} {
		if err := trustedEntry(info, c.at, 1000, c.rooted, true); !errors.Is(err, c.want) {
			t.Errorf("%s, root known %v: %v; want %v", c.at, c.rooted, err, c.want)
		}
	}
}

// entry is a file that is nowhere.
type entry struct {
	mode fs.FileMode
	uid  uint32
}

func (e entry) Name() string       { return "" }
func (e entry) Size() int64        { return 0 }
func (e entry) Mode() fs.FileMode  { return e.mode }
func (e entry) ModTime() time.Time { return time.Time{} }
func (e entry) IsDir() bool        { return e.mode.IsDir() }
func (e entry) Sys() any           { return &syscall.Stat_t{Uid: e.uid} }

// Files below a folder are opened by paths that stay there and lead over no link; nothing
// else is opened or waited for.
func TestOpenWithin(t *testing.T) {
	top := t.TempDir()
	in := func(parts ...string) string { return filepath.Join(append([]string{top}, parts...)...) }
	must(t, os.MkdirAll(in("m", "sub"), 0o755))
	must(t, os.WriteFile(in("secret"), []byte("secret"), 0o600))
	must(t, os.WriteFile(in("m", "a"), []byte("a"), 0o600))
	must(t, os.WriteFile(in("m", "sub", "b"), []byte("b"), 0o600))
	must(t, os.Symlink("../secret", in("m", "out")))
	must(t, os.Symlink("a", in("m", "inside")))
	must(t, os.Symlink("sub", in("m", "folder")))
	must(t, os.Symlink("..", in("m", "up")))
	must(t, syscall.Mkfifo(in("m", "pipe"), 0o600))
	must(t, os.Symlink("m", in("link")))
	for _, dir := range []string{in("m"), in("link")} { // the folder is the user's choice
		for name, want := range map[string]string{
			"a": "a", "sub/b": "b",
			"out": "is a link", "inside": "is a link", "folder/b": "is a link", "up/secret": "is a link",
			"pipe": "is a pipe", "sub": "is a directory", "a/b": "not a directory", "gone": "no such file", "sub/gone": "no such file",
			"../secret": "no path below", "sub/../a": "no path below", "./a": "no path below", ".": "no path below", "": "no path below",
			in("secret"): "no path below", "a/": "no path below", "sub//b": "no path below", "a\x00": "no path below",
		} {
			f, err := OpenWithin(dir, name)
			if err != nil {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q: %v; want %q", name, err, want)
				}
				continue
			}
			b := make([]byte, 10)
			n, _ := f.Read(b)
			if string(b[:n]) != want {
				t.Errorf("%q was opened and has %q; want %q", name, b[:n], want)
			}
			f.Close()
		}
	}
	if _, err := OpenWithin(in("nowhere"), "a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
}

// What is locked stays so for others until it is closed, and no link is followed.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f, err := Lock(path)
	must(t, err)
	if _, err := Lock(path); !errors.Is(err, ErrLocked) {
		t.Errorf("locked twice: %v", err)
	}
	must(t, f.Close())
	f, err = Lock(path)
	must(t, err)
	must(t, f.Close())
	must(t, os.Symlink(path, path+"2"))
	if f, err := Lock(path + "2"); err == nil {
		f.Close()
		t.Error("a link was followed")
	}
}

// A durable file is as a file that is written, with nothing beside it.
func TestWriteDurable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	must(t, os.Mkdir(dir, 0o700))
	root, err := os.OpenRoot(dir)
	must(t, err)
	defer root.Close()
	path := filepath.Join(dir, "job-1")
	for _, text := range []string{"one", "three"} {
		must(t, WriteDurable(root, "job-1", []byte(text)))
		if b, err := ReadOwn(path, 5); err != nil || string(b) != text {
			t.Errorf("%q, %v", b, err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
	// A folder that has moved is written where it is, and one that has gone is not made again.
	must(t, os.Rename(dir, dir+"2"))
	must(t, WriteDurable(root, "job-2", nil))
	if _, err := os.Stat(filepath.Join(dir+"2", "job-2")); err != nil {
		t.Error(err)
	}
	must(t, os.RemoveAll(dir+"2"))
	if err := WriteDurable(root, "job-3", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("into a folder that has gone: %v", err)
	}
	if entries, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
}
