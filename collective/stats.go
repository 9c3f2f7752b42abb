package collective

import (
	"time"
)

// Stats counts a group's calls of one operation, with their bytes and times.
type Stats struct {
	Op     Op
	Calls  int64 // that succeeded
	Failed int64
	// Bytes is the size of one rank's vector, Took the time from the call to its
	// return: first their sums over the calls that succeeded, then the smallest and
	// largest of one call. A sum divided by Calls is the mean. A barrier has no bytes.
	Bytes, LeastBytes, MostBytes int64
	Took, LeastTook, MostTook    time.Duration
}

// add takes in a call that succeeded.
func (s *Stats) add(bytes int64, took time.Duration) {
	if s.Calls == 0 {
		s.LeastBytes, s.LeastTook = bytes, took
	}
	s.Calls++
	s.Bytes, s.LeastBytes, s.MostBytes = s.Bytes+bytes, min(s.LeastBytes, bytes), max(s.MostBytes, bytes)
	s.Took, s.LeastTook, s.MostTook = s.Took+took, min(s.LeastTook, took), max(s.MostTook, took)
}

// Stats returns the times and sizes of the operations that were called, in the order of
// their constants. Calls whose slices do not fit are not counted.
func (g *Group) Stats() []Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []Stats
	for op, s := range g.stats {
		if s.Op = Op(op); s.Calls+s.Failed > 0 {
			out = append(out, s)
		}
	}
	return out
}

// count takes in how a call ended.
func (g *Group) count(s *Spec, took time.Duration, err error) {
	bytes := s.Count * s.Type.Size()
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		g.stats[s.Op].Failed++
		return
	}
	g.stats[s.Op].add(bytes, took)
}
