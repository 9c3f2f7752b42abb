package checkpoint

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"strings"
)

// BlockBytes is the unit in which data is compared, written and checked. At 1 MiB a
// checksum adds nothing to the time, and the manifest of 1 GiB has some 30 kB.
const BlockBytes = 1 << 20

// AlignBytes divides the place and length of writes to data files, as
// writing past the page cache demands.
const AlignBytes = 4096

var (
	// ErrNone says that a folder has no checkpoint that can be used.
	ErrNone = errors.New("no checkpoint")
	// ErrDamaged says that a file is not what was written.
	ErrDamaged = errors.New("damaged")
	// ErrFull says that there is no room for a file.
	ErrFull = errors.New("no room")
	// ErrVersion says that another version of weft wrote a file.
	ErrVersion = errors.New("another version")
)

// FS is a folder.
type FS interface {
	// Create makes a file that must not exist yet. size is the number of bytes that will be
	// written, a multiple of AlignBytes; 0 means few and not aligned. If there is no room,
	// errors of Create and of the file wrap ErrFull.
	Create(name string, size int64) (File, error)
	// Open opens a regular file for reading and returns its size.
	Open(name string) (Reader, int64, error)
	Rename(from, to string) error
	Remove(name string) error
	// List returns the names of all files.
	List() ([]string, error)
	// Sync makes names that were made, changed or removed durable.
	Sync() error
}

// File is a file that is written from its beginning on.
type File interface {
	io.Writer
	// Sync makes what was written durable.
	Sync() error
	Close() error
}

// Reader is a file that is read.
type Reader interface {
	io.ReaderAt
	io.Closer
}

// castagnoli is the polynomial that processors have an instruction for.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum returns the checksum of a block.
func Sum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// The names of files.
const (
	manifestPrefix = "checkpoint-"
	dataPrefix     = "data-"
	tempPrefix     = "temporary-" // of manifests that are being written
	digits         = 12
)

func manifestName(n uint64) string { return fmt.Sprintf("%s%0*d", manifestPrefix, digits, n) }
func tempName(n uint64) string     { return fmt.Sprintf("%s%0*d", tempPrefix, digits, n) }
func dataName(n uint64) string     { return fmt.Sprintf("%s%0*d", dataPrefix, digits, n) }

// maxNumber is the largest number of a checkpoint.
const maxNumber = 1<<62 - 1

// numberOf returns the number in the name of a file, false if it is no such name.
func numberOf(name, prefix string) (uint64, bool) {
	rest, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(rest, 10, 64)
	return n, err == nil && n > 0 && n <= maxNumber && name == fmt.Sprintf("%s%0*d", prefix, digits, n)
}

// Refused is a checkpoint that could not be used, and why.
type Refused struct {
	File string
	Err  error
}

func (r *Refused) Error() string { return r.File + ": " + r.Err.Error() }
func (r *Refused) Unwrap() error { return r.Err }
