package proc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weft-run/weft/internal/futex"
)

// A ring carries records one way between two processes. Both sides check what
// they read: a process whose memory was overwritten must not bring the other down.

// errGarbage is returned by a ring when the other side broke its rules.
var errGarbage = errors.New("garbage on the channel")

const (
	ringBytes = 1 << 20
	ringMagic = 0x77656674
	headBytes = 8 // before every record: its length and a check
	skipBit   = 1 << 31
	// maxRecord leaves room for several records at a time.
	maxRecord = ringBytes / 4
)

// ringHead begins a ring's memory. Every word that is written in a hurry has a
// cache line of its own.
type ringHead struct {
	magic uint32
	size  uint32
	_     [56]byte
	tail  atomic.Uint32 // bytes ever written
	_     [60]byte
	head  atomic.Uint32 // bytes ever read
	_     [60]byte
	// awake has the bit sleeps while the reader sleeps, or is about to, and the bit lives
	// always. When the worker ends, the kernel clears all of awake of the completions and
	// wakes the reader.
	awake atomic.Uint32
	_     [60]byte
	beat  atomic.Uint32 // counts while the reader or writer lives
	busy  atomic.Uint32 // 1 while that may rightly be silent for long
	_     [56]byte
}

// Bits of ringHead.awake.
const (
	sleeps = 1 << iota
	lives
)

// ring is one side's view.
type ring struct {
	h      *ringHead
	buf    []byte
	at     uint32 // bytes this side has written or read
	serial uint32 // records likewise
	hidden int    // of the records written, those the reader cannot see yet
	// rec is a copy of the last record read. The other side can change shared memory at any
	// time, so the record must not change between its check and its use.
	rec []byte
}

// together is the number of records after which a writer shows them to the reader. Operations
// that belong together, such as a copy, a kernel and a copy, are better begun in one go, but
// the first of a long batch should begin before the last are written.
const together = 8

// ringMemory is the size of both rings of a worker: commands, then completions.
const ringMemory = 2 * (ringBytes + int64(unsafe.Sizeof(ringHead{})))

// mapRings maps the rings behind a descriptor.
func mapRings(fd int, create bool) (mem []byte, commands, completions *ring, err error) {
	mem, err = unix.Mmap(fd, 0, int(ringMemory), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("proc: map rings: %w", err)
	}
	half := len(mem) / 2
	commands, completions = ringOn(mem[:half]), ringOn(mem[half:])
	for _, r := range []*ring{commands, completions} {
		if create {
			r.h.magic, r.h.size = ringMagic, ringBytes
			r.h.awake.Store(lives)
		}
		if r.h.magic != ringMagic || r.h.size != ringBytes {
			_ = unix.Munmap(mem)
			return nil, nil, nil, fmt.Errorf("proc: map rings: %w: parent and worker are different programs", errGarbage)
		}
	}
	return mem, commands, completions, nil
}

func ringOn(mem []byte) *ring {
	h := (*ringHead)(unsafe.Pointer(&mem[0]))
	return &ring{h: h, buf: mem[unsafe.Sizeof(*h):]}
}

// check ties a record's header to its place in the stream.
func check(n, serial uint32) uint32 { return n ^ serial*0x9E3779B1 ^ ringMagic }

// put writes a record; false when there is no room for it now. The reader sees
// it after ring, or when some more have been put.
func (r *ring) put(rec []byte) (bool, error) {
	if len(rec) == 0 || len(rec) > maxRecord {
		return false, fmt.Errorf("proc: a record of %d bytes", len(rec))
	}
	need := uint32(headBytes+len(rec)+7) &^ 7
	pos := r.at % ringBytes
	skip := uint32(0)
	if pos+need > ringBytes {
		skip = ringBytes - pos
	}
	used := r.at - r.h.head.Load()
	if used > ringBytes {
		return false, errGarbage
	}
	if ringBytes-used < need+skip {
		return false, nil
	}
	if skip > 0 {
		r.header(pos, skip-headBytes|skipBit)
		pos = 0
	}
	r.header(pos, uint32(len(rec)))
	copy(r.buf[pos+headBytes:], rec)
	r.at += need + skip
	if r.hidden++; r.hidden == together {
		r.show()
	}
	return true, nil
}

// show lets the reader see what was put.
func (r *ring) show() {
	r.hidden = 0
	r.h.tail.Store(r.at)
}

func (r *ring) header(pos, n uint32) {
	binary.LittleEndian.PutUint32(r.buf[pos:], n)
	binary.LittleEndian.PutUint32(r.buf[pos+4:], check(n, r.serial))
	r.serial++
}

// ring shows the reader what was put and wakes it if it sleeps.
func (r *ring) ring() {
	r.show()
	r.wake()
}

// wake wakes the reader if it sleeps, which others than the writer may do.
func (r *ring) wake() {
	if r.h.awake.Load()&sleeps != 0 && r.h.awake.And(^uint32(sleeps))&sleeps != 0 {
		futex.Wake(&r.h.awake)
	}
}

// get returns the next record, or nil when there is none. It is a copy, which stays
// valid until the next call.
func (r *ring) get() ([]byte, error) {
	for {
		ready := r.h.tail.Load() - r.at
		if ready == 0 {
			return nil, nil
		}
		pos := r.at % ringBytes
		if ready > ringBytes || ready < headBytes || ready%8 != 0 {
			return nil, errGarbage
		}
		n := binary.LittleEndian.Uint32(r.buf[pos:])
		if binary.LittleEndian.Uint32(r.buf[pos+4:]) != check(n, r.serial) {
			return nil, errGarbage
		}
		size := n &^ skipBit
		if size > ringBytes || pos+headBytes+size > ringBytes || (headBytes+size+7)&^7 > ready {
			return nil, errGarbage
		}
		if n&skipBit == 0 {
			if size == 0 || size > maxRecord {
				return nil, errGarbage
			}
			r.rec = append(r.rec[:0], r.buf[pos+headBytes:pos+headBytes+size]...)
			return r.rec, nil
		}
		// What is skipped is the rest of the ring. Shorter ones in a row would let
		// the other side keep this one here.
		if pos == 0 || pos+headBytes+size != ringBytes {
			return nil, errGarbage
		}
		r.next(size)
	}
}

// next gives the record of a length back.
func (r *ring) next(n uint32) {
	r.at += (headBytes + n + 7) &^ 7
	r.serial++
	r.h.head.Store(r.at)
}

// empty reports whether there is nothing to read.
func (r *ring) empty() bool { return r.h.tail.Load() == r.at }

// sleep blocks until the ring is rung, the other side ends or d has passed; ready is looked
// at once more after the other side knows.
func (r *ring) sleep(d time.Duration, ready func() bool) {
	word := r.h.awake.Or(sleeps) | sleeps
	if word&lives != 0 && !ready() {
		futex.Wait(&r.h.awake, word, d)
	}
	r.h.awake.And(^uint32(sleeps))
}

// deserted reports whether the kernel has begun to end the process that writes completions.
func (r *ring) deserted() bool { return r.h.awake.Load()&^sleeps == 0 }
