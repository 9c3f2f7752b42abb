package trace

import (
	"cmp"
	"slices"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

const (
	// chunkEvents is the number of events for which memory is allocated at a time, 320 KiB:
	// short runs stay small and growing never copies.
	chunkEvents = 1 << 12
	// rareEvents is the length of the ring of state changes.
	rareEvents = 1 << 12
	// defaultEvents is the bound of a Recorder made with none, 20 MiB. Larger
	// rings leave the processor's caches, and recording slows down.
	defaultEvents = 1 << 18
)

// Recorder keeps the newest events in bounded memory. Device state changes and
// run brackets have a small ring of their own, so that a million executions do
// not push out the one loss that explains them. A nil *Recorder is valid and
// records nothing. A Recorder belongs to one goroutine.
type Recorder struct {
	// cur is the chunk being filled, up to at. Once full is set, what cur holds
	// beyond at and the chunks after it (in a circle) are older.
	cur    []Event
	at     int
	chunks [][]Event
	curNo  int
	max    int
	full   bool
	before uint64 // events recorded before those in cur[:at]

	rare      []Event
	rareAt    int
	rareDrops uint64
}

// NewRecorder returns a recorder for at most max events and a few thousand
// state changes; max of 0 or less means a quarter of a million. Memory is taken as
// events come.
func NewRecorder(max int) *Recorder {
	if max <= 0 {
		max = defaultEvents
	}
	return &Recorder{max: max, curNo: -1}
}

// Record keeps e, dropping the oldest event when there is no room. It does not
// allocate once the recorder is full.
func (r *Recorder) Record(e Event) {
	if r == nil {
		return
	}
	if e.Kind.rare() {
		r.recordRare(e)
		return
	}
	if r.at == len(r.cur) {
		r.advance()
	}
	r.cur[r.at] = e
	r.at++
}

// advance makes cur the next chunk: a new one while there is room, the oldest
// one afterwards.
func (r *Recorder) advance() {
	r.before += uint64(r.at)
	r.at = 0
	r.curNo++
	if room := r.max - r.curNo*chunkEvents; !r.full && room > 0 {
		r.chunks = append(r.chunks, make([]Event, min(room, chunkEvents)))
	} else {
		r.full = true
		r.curNo %= len(r.chunks)
	}
	r.cur = r.chunks[r.curNo]
}

func (r *Recorder) recordRare(e Event) {
	if len(r.rare) < rareEvents {
		r.rare = append(r.rare, e)
		return
	}
	r.rare[r.rareAt] = e
	r.rareAt = (r.rareAt + 1) % rareEvents
	r.rareDrops++
}

// Dropped returns the number of events that were dropped for want of room.
func (r *Recorder) Dropped() uint64 {
	if r == nil {
		return 0
	}
	return r.overwritten() + r.rareDrops
}

func (r *Recorder) overwritten() uint64 {
	if !r.full {
		return 0
	}
	return r.before + uint64(r.at) - uint64(r.max)
}

// Events returns a copy of the recorded events, ordered by end if they have a duration and
// by start otherwise. If events were overwritten, there is one of kind Missing.
func (r *Recorder) Events() []Event {
	if r == nil {
		return nil
	}
	evs := make([]Event, 0, len(r.chunks)*chunkEvents+len(r.rare)+1)
	if r.full {
		evs = append(evs, r.cur[r.at:]...)
		for i := 1; i < len(r.chunks); i++ {
			evs = append(evs, r.chunks[(r.curNo+i)%len(r.chunks)]...)
		}
	} else {
		for i := range r.curNo {
			evs = append(evs, r.chunks[i]...)
		}
	}
	evs = append(evs, r.cur[:r.at]...)
	if n := r.overwritten(); n > 0 {
		// Events come about as they end, so the oldest one kept shows until
		// when others are missing.
		evs = append(evs, Event{Kind: Missing, Device: machine.Host, From: machine.Host,
			Task: graph.NoTask, Start: evs[0].at(), Bytes: int64(n)})
	}
	evs = append(evs, r.rare[r.rareAt:]...)
	evs = append(evs, r.rare[:r.rareAt]...)
	slices.SortStableFunc(evs, func(a, b Event) int { return cmp.Compare(a.at(), b.at()) })
	return evs
}
