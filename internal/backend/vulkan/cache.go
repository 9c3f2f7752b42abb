package vulkan

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"unsafe"

	"github.com/weft-run/weft/internal/safefile"
)

// cacheFile returns the file of compiled pipelines, one for all devices of a model.
// Drivers check themselves that its content is theirs and of their version.
func (d *device) cacheFile() string {
	key := sha256.Sum256([]byte(d.info.Model + "\n" + d.info.Driver))
	return filepath.Join(d.o.CacheDir, fmt.Sprintf("vulkan-%x.pipelines", key[:8]))
}

// maxPipelines is the most a file of pipelines may have. Those of all workloads take
// less than 4 MiB.
const maxPipelines = 64 << 20

// pipelineMark begins a file of pipelines. The SHA-256 sum of the rest follows.
const pipelineMark = "weft pipelines 1\n"

// errPipelines says that a file does not hold what was written to it.
var errPipelines = errors.New("bad file of pipelines")

// packPipelines makes the contents of a file of what a driver gave. Drivers are not made
// for data that was cut or changed: some hang on it or crash, at every start.
func packPipelines(data []byte) []byte {
	sum := sha256.Sum256(data)
	return slices.Concat([]byte(pipelineMark), sum[:], data)
}

// unpackPipelines returns what packPipelines was given.
func unpackPipelines(file []byte) ([]byte, error) {
	rest, ok := bytes.CutPrefix(file, []byte(pipelineMark))
	if !ok || len(rest) < sha256.Size {
		return nil, fmt.Errorf("%w: it does not begin like one", errPipelines)
	}
	data := rest[sha256.Size:]
	if sha256.Sum256(data) != [sha256.Size]byte(rest[:sha256.Size]) {
		return nil, fmt.Errorf("%w: it was cut or changed", errPipelines)
	}
	return data, nil
}

// readPipelines returns what an earlier run kept, nil where there is nothing. A file of
// no use is taken away, so that it is in the way once.
func readPipelines(path string, log *slog.Logger) []byte {
	file, err := safefile.ReadOwn(path, maxPipelines)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var data []byte
	if err == nil {
		data, err = unpackPipelines(file)
	}
	if err != nil {
		log.Warn("cache file removed; it will be made again", "file", path, "err", err)
		_ = os.Remove(path) // or replaced, when pipelines are next kept
		return nil
	}
	return data
}

// loadCache makes a pipeline cache of what an earlier run left. Without one, or where
// the driver does not take it, pipelines are compiled anew.
func (d *device) loadCache(f *frame) {
	var old []byte
	if d.o.CacheDir != "" {
		old = readPipelines(d.cacheFile(), d.log)
	}
	var err error
	for {
		d.cache, err = create(f, &d.c.createCache, d.handle, cacheInfo{head: head{typ: tPipelineCache}, size: uint64(len(old)), data: list(f, old)})
		if err == nil || old == nil {
			break
		}
		old = nil
	}
	if err != nil {
		d.log.Warn("pipelines are not cached", "device", d.info.Name, "err", err)
	}
}

// saveCache keeps the pipeline cache for later runs.
func (d *device) saveCache(f *frame) {
	if d.cache == 0 {
		return
	}
	defer f.call(&d.c.destroyCache, d.handle, uintptr(d.cache), 0)
	if d.o.CacheDir == "" || len(d.modules) == 0 || d.dead.Load() != nil {
		return
	}
	if err := d.writeCache(f); err != nil {
		d.log.Warn("pipelines are not kept", "device", d.info.Name, "err", err)
	}
}

func (d *device) writeCache(f *frame) error {
	size := answer[uint64](f)
	if err := f.do(&d.c.cacheData, d.handle, uintptr(d.cache), address(size), 0); err != nil || *size == 0 {
		return err
	}
	data := make([]byte, *size)
	if err := f.do(&d.c.cacheData, d.handle, uintptr(d.cache), address(size), uintptr(unsafe.Pointer(&data[0]))); err != nil {
		return err
	}
	return safefile.Write(d.cacheFile(), packPipelines(data[:*size]))
}
