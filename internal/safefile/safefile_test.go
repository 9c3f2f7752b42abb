package safefile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// What was written is read back, by its owner only, and nothing is left beside it.
func TestWriteRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "kind-key.json")
	for _, want := range []string{"first", "second", ""} {
		must(t, Write(path, []byte(want)))
		got, err := ReadOwn(path, 6)
		if err != nil || string(got) != want {
			t.Errorf("read %q, %v; want %q", got, err, want)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("%d files, %v; want 1", len(entries), err)
	}
	if info, err := os.Stat(path); runtime.GOOS != "windows" && (err != nil || info.Mode().Perm() != 0o600) {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
}

// A write that cannot end leaves what was there, and no temporary.
func TestWriteFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "kind-key") // a folder that is not empty cannot be replaced
	must(t, os.MkdirAll(filepath.Join(path, "inner"), 0o700))
	if err := Write(path, []byte("x")); err == nil {
		t.Error("a folder was replaced by a file")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%d entries, %v; want 1", len(entries), err)
	}
}

// A file is read up to its limit and refused beyond it, before memory is taken.
func TestLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(path, bytes.Repeat([]byte("x"), 100), 0o600))
	for name, read := range map[string]func(string, int64) ([]byte, error){"own": ReadOwn, "named": ReadNamed, "input": ReadInput} {
		if b, err := read(path, 100); err != nil || len(b) != 100 {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
		if _, err := read(path, 99); !errors.Is(err, ErrSize) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v; want ErrSize with the path", name, err)
		}
		must(t, os.Truncate(path, 5<<30)) // a sparse file: nobody has room for it here
		if _, err := read(path, 100); !errors.Is(err, ErrSize) {
			t.Errorf("%s: 5 GiB: %v; want ErrSize", name, err)
		}
		must(t, os.Truncate(path, 100))
		if _, err := read(path+"-gone", 99); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: missing file: %v", name, err)
		}
		if _, err := read(filepath.Dir(path), 99); err == nil || !strings.HasSuffix(err.Error(), "is a directory") {
			t.Errorf("%s: folder: %v", name, err)
		}
	}
}

// Temporaries of killed processes go with the next write; fresh ones and files of other
// names stay.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-2 * staleAfter)
	for name, at := range map[string]time.Time{
		"kind-123.tmp": old, "kind-9.tmp": old, "kind-7.tmp": time.Now(), "kind-.tmp": old, "kind-x1.tmp": old,
		"other-1.tmp": old, "kind-1.json": old, "kind-12.tmp.json": old,
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		must(t, os.Chtimes(filepath.Join(dir, name), at, at))
	}
	must(t, Write(filepath.Join(dir, "kind-1.json"), []byte("x")))
	entries, err := os.ReadDir(dir)
	must(t, err)
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if got, want := strings.Join(left, " "), "kind-.tmp kind-1.json kind-12.tmp.json kind-7.tmp kind-x1.tmp other-1.tmp"; got != want {
		t.Errorf("left %s\nwant %s", got, want)
	}
}

// The folder of every folder that is made goes to the disk, the outermost first, and none where
// nothing is made.
func TestMakeFolder(t *testing.T) {
	dir := t.TempDir()
	deep := filepath.Join(dir, "a", "b", "c")
	var synced []string
	sync := func(dir string) error {
		synced = append(synced, dir)
		return nil
	}
	if err := makeFolder(deep+"/", sync); err != nil {
		t.Fatal(err)
	}
	if want := []string{dir, filepath.Join(dir, "a"), filepath.Join(dir, "a", "b")}; !slices.Equal(synced, want) {
		t.Errorf("%q, want %q", synced, want)
	}
	if info, err := os.Stat(deep); err != nil || info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		t.Errorf("%v, %v", info, err)
	}
	synced = nil
	if err := makeFolder(deep, sync); err != nil || len(synced) > 0 {
		t.Errorf("%q, %v", synced, err)
	}
	t.Chdir(dir)
	if err := makeFolder("x", sync); err != nil || !slices.Equal(synced, []string{"."}) {
		t.Errorf("%q, %v", synced, err)
	}
	if err := makeFolder("y", func(string) error { return fs.ErrPermission }); err != nil {
		t.Errorf("a folder that may not be read: %v", err)
	}
	full := errors.New("input/output error")
	if err := makeFolder("z", func(string) error { return full }); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile("file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := MakeFolder("file/w"); err == nil {
		t.Error("a folder was made in a file")
	}
	if err := MakeFolder("u/v"); err != nil {
		t.Error(err)
	}
}
