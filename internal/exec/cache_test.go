//go:build unix

package exec

import (
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What others can put into a cache folder neither hangs the start nor is believed: it is
// said once, taken away, and written anew.
func TestCacheUnsafe(t *testing.T) {
	plant := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		make func(path string) error
		says string
	}{
		"pipe":   {func(path string) error { return syscall.Mkfifo(path, 0o600) }, "is a pipe"},
		"folder": {func(path string) error { return os.Mkdir(path, 0o700) }, "is a directory"},
		"link": {func(path string) error {
			if err := os.WriteFile(path+".else", []byte("{}"), 0o600); err != nil {
				return err
			}
			return os.Symlink(path+".else", path)
		}, "is a link"},
		"5 GiB": {func(path string) error {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				return err
			}
			return os.Truncate(path, 5<<30) // without blocks on disk
		}, "too large"},
		"writable by all": {func(path string) error {
			if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
				return err
			}
			return os.Chmod(path, 0o666)
		}, "others may write to it"},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			k := &cache{dir: t.TempDir(), key: "some devices", log: slog.New(slog.NewTextHandler(&log, nil))}
			plant(c.make(k.path(histories)))
			if b := k.read(histories); b != nil {
				t.Errorf("read %q", b)
			}
			if strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), c.says) {
				t.Errorf("logged %q; want one line with %q", log.String(), c.says)
			}
			log.Reset()
			if b := k.read(histories); b != nil || log.Len() > 0 {
				t.Errorf("the second time: read %q, logged %q", b, log.String())
			}
			k.write(histories, []byte("good"))
			if b := k.read(histories); string(b) != "good" || log.Len() > 0 {
				t.Errorf("after a write: read %q, logged %q", b, log.String())
			}
		})
	}
}

// What processes that were killed while they wrote left behind goes.
func TestCacheLeftovers(t *testing.T) {
	k := &cache{dir: t.TempDir(), key: "some devices", log: slog.New(slog.DiscardHandler)}
	old := time.Now().Add(-24 * time.Hour)
	for _, name := range []string{"history-123.tmp", "history-4.tmp"} {
		path := k.dir + "/" + name
		if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	k.write(histories, []byte("good"))
	if entries, err := os.ReadDir(k.dir); err != nil || len(entries) != 1 {
		t.Errorf("%d files, %v; want 1", len(entries), err)
	}
}
