package exec

import (
	"math/bits"
	"slices"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/engine"
)

// hostPool recycles host buffers by power-of-two size class. It keeps a bounded
// number of bytes; the garbage collector gets the rest. A large buffer is made to
// measure, and is given out again for the same size or a somewhat smaller one: a
// graph that is run again finds the buffers of its last run.
type hostPool struct {
	free  [64][][]byte
	held  int64
	limit int64 // bytes kept; 0 means maxHeld, less than 0 none
	// shared, when not nil, provides buffers while it has any: devices in other
	// processes copy from and to them without staging.
	shared driver.SharedMemory
}

// maxRounded is the size in bytes of the largest buffer that is rounded up to its
// class, which can waste half of it.
const maxRounded = 1 << 20

// maxHeld is the most bytes of free buffers that a pool without a limit keeps.
const maxHeld = 256 << 20

func (p *hostPool) get(n int64) []byte {
	c := bits.Len64(uint64(n - 1))
	f := p.free[c]
	for i := len(f) - 1; i >= 0; i-- {
		if b := f[i]; int64(cap(b)) >= n {
			p.free[c] = slices.Delete(f, i, i+1)
			p.held -= int64(cap(b))
			return b[:n]
		}
	}
	size := n
	if n <= maxRounded {
		size = 1 << c
	}
	if p.shared != nil {
		if b, err := p.shared.Get(size); err == nil {
			return b[:n]
		}
	}
	return make([]byte, n, size)
}

func (p *hostPool) put(b []byte) {
	n, limit := cap(b), p.limit
	if limit == 0 {
		limit = maxHeld
	}
	if n == 0 || p.held+int64(n) > limit {
		if n > 0 && p.shared != nil && p.shared.Owns(b[:n]) {
			p.shared.Put(b)
		}
		return
	}
	c := bits.Len64(uint64(n - 1))
	p.free[c] = append(p.free[c], b[:n:n])
	p.held += int64(n)
}

func (l *loop) setMem(i engine.Inst, m hostMem) {
	for int(i) >= len(l.mem) {
		l.mem = append(l.mem, hostMem{})
	}
	l.mem[i] = m
}

// home puts the caller's memory behind an instance.
func (l *loop) home(a *engine.Action) {
	if a.Run == 0 {
		mem := l.homes[a.Ref]
		l.setMem(a.Inst, hostMem{b: mem, pooled: l.pool.shared != nil && l.pool.shared.Owns(mem)})
		delete(l.homes, a.Ref) // the instance has it now, until no run uses the data
		return
	}
	l.setMem(a.Inst, hostMem{b: l.runs[a.Run].Memory(a.Data), lent: true})
}
