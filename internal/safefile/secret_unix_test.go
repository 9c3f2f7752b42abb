//go:build unix

package safefile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A secret is read only if no other user can.
func TestSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := path + ".link"
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, link} {
		if b, err := ReadSecret(p, 10); err != nil || string(b) != "x" {
			t.Errorf("%s: %q, %v", p, b, err)
		}
	}
	for _, mode := range []os.FileMode{0o604, 0o640, 0o660, 0o602, 0o644} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadSecret(path, 10); !errors.Is(err, ErrUnsafe) {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	if _, err := ReadSecret(filepath.Dir(path), 10); !errors.Is(err, ErrKind) {
		t.Errorf("a folder: %v", err)
	}
}
