package dashboard

import (
	"cmp"
	"slices"

	"github.com/weft-run/weft"
)

// pageEvent is something that happened, for the list of events.
type pageEvent struct {
	N      uint64  `json:"n"`  // counts up
	At     float64 `json:"at"` // uptime
	Kind   string  `json:"kind"`
	Device string  `json:"device"`
	Text   string  `json:"text"`
	Bad    bool    `json:"bad"`
}

const (
	// keptEvents is the greatest number of events that are listed beside those of routine.
	keptEvents = 200
	// keptRoutine is that of runs that begin and end well: they may be thousands a second,
	// and must not push out the one loss that matters.
	keptRoutine = 50
)

// eventLog keeps the latest events.
type eventLog struct {
	n              uint64
	routine, other []pageEvent
}

// add keeps an event. Queued tasks that are moved are not told: that is how devices are kept
// busy.
func (l *eventLog) add(e *weft.Event) {
	if e.Kind == weft.EventTaskMoved {
		return
	}
	l.n++
	bad := e.Err != nil || e.Kind == weft.EventTaskReplayed || e.Kind == weft.EventDevice && (e.To == "lost" || e.To == "broken")
	made := pageEvent{N: l.n, At: e.At.Seconds(), Kind: e.Kind.String(), Device: e.Device, Text: e.String(), Bad: bad}
	if !bad && (e.Kind == weft.EventRunBegan || e.Kind == weft.EventRunEnded) {
		l.routine = keep(l.routine, made, keptRoutine)
	} else {
		l.other = keep(l.other, made, keptEvents)
	}
}

// keep appends to a list and drops its oldest elements, now and then, beyond n.
func keep(list []pageEvent, e pageEvent, n int) []pageEvent {
	if list = append(list, e); len(list) >= 2*n {
		list = slices.Clone(list[len(list)-n:])
	}
	return list
}

// all returns what is kept, the oldest first.
func (l *eventLog) all() []pageEvent {
	out := slices.Concat(l.routine[max(len(l.routine)-keptRoutine, 0):], l.other[max(len(l.other)-keptEvents, 0):])
	slices.SortFunc(out, func(a, b pageEvent) int { return cmp.Compare(a.N, b.N) })
	return out
}
