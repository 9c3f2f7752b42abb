package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/safefile"
	"github.com/weft-run/weft/serve/internal/infer"
)

// Check errs at what a server would refuse before it listens: files that the configuration names, the folders of models
// and of jobs, and devices, which o.Open opens, or weft.Open. It makes and keeps nothing, and models are put on no device.
func Check(ctx context.Context, c Config, o Options) error {
	if _, err := newServer(parts{Config: c, Service: &infer.Service{}}); err != nil {
		return err
	}
	if err := checkState(c.State); err != nil {
		return err
	}
	if _, err := infer.Names(c.Models); err != nil { // before devices are opened, which takes time
		return err
	}
	if o.Open == nil {
		o.Open = weft.Open
	}
	rt, _, err := c.Open(ctx, func(ctx context.Context, r weft.Options) (*weft.Runtime, error) {
		r.Socket, r.CacheDir, r.NoCalibrate, r.Checkpoint = "", "off", true, weft.Checkpoint{}
		return o.Open(ctx, r)
	})
	if err != nil {
		return err
	}
	defer rt.Close()
	return infer.Check(ctx, rt, c.infer(o.Log))
}

// checkState errs if a server could not keep jobs in a folder. It makes nothing: where the folder is not there, it looks
// at the one that it would be made in. Whether a server has the folder now is not looked at.
func checkState(dir string) error {
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
