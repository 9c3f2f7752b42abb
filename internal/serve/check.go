package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weft-run/weft/internal/safefile"
)

// CheckState errs if a server could not keep jobs in a folder. It makes nothing: where the folder is not there, it looks
// at the one that it would be made in. Whether a server has the folder now is not looked at.
func CheckState(dir string) error {
	if dir == "" {
		return nil
	}
	at := filepath.Clean(dir)
	info, err := os.Stat(at)
	for errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at) {
		at = filepath.Dir(at)
		info, err = os.Stat(at)
	}
	switch {
	case err != nil:
		return fmt.Errorf("state: %w", err)
	case !info.IsDir():
		return fmt.Errorf("state: %s is a file, and a folder is needed", at)
	}
	if err := safefile.Trusted(at); err != nil {
		return fmt.Errorf("state: %w; choose a folder that nobody else can write to", err)
	}
	if err := writable(at); err != nil {
		return fmt.Errorf("state: %s: nothing can be written there: %w", at, err)
	}
	return nil
}
