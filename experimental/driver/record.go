package driver

import "sync/atomic"

// record is the progress of a lane, written by one process. It has cache lines of its
// own, so that its writer does not slow down the writers of others.
//
// Failures are stretches of numbers in ascending order, from is the first of them
// and next the one after the last, both counted without end. The writer alone changes
// them; it overwrites a stretch only after it has moved from past it, so that a reader
// who finds from as it was has read whole ones.
type record struct {
	_          [64]byte
	done       atomic.Uint64 // operations complete, counted from the lane's first
	from, next atomic.Uint64
	// What only the process that made a board tells, of lanes of other processes and
	// of all: whether the lane is one, the last number its device was given, and up to
	// where failures are forgotten.
	away   atomic.Uint32
	given  atomic.Uint64
	forgot atomic.Uint64
	_      [16]byte
	failed [stretches]stretch
}

// stretch is operations that failed, its ends included.
type stretch struct{ lo, hi atomic.Uint64 }

// stretches is the number of separate stretches of failed operations that a record holds:
// 8 KiB. If there are more, the operations between the last two count as failed as well,
// which costs a waiter another attempt and never a wrong result. A stretch is forgotten
// once all operations have ended that were in flight when it was recorded, so that only
// hundreds of failures behind one slow kernel can fill it.
const stretches = 512

// fail records that operations lo to hi failed. Stretches up to forgot are removed.
func (p *record) fail(lo, hi, forgot uint64) {
	from, next := p.from.Load(), p.next.Load()
	if next-from > stretches { // another process wrote here: all count as failed
		p.from.Store(next)
		from, lo = next, 0
	}
	for from != next && p.failed[from%stretches].hi.Load() <= forgot {
		from++
	}
	p.from.Store(from)
	if from != next {
		if last := &p.failed[(next-1)%stretches]; next-from == stretches || last.hi.Load()+1 >= lo {
			last.hi.Store(max(hi, last.hi.Load()))
			if lo < last.lo.Load() { // it covers the others too
				last.lo.Store(lo)
				p.from.Store(next - 1)
			}
			return
		}
	}
	s := &p.failed[next%stretches]
	s.lo.Store(lo)
	s.hi.Store(hi)
	p.next.Store(next + 1)
}

// clean reports that no failure is remembered.
func (p *record) clean() bool { return p.from.Load() == p.next.Load() }

// looks is the number of times a reader starts over because a writer changed the record
// meanwhile. A correct writer causes about one restart for each failure; 64 bounds the time
// lost to one that breaks the rules.
const looks = 64

// has reports whether an operation failed. A record that fail cannot have written counts
// as a failure.
func (p *record) has(at uint64) bool {
	for range looks {
		from, next := p.from.Load(), p.next.Load()
		if from == next {
			return false
		}
		found := next-from > stretches || p.search(from, next, at)
		if p.from.Load() == from {
			return found
		}
	}
	return true
}

// search looks for an operation among the stretches that failed.
func (p *record) search(from, next, at uint64) bool {
	lo, hi := from, next
	for lo != hi {
		if mid := lo + (hi-lo)/2; p.failed[mid%stretches].hi.Load() < at {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo != next && p.failed[lo%stretches].lo.Load() <= at
}

// sane reports whether a record can be what a device wrote that was given
// operations up to a number.
func (p *record) sane(given uint64) bool {
	from, next := p.from.Load(), p.next.Load()
	if p.done.Load() > given || next-from > stretches {
		return false
	}
	for last := uint64(0); from != next; from++ {
		s := &p.failed[from%stretches]
		lo, hi := s.lo.Load(), s.hi.Load()
		if lo <= last || hi < lo || hi > given {
			return false
		}
		last = hi
	}
	return true
}
