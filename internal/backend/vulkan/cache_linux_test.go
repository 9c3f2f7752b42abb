package vulkan

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weft-run/weft/internal/safefile"
)

// A file of pipelines that is no file, somebody else's, or not what was written never
// reaches the driver, is said once, and is gone after.
func TestPipelinesUnsafe(t *testing.T) {
	good := packPipelines([]byte("what a driver gave"))
	flipped := bytes.Clone(good)
	flipped[len(flipped)-1] ^= 1
	bytesOf := func(b []byte) func(string) error {
		return func(path string) error { return os.WriteFile(path, b, 0o600) }
	}
	for _, c := range []struct {
		what string
		make func(string) error
		says string
	}{
		{"pipe", func(path string) error { return syscall.Mkfifo(path, 0o600) }, "is a pipe"},
		{"5 GiB", func(path string) error {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				return err
			}
			return os.Truncate(path, 5<<30)
		}, "too large"},
		{"writable by others", func(path string) error {
			if err := os.WriteFile(path, good, 0o600); err != nil {
				return err
			}
			return os.Chmod(path, 0o622)
		}, "others may write"},
		{"link", func(path string) error { return os.Symlink("/etc/passwd", path) }, "is a link"},
		{"empty", bytesOf(nil), "begin"},
		{"of the driver alone", bytesOf([]byte("what a driver gave")), "begin"},
		{"cut early", bytesOf(good[:len(pipelineMark)+31]), "begin"},
		{"cut late", bytesOf(good[:len(good)-1]), "changed"},
		{"longer", bytesOf(append(bytes.Clone(good), 0)), "changed"},
		{"flipped", bytesOf(flipped), "changed"},
	} {
		t.Run(c.what, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "vulkan-x.pipelines")
			if err := c.make(path); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			log := slog.New(slog.NewTextHandler(&out, nil))
			if b := readPipelines(path, log); b != nil {
				t.Errorf("the driver would be given %q", b)
			}
			if strings.Count(out.String(), "\n") != 1 || !strings.Contains(out.String(), c.says) {
				t.Errorf("logged %q; want one line with %q", out.String(), c.says)
			}
			out.Reset()
			if b := readPipelines(path, log); b != nil || out.Len() > 0 {
				t.Errorf("the second time: %q, logged %q", b, out.String())
			}
			if err := safefile.Write(path, good); err != nil {
				t.Fatal(err)
			}
			if b := readPipelines(path, log); string(b) != "what a driver gave" || out.Len() > 0 {
				t.Errorf("after a write: %q, logged %q", b, out.String())
			}
		})
	}
}
