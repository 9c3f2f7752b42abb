package arena

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/extent"
)

// ErrFull is returned when the arena's limit is reached.
var ErrFull = errors.New("shared host memory is full")

// Segment is a range of the arena that was filled at once.
type Segment struct {
	Off, Len int64
}

const (
	// minSegment is the number of bytes by which the arena grows: few enough to fill at
	// once, many enough that it rarely grows. A larger extent gets a segment of its own.
	minSegment = 64 << 20
	page       = 4096
	cacheLine  = 64
)

// Arena is shared host memory. Its methods are safe for concurrent use.
type Arena struct {
	mem  []byte
	file *file
	segs atomic.Pointer[[]Segment] // replaced, never changed

	mu    sync.Mutex
	large *extent.Space   // extents of whole pages; regions are segments
	small *extent.Space   // smaller ones, within pages taken from large
	owner map[int64]owned // by offset
	// boards are those made, by where they lie; members are the numbers given
	// to processes that use them.
	boards  map[*driver.Board]boardAt
	members uint64
	held    map[int64]*hold
}

// boardAt locates a board: a part of the arena that all processes write, and a part in a
// file of its own that only this process writes.
type boardAt struct {
	off int64
	fd  int
	own []byte
}

// owned is an extent in use.
type owned struct {
	space *extent.Space
	id    extent.ID
	size  int64
}

// hold keeps an extent from being used again.
type hold struct {
	n   int
	put bool // it was given back meanwhile
}

// Memory returns the bytes that this process may use: those of the machine, or fewer if
// a control group or the limit of its address space says so; 0 if unknown.
func Memory() int64 {
	if n := memoryLimit(); n < math.MaxInt64 {
		return n
	}
	return 0
}

// Open makes an arena of at most limit bytes; 0 means as much as this process may use
// (Memory). It is smaller where a file or the address space has a lower limit.
func Open(limit int64) (*Arena, error) {
	if limit <= 0 {
		limit = memoryLimit()
	}
	limit = (limit + page - 1) &^ (page - 1)
	if most := sizeLimit(); limit > most {
		if most < minSegment { // too little for boards and copies on their way
			return nil, fmt.Errorf("arena: share host memory: %w: the limit of files (ulimit -f) or of the address space (ulimit -v) leaves %d bytes", ErrFull, most)
		}
		limit = most &^ (page - 1)
	}
	f, mem, err := create(limit)
	if err != nil {
		return nil, fmt.Errorf("arena: share %d bytes of host memory: %w", limit, err)
	}
	a := &Arena{mem: mem, file: f, large: extent.New(page), small: extent.New(cacheLine), owner: make(map[int64]owned), held: make(map[int64]*hold), boards: make(map[*driver.Board]boardAt), members: 1}
	a.segs.Store(new([]Segment))
	return a, nil
}

// Size is the length of the whole arena, filled or not.
func (a *Arena) Size() int64 { return int64(len(a.mem)) }

// FD is the descriptor other processes join by. It stays the arena's.
func (a *Arena) FD() int { return a.file.fd }

// Segments are the segments there are, in the order of their offsets. The caller
// must not change them.
func (a *Arena) Segments() []Segment { return *a.segs.Load() }

// SegmentOf returns the number of the segment that holds an offset, or -1.
func SegmentOf(segs []Segment, off int64) int {
	i, found := slices.BinarySearchFunc(segs, off, func(s Segment, off int64) int { return int(min(max(s.Off-off, -1), 1)) })
	if !found {
		i--
	}
	if i < 0 || off >= segs[i].Off+segs[i].Len {
		return -1
	}
	return i
}

// Find returns the offset of memory that lies in the arena; false when it does
// not, or is empty.
func (a *Arena) Find(b []byte) (int64, bool) {
	if len(b) == 0 || len(a.mem) == 0 {
		return 0, false
	}
	off := int64(uintptr(unsafe.Pointer(&b[0])) - uintptr(unsafe.Pointer(&a.mem[0])))
	return off, off >= 0 && off+int64(len(b)) <= int64(len(a.mem))
}

// Owns reports whether memory lies in the arena.
func (a *Arena) Owns(b []byte) bool {
	_, ok := a.Find(b)
	return ok
}

// Get returns n bytes of undefined content.
func (a *Arena) Get(n int64) ([]byte, error) {
	if n <= 0 {
		return nil, fmt.Errorf("arena: get %d bytes", n)
	}
	if n > a.Size() {
		return nil, fmt.Errorf("arena: get %d of %d bytes: %w", n, a.Size(), ErrFull)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	space, grow := a.small, a.growSmall
	if n >= page {
		space, grow = a.large, a.growLarge
	}
	id, err := space.Get(n)
	if err != nil {
		if err = grow(n); err == nil {
			id, err = space.Get(n)
		}
		if err != nil {
			return nil, fmt.Errorf("arena: get %d bytes with %d of %d in use: %w", n, a.large.Used(), a.Size(), err)
		}
	}
	region, off, size := space.At(id)
	off += a.base(space, region)
	a.owner[off] = owned{space, id, size}
	return a.mem[off : off+n : off+size], nil
}

// base returns the offset at which a region of a space begins.
func (a *Arena) base(s *extent.Space, region int32) int64 {
	if s == a.large {
		return (*a.segs.Load())[region].Off
	}
	return int64(region) * page
}

// growLarge adds a segment that holds n bytes.
func (a *Arena) growLarge(n int64) error {
	segs := *a.segs.Load()
	var at int64
	if k := len(segs); k > 0 {
		at = segs[k-1].Off + segs[k-1].Len
	}
	n = (n + page - 1) &^ (page - 1)
	size := min(max(n, minSegment), a.Size()-at)
	if size < n {
		return ErrFull
	}
	a.large.Grow(int32(len(segs)), size)
	segs = append(slices.Clone(segs), Segment{at, size})
	a.segs.Store(&segs)
	if n > minSegment {
		fill(a.mem[at : at+size]) // it will be used whole
	}
	return nil
}

// smallPages is the number of pages that growSmall cuts into small extents at a time.
const smallPages = 64

func (a *Arena) growSmall(int64) error {
	id, err := a.large.Get(smallPages * page)
	if err != nil {
		if err := a.growLarge(smallPages * page); err != nil {
			return err
		}
		if id, err = a.large.Get(smallPages * page); err != nil {
			return err
		}
	}
	region, off, size := a.large.At(id)
	a.small.Grow(int32((a.base(a.large, region)+off)/page), size)
	return nil
}

// Put gives back what Get returned.
func (a *Arena) Put(b []byte) {
	off, ok := a.Find(b[:1])
	if !ok {
		panic("arena: memory that is not of this arena was given back")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if h := a.held[off]; h != nil {
		h.put = true
		return
	}
	a.put(off)
}

func (a *Arena) put(off int64) {
	o, ok := a.owner[off]
	if !ok {
		panic("arena: memory was given back twice")
	}
	delete(a.owner, off)
	o.space.Put(o.id)
}

// Hold keeps the extent b lies in from being used for anything else,
// also after Put, until release is called: a process that cannot be asked may still
// write to it.
func (a *Arena) Hold(b []byte) (release func()) {
	off, ok := a.Find(b)
	if !ok {
		return func() {}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	start, ok := a.around(off)
	if !ok {
		return func() {}
	}
	h := a.held[start]
	if h == nil {
		h = &hold{}
		a.held[start] = h
	}
	h.n++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if h.n--; h.n > 0 {
			return
		}
		delete(a.held, start)
		if h.put {
			a.put(start)
		}
	}
}

// around finds the extent in use around an offset. Holds are rare, so it looks at
// all of them.
func (a *Arena) around(off int64) (start int64, ok bool) {
	for at, o := range a.owner {
		if at <= off && off < at+o.size {
			return at, true
		}
	}
	return 0, false
}

// Board makes a board of n lanes in the arena, for as long as that lives.
func (a *Arena) Board(n int) (*driver.Board, error) { return a.board(n) }

// BoardAt returns what others need to join a board that Board made: where it lies
// in the arena, and the descriptor of what they only read, which stays the arena's.
func (a *Arena) BoardAt(b *driver.Board) (off int64, fd int, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, ok := a.boards[b]
	return at.off, at.fd, ok
}

// Enter returns a number for a process that is to join boards.
func (a *Arena) Enter() (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := bits.TrailingZeros64(^a.members)
	if n == 64 {
		return 0, fmt.Errorf("arena: %d processes share it already", n)
	}
	a.members |= 1 << n
	return n, nil
}

// Leave takes a number back from a process that has ended.
func (a *Arena) Leave(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.members &^= 1 << n
	for b := range a.boards {
		b.Leave(n)
	}
}

// Used returns the number of bytes in use.
func (a *Arena) Used() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.large.Used()
}
