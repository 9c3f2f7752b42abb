package vulkan

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/safefile"
)

// The loader's places are known as it documents them.
func TestManifests(t *testing.T) {
	for _, c := range []struct {
		env   map[string]string
		named bool
		want  string
	}{
		{map[string]string{"VK_DRIVER_FILES": "/a.json:/b", "VK_ICD_FILENAMES": "/c.json", "VK_IMPLICIT_LAYER_PATH": "/i"}, false, "/a.json /b /i"},
		{map[string]string{"VK_ICD_FILENAMES": "/c.json", "VK_IMPLICIT_LAYER_PATH": "/i", "VK_LAYER_PATH": "/l"}, false, "/c.json /i"},
		{map[string]string{"VK_ICD_FILENAMES": "/c.json", "VK_IMPLICIT_LAYER_PATH": "/i", "VK_LAYER_PATH": "/l"}, true, "/c.json /i /l"},
		{map[string]string{"VK_ICD_FILENAMES": "/c.json", "VK_IMPLICIT_LAYER_PATH": "/i", "VK_LAYER_PATH": "/l", "VK_INSTANCE_LAYERS": "x"}, false, "/c.json /i /l"},
		{map[string]string{"HOME": "/h", "VK_ADD_DRIVER_FILES": "/more", "VK_IMPLICIT_LAYER_PATH": "/i"}, false,
			"/more /h/.config/vulkan/icd.d /etc/xdg/vulkan/icd.d /usr/local/etc/vulkan/icd.d /etc/vulkan/icd.d " +
				"/h/.local/share/vulkan/icd.d /usr/local/share/vulkan/icd.d /usr/share/vulkan/icd.d /i"},
		{map[string]string{"XDG_CONFIG_HOME": "/ch", "XDG_CONFIG_DIRS": "/c1:/c2", "XDG_DATA_HOME": "/dh", "XDG_DATA_DIRS": "/d1:relative", "VK_DRIVER_FILES": "/a"}, false,
			"/a /ch/vulkan/implicit_layer.d /c1/vulkan/implicit_layer.d /c2/vulkan/implicit_layer.d /usr/local/etc/vulkan/implicit_layer.d " +
				"/etc/vulkan/implicit_layer.d /dh/vulkan/implicit_layer.d /d1/vulkan/implicit_layer.d"},
	} {
		got := strings.Join(manifests(func(k string) string { return c.env[k] }, c.named), " ")
		if got != c.want {
			t.Errorf("%v: %s\nwant %s", c.env, got, c.want)
		}
	}
}

// Vulkan is not used while somebody else could have written a manifest, or a library it
// names: the loader would run that.
func TestUnsafeManifest(t *testing.T) {
	home := t.TempDir()
	// XDG folders are set, so that the machine's own do not matter here.
	env := func(k string) string {
		switch k {
		case "HOME":
			return home
		case "XDG_CONFIG_DIRS", "XDG_DATA_DIRS", "VK_IMPLICIT_LAYER_PATH":
			return filepath.Join(home, "nowhere")
		}
		return ""
	}
	folder := filepath.Join(home, ".local/share/vulkan/icd.d")
	lib, manifest := filepath.Join(home, "lib", "driver.so"), filepath.Join(folder, "d.json")
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(os.MkdirAll(folder, 0o755))
	do(os.MkdirAll(filepath.Dir(lib), 0o755))
	do(os.WriteFile(lib, nil, 0o644))
	write := func(text string) func() { return func() { do(os.WriteFile(manifest, []byte(text), 0o644)) } }
	mode := func(path string, m os.FileMode) func() { return func() { do(os.Chmod(path, m)) } }
	const icd = `{"ICD": {"library_path": "../../../../lib/driver.so"}}`
	for _, c := range []struct {
		what   string
		change func()
		safe   bool
	}{
		{"no manifest", func() {}, true},
		{"one for a library of the system", write(`{"ICD": {"library_path": "libvulkan_x.so"}}`), true},
		{"one for a library that is not there", write(`{"ICD": {"library_path": "/nowhere/x.so"}}`), true},
		{"no JSON", write("junk"), true},
		{"one for a library of the caller", write(icd), true},
		{"a library others may write to", mode(lib, 0o666), false},
		{"the same in a layer", write(`{"layer": {"library_path": "` + lib + `"}}`), false},
		{"the same in a list of layers", write(`{"layers": [{}, {"library_path": "` + lib + `"}]}`), false},
		{"private again", mode(lib, 0o644), true},
		{"in a folder others may write to", mode(filepath.Dir(lib), 0o777), false},
		{"in a private one", mode(filepath.Dir(lib), 0o755), true},
		{"a manifest others may write to", mode(manifest, 0o664), false},
		{"a private one", mode(manifest, 0o644), true},
		{"manifests in a folder others may write to", mode(folder, 0o777), false},
		{"in a private one", mode(folder, 0o755), true},
		{"a pipe", func() { do(syscall.Mkfifo(filepath.Join(folder, "pipe.json"), 0o600)) }, false},
		{"not called like a manifest", func() { do(os.Rename(filepath.Join(folder, "pipe.json"), filepath.Join(folder, "pipe"))) }, true},
	} {
		c.change()
		err := checkManifests(env, false)
		if safe := err == nil; safe != c.safe {
			t.Errorf("%s: %v; want safe %v", c.what, err, c.safe)
		}
		if err != nil && (!errors.Is(err, safefile.ErrUnsafe) || !errors.Is(err, driver.ErrUnavailable) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	if os.Chown(lib, 12345, -1) == nil { // root outside of a sandbox may
		if err := checkManifests(env, false); !errors.Is(err, safefile.ErrUnsafe) {
			t.Errorf("another's library: %v", err)
		}
	}
}
