package disk

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/weft-run/weft/internal/checkpoint"
	"github.com/weft-run/weft/internal/safefile"
)

// folders are where the tests write: a temporary folder and, where there is one, a folder in
// memory, which may not let files be written past the page cache.
func folders(t *testing.T) (out []string) {
	out = []string{t.TempDir()}
	if dir, err := os.MkdirTemp("/dev/shm", "weft-test-"); err == nil {
		t.Cleanup(func() { os.RemoveAll(dir) })
		out = append(out, dir)
	}
	return out
}

// What a store writes is read back, from memory that is aligned and from memory that is not.
func TestFolder(t *testing.T) {
	for _, dir := range folders(t) {
		f, err := Open(filepath.Join(dir, "a"), "b", true)
		if err != nil {
			t.Fatal(err)
		}
		for _, shift := range []int64{0, 1, 512} {
			const size = 3*checkpoint.BlockBytes + 123
			mem := Aligned(size + shift)[shift:]
			r := rand.New(rand.NewPCG(1, uint64(shift)))
			for i := range mem {
				mem[i] = byte(r.Uint32())
			}
			n := checkpoint.NumBlocks(size)
			src := checkpoint.Source{Name: "x", Mem: mem, Live: slices.Repeat([]bool{true}, n), Dirty: slices.Repeat([]bool{true}, n)}
			s, err := checkpoint.Open(f, "folder")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Write(checkpoint.Meta{Name: "n"}, []checkpoint.Source{src}); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, size)
			if _, _, err := s.Restore(func(*checkpoint.Manifest) (func(*checkpoint.Data) []byte, error) {
				return func(*checkpoint.Data) []byte { return got }, nil
			}); err != nil || !bytes.Equal(got, mem) {
				t.Errorf("%s, shifted by %d: %v", dir, shift, err)
			}
		}
		if names, err := f.List(); err != nil || len(names) != 2 { // of the last one, which began anew
			t.Errorf("%q, %v", names, err)
		}
		if _, err := f.Create("../../c", 0); err == nil {
			t.Error("a file was made outside of the folder")
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A link is not followed, wherever it leads, and neither is a name that leads elsewhere.
func TestLink(t *testing.T) {
	dir, other := filepath.Join(t.TempDir(), "dir"), t.TempDir()
	f, err := Open(dir, "real", true)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	for name, to := range map[string]string{"out": other, "in": "real", "nowhere": "gone"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Skip(err)
		}
		for _, create := range []bool{false, true} {
			if _, err := Open(dir, name, create); !errors.Is(err, ErrLink) {
				t.Errorf("a link to %s: %v", to, err)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, "file", true); !errors.Is(err, ErrLink) {
		t.Errorf("a file: %v", err)
	}
	if _, err := Open(dir, "../dir/real", true); err == nil {
		t.Error("a folder was opened by a name that leads outside")
	}
	link := filepath.Join(other, "link") // the folder that the user names may be a link
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if f, err = Open(link, "real", false); err != nil {
		t.Fatal(err)
	}
	f.Close()
}

// A file that there is no room for is not made.
func TestNoRoom(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("room is reserved on Linux only")
	}
	for _, dir := range folders(t) {
		f, err := Open(dir, "f", true)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Create("data", 1<<52); err == nil {
			t.Error("4 PiB were reserved")
		}
		if names, err := f.List(); err != nil || len(names) != 0 {
			t.Errorf("%q is left, %v", names, err)
		}
		f.Close()
	}
}

// Of two who lock a folder one is refused, until the other gives it back.
func TestLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x")
	if _, err := Lock(dir, false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
	unlock, err := Lock(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(dir, true); !errors.Is(err, safefile.ErrLocked) {
		t.Errorf("a second lock: %v", err)
	}
	unlock()
	if unlock, err = Lock(dir, true); err != nil {
		t.Fatal(err)
	}
	unlock()
}
