package exec

import (
	"slices"
	"sync"
	"testing"

	"github.com/weft-run/weft/experimental/driver"
)

// slow is a device that takes operations when it is let.
type slow struct {
	driver.Device
	name string
	let  chan struct{}
	mu   *sync.Mutex
	took *[]string
}

func (s *slow) Submit(batch []driver.Op) error {
	<-s.let
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, op := range batch {
		*s.took = append(*s.took, s.name+string(rune('0'+op.Seq)))
	}
	return nil
}

// Couriers keep the order of what they are given, and the order between a device and
// one that takes from it. What they were given may be used again at once.
func TestCourier(t *testing.T) {
	var mu sync.Mutex
	var took []string
	a := &slow{name: "a", let: make(chan struct{}), mu: &mu, took: &took}
	b := &slow{name: "b", let: make(chan struct{}), mu: &mu, took: &took}
	from, to := newCourier(nil, &dev{Device: a}), newCourier(nil, &dev{Device: b})
	ops := []driver.Op{{Seq: 1}}
	from.post(ops, nil)
	ops[0].Seq = 2
	from.post(ops, nil)
	to.post(ops, from)
	ops[0].Seq = 3
	to.post(ops, nil)
	ops[0].Seq = 9
	close(b.let)
	if !from.busy.Load() || !to.busy.Load() {
		t.Error("something is under way, and the courier does not say so")
	}
	close(a.let)
	from.settle()
	to.settle()
	if want := []string{"a1", "a2", "b2", "b3"}; !slices.Equal(took, want) {
		t.Errorf("devices took %v, want %v", took, want)
	}
}
