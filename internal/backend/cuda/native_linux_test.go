package cuda

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weft-run/weft/internal/safefile"
)

// Libraries are looked for in system folders, /opt and the caller's own home, and never
// in the home of somebody else.
func TestPlaces(t *testing.T) {
	const home = "/home/a[b]*"
	patterns := places(home)
	for _, p := range patterns {
		if !strings.HasPrefix(p, "/usr/") && !strings.HasPrefix(p, "/opt/") && !strings.HasPrefix(p, `/home/a\[b]\*/.local/`) {
			t.Errorf("%s is looked into", p)
		}
		if _, err := filepath.Match(p, "/"); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
	matches := func(path string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool { ok, _ := filepath.Match(p, path); return ok })
	}
	const packages = "/.local/lib/python3.12/site-packages/nvidia/cublas/lib"
	if !matches(home + packages) {
		t.Error("the caller's own home is not looked into")
	}
	for _, other := range []string{"/home/b", "/root", "/home/a[b]cd"} {
		if matches(other + packages) {
			t.Errorf("%s is looked into", other)
		}
	}
	for _, none := range []string{"", "relative/home"} {
		if got := len(places(none)); got != len(patterns)-1 {
			t.Errorf("home %q: %d places, want %d", none, got, len(patterns)-1)
		}
	}
}

// A library that somebody else could have put where it is found is not opened. The
// loader would say of this one that it is no library.
func TestUnsafeLibrary(t *testing.T) {
	dir := t.TempDir()
	lookIn(t, func() []string { return []string{filepath.Join(dir, "*", "lib")} })
	const name = "libweft-no-such-library.so"
	lib := filepath.Join(dir, "venv", "lib", name)
	if err := os.MkdirAll(filepath.Dir(lib), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(lib, []byte("junk"), 0o644); err != nil {
		t.Fatal(err)
	}
	mode := func(path string, m os.FileMode) func() {
		return func() {
			if err := os.Chmod(path, m); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Root outside of a sandbox may give files to others.
	gives := os.Chown(lib, 12345, -1) == nil && os.Chown(lib, os.Geteuid(), -1) == nil
	owner := func(path string, uid int) func() {
		return func() {
			if gives {
				if err := os.Chown(path, uid, -1); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, c := range []struct {
		what   string
		change func()
		opened bool
	}{
		{"as it should be", func() {}, true},
		{"writable by its group", mode(lib, 0o664), false},
		{"private again", mode(lib, 0o644), true},
		{"in a folder that all may write to", mode(filepath.Dir(lib), 0o777), false},
		{"in a private one", mode(filepath.Dir(lib), 0o755), true},
		{"below a folder that all may write to", mode(filepath.Join(dir, "venv"), 0o777), false},
		{"below a private one", mode(filepath.Join(dir, "venv"), 0o755), true},
		{"of another user", owner(lib, 12345), !gives},
		{"of root again", owner(lib, 0), true},
		{"in another's folder", owner(filepath.Join(dir, "venv"), 12345), !gives},
	} {
		c.change()
		_, err := open(nil, name)
		if !errors.Is(err, errBroken) {
			t.Fatalf("%s: %v; want errBroken", c.what, err)
		}
		if opened := !errors.Is(err, safefile.ErrUnsafe); opened != c.opened {
			t.Errorf("%s: opened %v, want %v: %v", c.what, opened, c.opened, err)
		}
	}
}
