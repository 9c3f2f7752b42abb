package exec

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/test/poll"
)

// lines is a log that is read while it is written.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

// A call is said to take long from longAfter on, and once.
func TestLongFromWhen(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	var log lines
	x := open(t, Config{
		Drivers: []driver.Driver{cpu.New(cpu.Options{Cores: 1, Funcs: map[string]driver.Func{"inc": func(*driver.Call, int, int) {
			close(begun)
			<-release
		}}})},
		Log: slog.New(slog.NewTextHandler(&log, nil)), longAfter: time.Hour,
	})
	ended := make(chan error, 1)
	go func() {
		_, err := x.Run(t.Context(), inc(t, 1), engine.RunOptions{}, func(graph.DataID) []byte { return make([]byte, 1) })
		ended <- err
	}()
	<-begun
	var said []int
	done := make(chan struct{})
	x.do(func(l *loop) {
		defer close(done)
		o, ok := l.engine.Oldest(0)
		if !ok {
			t.Error("nothing is in flight")
		}
		for _, after := range []time.Duration{-1, 0, 1} {
			l.sayLong(l.devs[0], o.Since+l.longAfter+after)
			said = append(said, log.count("takes long"))
		}
	})
	<-done
	if want := []int{0, 1, 1}; !slices.Equal(said, want) {
		t.Errorf("said %v times just before, at and after an hour, want %v", said, want)
	}
	close(release)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Of a Go kernel that does not return it is said once which one it is, and nothing of
// what is behind it; nor of what is before it, though it was the same kernel and short.
func TestLongKernelIsNamed(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	funcs := map[string]driver.Func{
		"stuck": func(c *driver.Call, _, _ int) {
			if len(c.Params) == 0 {
				close(begun)
				<-release
			}
		},
		"behind": func(*driver.Call, int, int) {},
	}
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: 8})
	kernel := func(n string) []graph.Step {
		return []graph.Step{{Kernel: &graph.Kernel{Name: n, Impls: []graph.Impl{{Dialect: graph.Go, Entry: n}}}}}
	}
	stuck := kernel("stuck")
	for range 8 {
		short := graph.Step{Kernel: stuck[0].Kernel, Params: []byte{1}}
		own := b.Data(graph.Data{Bytes: 8})
		b.Add(graph.Task{Name: "before", Steps: []graph.Step{short}, Uses: []graph.Use{{Data: own, Access: graph.Write}}})
	}
	b.Add(graph.Task{Name: "slow", Steps: stuck, Uses: []graph.Use{{Data: x, Access: graph.Write}}})
	b.Add(graph.Task{Name: "next", Steps: kernel("behind"), Uses: []graph.Use{{Data: x, Access: graph.Read}}})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	var log lines
	e := open(t, Config{
		Drivers: []driver.Driver{cpu.New(cpu.Options{Cores: 1, Funcs: funcs})}, Log: slog.New(slog.NewTextHandler(&log, nil)),
		HealthInterval: time.Millisecond, longAfter: time.Hour,
	})
	ended := make(chan error, 1)
	go func() {
		_, err := e.Run(t.Context(), g, engine.RunOptions{}, nil)
		ended <- err
	}()
	<-begun
	// Those before it may be kept long by a slow machine.
	poll.True(t, "the tasks before the one that does not return are heard to end", func() bool {
		st, _ := e.Status()
		return st[0].Queued == 2
	})
	e.do(func(l *loop) { l.longAfter = 20 * time.Millisecond })
	const said = "takes long"
	poll.True(t, "a kernel that does not return is told of", func() bool { return log.count(said) > 0 })
	for range 20 { // between which samples are taken
		e.Status()
		time.Sleep(time.Millisecond)
	}
	if log.count(said) != 1 || log.count("kernels=stuck") != 1 || log.count("task=slow") != 1 {
		log.mu.Lock()
		t.Errorf("the log says:\n%s", log.b.String())
		log.mu.Unlock()
	}
	close(release)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
