package safefile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// CacheFolder makes the folder of a program in the user's cache directory, for this user alone, and returns
// its name. It makes no home directory: a user whose home is not there, such as that of a daemon, has no
// files in it, and a mistyped HOME must not become a folder.
func CacheFolder(program string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	if home, err := os.UserHomeDir(); err == nil {
		if below, err := filepath.Rel(home, cache); err == nil && below != ".." && !strings.HasPrefix(below, ".."+string(filepath.Separator)) {
			if _, err := os.Stat(home); err != nil {
				return "", fmt.Errorf("the home directory: %w", err)
			}
		}
	}
	dir := filepath.Join(cache, program)
	return dir, os.MkdirAll(dir, 0o700)
}
