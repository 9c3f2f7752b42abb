//go:build !gpu && (stub || cgo)

package cuda

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
)

// cuSource is a kernel in CUDA C that adds a number to what it is given.
func cuSource(add int) *graph.Kernel {
	src := fmt.Appendf(nil, `// no PTX: the stand-in leaves it to the driver to tell the parameters.
extern "C" __global__ void add_one(unsigned *x, unsigned n) { /* %d */
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n) x[i] += 1;
}`, add)
	return &graph.Kernel{Name: "source", Impls: []graph.Impl{{Dialect: graph.CUDAC, Entry: "add_one", Source: src, Per: [3]uint32{64}, Block: [3]uint32{64}}}}
}

// compiles runs a kernel on devices opened anew, as another process would, and returns
// how many sources NVRTC compiled for it and what was logged.
func compiles(t *testing.T, dir string, k *graph.Kernel) (int, string) {
	t.Helper()
	var log bytes.Buffer
	devs, err := New(Options{CacheDir: dir, LibraryPath: libraryPath(t), Devices: []int{0}}).Open(context.Background(), slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	d := devs[0].(*device)
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := d.within(func(*frame) error { _, err := d.module(&k.Impls[0]); return err }); err != nil {
		t.Fatal(err)
	}
	return d.images.compiled, log.String()
}

// A source is compiled once for all processes. A file that is not what was written, or
// that another could have written, is never used: it is compiled anew and replaced.
func TestImagesKept(t *testing.T) {
	dir := t.TempDir()
	k := cuSource(1)
	if n, log := compiles(t, "", k); n != 1 || log != "" {
		t.Errorf("without a folder: compiled %d times\n%s", n, log)
	}
	for i, want := range []int{1, 0, 0} {
		if n, log := compiles(t, dir, k); n != want || log != "" {
			t.Fatalf("process %d compiled %d sources, want %d\n%s", i, n, want, log)
		}
	}
	if n, _ := compiles(t, dir, cuSource(2)); n != 1 {
		t.Error("another source was taken for the same")
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(files) != 2 {
		t.Fatalf("%q, want a file for each source", files)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v", f, info.Mode(), err)
		}
	}
	for name, spoil := range map[string]func(file string, was []byte) error{
		"empty":   func(f string, _ []byte) error { return os.WriteFile(f, nil, 0o600) },
		"cut":     func(f string, was []byte) error { return os.WriteFile(f, was[:len(was)-1], 0o600) },
		"changed": func(f string, was []byte) error { was[len(was)/2] ^= 1; return os.WriteFile(f, was, 0o600) },
		"huge":    func(f string, _ []byte) error { return os.Truncate(f, maxImage+1) },
		"others may write to it": func(f string, _ []byte) error {
			return os.Chmod(f, 0o666)
		},
		"a link": func(f string, was []byte) error {
			to := filepath.Join(t.TempDir(), "elsewhere")
			return errors.Join(os.Remove(f), os.WriteFile(to, was, 0o600), os.Symlink(to, f))
		},
		"a directory": func(f string, _ []byte) error { return errors.Join(os.Remove(f), os.Mkdir(f, 0o700)) },
	} {
		for _, f := range files {
			was, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if err := spoil(f, was); err != nil {
				t.Fatal(err)
			}
		}
		n, log := compiles(t, dir, k)
		if n != 1 || !strings.Contains(log, "cache file removed") {
			t.Errorf("%s: compiled %d times, logged %q", name, n, log)
		}
		if n, log := compiles(t, dir, k); n != 0 || log != "" {
			t.Errorf("%s: compiled %d times after it was replaced, logged %q", name, n, log)
		}
		compiles(t, dir, cuSource(2))
	}
}

// What is compiled for another architecture, or by another version, has another file.
func TestImageFile(t *testing.T) {
	r := openRig(t, Options{CacheDir: t.TempDir()})
	d := r.dev.(*device)
	if err := d.nvrtc.open(d.o.LibraryPath); err != nil {
		t.Fatal(err)
	}
	one := d.imageFile([32]byte{1})
	if d.nvrtc.version != "13.0" || one != d.imageFile([32]byte{1}) || one == d.imageFile([32]byte{2}) {
		t.Errorf("NVRTC %q: %s", d.nvrtc.version, one)
	}
	d.nvrtc.version = "13.1"
	if d.imageFile([32]byte{1}) == one {
		t.Error("another version of NVRTC has the same file")
	}
	d.nvrtc.version = ""
	if file := d.imageFile([32]byte{1}); file != "" {
		t.Errorf("a file without a version: %s", file)
	}
}

// An NVRTC that does not tell its version compiles all the same, and nothing is kept.
func TestImagesWithoutVersion(t *testing.T) {
	lib, err := open(libraryPath(t), nvrtcNames...)
	if err != nil {
		t.Fatal(err)
	}
	nameless := lib.bind("stubNVRTCNameless")
	f := getFrame()
	defer f.free()
	f.call(&nameless, 1)
	defer f.call(&nameless, 0)
	dir := t.TempDir()
	for range 2 {
		if n, log := compiles(t, dir, cuSource(1)); n != 1 || log != "" {
			t.Errorf("compiled %d times\n%s", n, log)
		}
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) > 0 {
		t.Errorf("kept %q", files)
	}
}

// A folder keeps the latest images, and nothing else is removed.
func TestImagesPruned(t *testing.T) {
	dir := t.TempDir()
	log := slog.New(slog.NewTextHandler(failing{t}, nil))
	made := image{code: []byte("code")}
	others := []string{"vulkan-1.pipelines", "calibrations-1.json"}
	for _, name := range others {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	name := func(i int) string { return filepath.Join(dir, fmt.Sprintf("cuda-%03d.image", i)) }
	for i := range maxImages + 5 {
		made.keep(name(i), log)
		at := time.Unix(int64(1e9+i), 0)
		if err := os.Chtimes(name(i), at, at); err != nil {
			t.Fatal(err)
		}
	}
	left, _ := filepath.Glob(filepath.Join(dir, "*"))
	var want []string
	for i := 5; i < maxImages+5; i++ {
		want = append(want, name(i))
	}
	for _, o := range others {
		want = append(want, filepath.Join(dir, o))
	}
	slices.Sort(want)
	if !slices.Equal(left, want) {
		t.Errorf("left %q\nwant %q", left, want)
	}
	large := image{code: make([]byte, maxImage)}
	large.keep(name(999), log)
	if _, err := os.Stat(name(999)); err == nil {
		t.Error("an image above the limit was kept")
	}
}

func FuzzUnpackImage(f *testing.F) {
	for _, i := range []image{{code: []byte("code")}, {[]byte("c"), []byte("ptx")}} {
		f.Add(i.pack())
	}
	f.Add([]byte(imageMark))
	f.Fuzz(func(t *testing.T, file []byte) {
		made, err := unpackImage(file)
		if err != nil {
			if !errors.Is(err, errImage) {
				t.Fatal(err)
			}
			return
		}
		if !bytes.Equal(made.pack(), file) {
			t.Fatalf("%q is read as %+v and written otherwise", file, made)
		}
	})
}

// What a source includes may change while the source does not: it is compiled each time.
func TestImagesThatInclude(t *testing.T) {
	dir, k := t.TempDir(), cuSource(1)
	k.Impls[0].Source = append([]byte("#include \"scale.cuh\"\n"), k.Impls[0].Source...)
	for range 2 {
		if n, _ := compiles(t, dir, k); n != 1 {
			t.Errorf("compiled %d times, want once for each program", n)
		}
	}
}
