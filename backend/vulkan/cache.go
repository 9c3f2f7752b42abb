package vulkan

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"
)

// cacheFile is where compiled pipelines are kept. Drivers check by themselves
// that what they find there is theirs, and of their version.
func (d *device) cacheFile() string {
	key := sha256.Sum256([]byte(d.info.UUID + "\n" + d.info.Driver))
	return filepath.Join(d.o.CacheDir, fmt.Sprintf("vulkan-%x.pipelines", key[:8]))
}

// loadCache makes a pipeline cache of what an earlier run left. Without one,
// pipelines are compiled anew.
func (d *device) loadCache(f *frame) {
	var old []byte
	if d.o.CacheDir != "" {
		old, _ = os.ReadFile(d.cacheFile()) // there may be none
	}
	var err error
	d.cache, err = create(f, &d.c.createCache, d.handle, cacheInfo{head: head{typ: tPipelineCache}, size: uint64(len(old)), data: list(f, old)})
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
	if err := os.MkdirAll(d.o.CacheDir, 0o755); err != nil {
		return err
	}
	// Renamed into place, so that nobody reads half of it.
	tmp, err := os.CreateTemp(d.o.CacheDir, "vulkan-*.tmp")
	if err != nil {
		return err
	}
	_, err = tmp.Write(data[:*size])
	if e := tmp.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(tmp.Name(), d.cacheFile())
	}
	if err != nil {
		_ = os.Remove(tmp.Name()) // the first error says more
	}
	return err
}
