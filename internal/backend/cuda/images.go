package cuda

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/weft-run/weft/internal/safefile"
)

// images are compiled sources, shared by the devices of one architecture: within a
// process in memory, and with workers and later runs by files of Options.CacheDir.
type images struct {
	mu       sync.Mutex
	by       map[[32]byte]image
	compiled int // by NVRTC, not found in a file
}

// image is a source compiled by NVRTC.
type image struct {
	code []byte // for the driver
	ptx  []byte // the same as PTX, if NVRTC has it
}

// A file of more than maxImage bytes is neither written nor read: kernels take some ten
// KiB. A folder keeps maxImages files, the latest ones, which are 256 MiB at most.
const (
	maxImage  = 4 << 20
	maxImages = 64
)

// imageMark begins the file of an image. After it come the SHA-256 sum of the remaining bytes,
// the length of the code in eight bytes, the code and the PTX.
const imageMark = "weft image 1\n"

// errImage says that a file does not hold what was written to it.
var errImage = errors.New("bad file of an image")

// imageFile is the file of a source and an architecture, which key says, for the versions
// of NVRTC and of the driver that are here; "" if nothing is kept. Where a version is not
// known, what was kept could be another's.
func (d *device) imageFile(key [32]byte) string {
	f := getFrame()
	defer f.free()
	if d.o.CacheDir == "" || d.nvrtc.version == "" || d.api.do(f, &d.api.driverVersion, f.at(0)) != nil {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(key[:], "NVRTC %s, driver %d", d.nvrtc.version, f.i32(0)))
	return filepath.Join(d.o.CacheDir, fmt.Sprintf("cuda-%x.image", sum[:16]))
}

// pack makes the contents of a file.
func (i *image) pack() []byte {
	rest := binary.LittleEndian.AppendUint64(nil, uint64(len(i.code)))
	rest = slices.Concat(rest, i.code, i.ptx)
	sum := sha256.Sum256(rest)
	return slices.Concat([]byte(imageMark), sum[:], rest)
}

// unpackImage returns what pack was given.
func unpackImage(file []byte) (made image, err error) {
	rest, ok := bytes.CutPrefix(file, []byte(imageMark))
	if !ok || len(rest) < sha256.Size+8 {
		return made, fmt.Errorf("%w: it does not begin like one", errImage)
	}
	sum := [sha256.Size]byte(rest)
	if rest = rest[sha256.Size:]; sha256.Sum256(rest) != sum {
		return made, fmt.Errorf("%w: it was cut or changed", errImage)
	}
	n := binary.LittleEndian.Uint64(rest)
	if rest = rest[8:]; n == 0 || n > uint64(len(rest)) {
		return made, fmt.Errorf("%w: %d bytes of code in %d", errImage, n, len(rest))
	}
	made.code = rest[:n:n]
	if made.ptx = rest[n:]; len(made.ptx) == 0 {
		made.ptx = nil
	}
	return made, nil
}

// readImage returns what an earlier run or another worker kept. A file of no use, or one
// that another user could have written, is taken away and compiled anew.
func readImage(path string, log *slog.Logger) (made image, ok bool) {
	file, err := safefile.ReadOwn(path, maxImage)
	if errors.Is(err, fs.ErrNotExist) {
		return made, false
	}
	if err == nil {
		made, err = unpackImage(file)
	}
	if err != nil {
		log.Warn("cache file removed; it will be made again", "file", path, "err", err)
		_ = os.Remove(path) // or replaced, when the image is kept
		return image{}, false
	}
	return made, true
}

// keep writes an image for workers and later runs, and removes the oldest beyond
// maxImages.
func (i *image) keep(path string, log *slog.Logger) {
	file := i.pack()
	if len(i.code) == 0 || len(file) > maxImage {
		return
	}
	if err := safefile.Write(path, file); err != nil {
		log.Warn("compiled kernels are not kept", "file", path, "err", err)
		return
	}
	all, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "cuda-*.image")) // the pattern is well formed, or nothing is removed
	if len(all) <= maxImages {
		return
	}
	age := make(map[string]int64, len(all))
	for _, f := range all {
		if info, err := os.Lstat(f); err == nil {
			age[f] = info.ModTime().UnixNano()
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(age[b], age[a]), cmp.Compare(a, b)) })
	for _, f := range all[maxImages:] {
		_ = os.Remove(f) // another process may have
	}
}
