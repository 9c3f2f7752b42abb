package infer

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

func newCounts(name, number string) *Stats {
	return &Stats{Model: name, Version: number, Queue: newHistogram(), Compute: newHistogram(), Total: newHistogram()}
}

// countsOf returns the counts of a version: those of one that was there before and has not gone
// yet, or new ones. s.mu is held.
func (s *Service) countsOf(name, number string) *Stats {
	for _, v := range s.all() {
		if v.name == name && v.number == number && v.counts != nil {
			return v.counts
		}
	}
	return newCounts(name, number)
}

// byNumber orders versions.
func byNumber(a, b string) int {
	x, _ := strconv.ParseUint(a, 10, 64)
	y, _ := strconv.ParseUint(b, 10, 64)
	return cmp.Compare(x, y)
}

// all returns the versions there are, by name and number; of those with the same number the
// one that is served comes first. s.mu is held.
func (s *Service) all() (list []*version) {
	for _, versions := range s.models {
		for _, v := range versions {
			list = append(list, v)
		}
	}
	for v := range s.old {
		list = append(list, v)
	}
	slices.SortFunc(list, func(a, b *version) int {
		retired := map[bool]int{true: 1}
		return cmp.Or(cmp.Compare(a.name, b.name), byNumber(a.number, b.number), retired[a.retired]-retired[b.retired])
	})
	return list
}

// Models describes all versions of all models, by name and number. Where a version replaces
// another, it is the one that is served.
func (s *Service) Models() []Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	infos := []Info{}
	for _, v := range s.all() {
		if n := len(infos); n == 0 || infos[n-1].Name != v.name || infos[n-1].Version != v.number {
			infos = append(infos, v.info())
		}
	}
	return infos
}

// Model describes a version of a model, the newest that is ready if version is empty.
func (s *Service) Model(name, version string) (Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.pick(name, version)
	if v == nil {
		return Info{}, missing(name, version)
	}
	return v.info(), nil
}

func (v *version) info() Info {
	state, reason := v.shown()
	return Info{
		Name: v.name, Version: v.number, Kind: v.config.Kind, State: state, Reason: reason,
		Inputs: v.inputs, Outputs: v.outputs, MaxBatch: v.most, Devices: deviceNames(v.devices),
	}
}

// Stats returns the counts of all versions that have been ready and are there still.
func (s *Service) Stats() []Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := []Stats{}
	at := make(map[*Stats]int)
	for _, v := range s.all() {
		if v.counts == nil {
			continue
		}
		i, ok := at[v.counts]
		if !ok {
			i = len(stats)
			at[v.counts] = i
			c := *v.counts
			c.Queue, c.Compute, c.Total = c.Queue.clone(), c.Compute.clone(), c.Total.clone()
			stats = append(stats, c)
		}
		stats[i].Waiting += v.mod.Waiting()
	}
	return stats
}

// Ready returns nil when every model of the folder is on a device that takes work and does not
// fail on all of them, and else what is missing.
func (s *Service) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("%w: the service is closing", ErrUnavailable)
	}
	for _, v := range s.all() {
		if v.retired {
			continue
		}
		if err := v.missing(); err != nil {
			if away := s.whereabouts(); away != "" {
				err = fmt.Errorf("%w (%s)", err, away)
			}
			return err
		}
		if state, reason := v.shown(); state != Ready {
			return fmt.Errorf("%w: model %s is %s: %s", ErrUnavailable, v.name, state, reason)
		}
	}
	if s.opening > 0 {
		return fmt.Errorf("%w: models are loading", ErrUnavailable)
	}
	return nil
}
