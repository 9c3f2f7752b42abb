package weft_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
)

// crossing is a kernel whose calls wait until a number of them are there at once.
type crossing struct {
	mu   sync.Mutex
	now  int // calls that have begun and not returned
	most int
	all  int           // how many have to meet; 0 for none
	met  chan struct{} // closed when they have
	end  time.Time     // when calls give up
}

func meet(n int) *crossing {
	return &crossing{all: n, met: make(chan struct{}), end: time.Now().Add(time.Minute)}
}

func (m *crossing) call(c *weft.Call, _, _ int) {
	m.mu.Lock()
	m.now++
	m.most = max(m.most, m.now)
	if m.now == m.all {
		close(m.met)
	}
	m.mu.Unlock()
	if m.all > 0 {
		select {
		case <-m.met:
		case <-time.After(time.Until(m.end)):
			c.Fail(fmt.Errorf("%d of %d tasks met", m.most, m.all))
		}
	}
	runtime.Gosched()
	m.mu.Lock()
	m.now--
	m.mu.Unlock()
}

func entry(name string) *graph.Kernel {
	return &graph.Kernel{Name: name, Impls: []graph.Impl{{Dialect: graph.Go, Entry: name}}}
}

// apart is n tasks of a kernel that share nothing, with a grid of some items.
func apart(t *testing.T, kernel string, n int, items uint32) *graph.Graph {
	t.Helper()
	var b graph.Builder
	k := entry(kernel)
	for range n {
		d := b.Data(graph.Data{Bytes: int64(items)})
		b.Add(graph.Task{Steps: []graph.Step{{Kernel: k, Launch: graph.Launch{Grid: [3]uint32{items, 1, 1}}}}, Uses: []graph.Use{{Data: d, Access: graph.Write}}})
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Tasks without a grid run on every core at the same time, by default and however the
// cores are divided into devices; with streams, so many at a time on each device.
func TestTasksUseEveryCore(t *testing.T) {
	cores := min(runtime.NumCPU(), 255)
	for _, c := range []struct {
		name string
		o    weft.Options
		want int
		only bool // no more than that at a time
	}{
		{"default", weft.Options{}, cores, false},
		{"cpu", weft.Options{Devices: "cpu"}, cores, true},
		{"cpu/2", weft.Options{Devices: "cpu/2"}, max(cores, 2), true},
		{"a device for each core", weft.Options{Devices: fmt.Sprintf("cpu/%d", cores)}, cores, true},
		{"streams 1", weft.Options{Devices: "cpu", Streams: 1}, 1, true},
		{"streams 3", weft.Options{Devices: "cpu", Streams: 3}, 3, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			first, more := meet(c.want), meet(0)
			c.o.Funcs = map[string]weft.Func{"first": first.call, "more": more.call}
			rt := open(t, c.o)
			if _, err := rt.Run(context.Background(), apart(t, "first", c.want, 1)); err != nil {
				t.Fatal(err)
			}
			if _, err := rt.Run(context.Background(), apart(t, "more", 20*c.want, 1)); err != nil {
				t.Fatal(err)
			}
			if c.only && max(first.most, more.most) > c.want {
				t.Errorf("%d tasks at a time, want at most %d", max(first.most, more.most), c.want)
			}
		})
	}
}
