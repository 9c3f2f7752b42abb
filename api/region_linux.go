package api

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

const sharedFolder = "/dev/shm"

// NewRegion makes shared memory of a size in bytes, for this user alone. It is there until Close, or
// until the machine is started again if the program ends without.
func NewRegion(size int64) (*Region, error) {
	if size < 1 || int64(int(size)) != size {
		return nil, fmt.Errorf("api: a region of %d bytes", size)
	}
	r := &Region{key: "weft-" + rand.Text()}
	path := filepath.Join(sharedFolder, r.key)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("api: shared memory: %w", err)
	}
	// So much is there then: memory that cannot be had later would end the program.
	if err = syscall.Fallocate(int(f.Fd()), 0, 0, size); err == nil {
		r.data, err = syscall.Mmap(int(f.Fd()), 0, int(size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	}
	_ = f.Close() // the mapping stays
	if err != nil {
		return nil, errors.Join(fmt.Errorf("api: shared memory of %d bytes: %w", size, err), os.Remove(path))
	}
	return r, nil
}

// Close gives the memory back. Tensors in it must not be used any more; a server that knows the region
// is told by Client.Unregister.
func (r *Region) Close() error {
	if r.data == nil {
		return nil
	}
	err := errors.Join(syscall.Munmap(r.data), os.Remove(filepath.Join(sharedFolder, r.key)))
	r.data = nil
	return err
}
