//go:build unix

package weft

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A configuration file that is no file is one clear line, and nothing is waited for.
func TestConfigUnusual(t *testing.T) {
	dir := t.TempDir()
	pipe, huge := filepath.Join(dir, "pipe"), filepath.Join(dir, "huge")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(huge, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(huge, 5<<30); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		pipe: "is a pipe; give a regular file", huge: "too large: 5368709120 bytes, and 1048576 are the most",
		dir: "is a directory", "/dev/zero": "is a device; give a regular file",
	} {
		_, err := LoadOptions(path)
		if !errors.Is(err, ErrOptions) || !strings.HasSuffix(err.Error(), path+": "+want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want %q at the end", path, err, want)
		}
	}
}
