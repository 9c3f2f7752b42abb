package cpu_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/cpu"
)

// lanes is a device of two cores with several lanes, and a kernel that returns when it
// is let go.
type lanes struct {
	t       *testing.T
	dev     driver.Device
	board   *driver.Board
	last    []uint32 // operation of each lane
	begun   chan struct{}
	release chan struct{}
}

func startLanes(t *testing.T, n int) *lanes {
	t.Helper()
	if runtime.NumCPU() < 2 {
		t.Skip("a team needs two cores")
	}
	l := &lanes{t: t, board: driver.NewBoard(n), last: make([]uint32, n), begun: make(chan struct{}, 2), release: make(chan struct{})}
	devs, err := cpu.New(cpu.Options{Cores: 2, Funcs: map[string]driver.Func{
		"hang": func(*driver.Call, int, int) {
			release := l.release
			l.begun <- struct{}{}
			<-release
		},
		"count": func(c *driver.Call, lo, hi int) {
			for i := lo; i < hi; i++ {
				c.Args[0][i]++
			}
		},
	}}).Open(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	l.dev = devs[0]
	var ids []driver.Lane
	for i := range n {
		ids = append(ids, driver.Lane(i))
	}
	l.dev.Attach(l.board, ids, func() {})
	t.Cleanup(func() {
		l.letGo()
		l.dev.Close()
	})
	return l
}

// letGo has calls of the kernel return that have begun; the next ones hang again.
func (l *lanes) letGo() {
	close(l.release)
	l.release = make(chan struct{})
}

// hang has a lane run a kernel that does not return, on both cores.
func (l *lanes) hang(lane driver.Lane) driver.Wait {
	l.t.Helper()
	op := l.launch(lane, "hang", 2, nil)
	<-l.begun
	<-l.begun
	return op
}

func (l *lanes) detach(op driver.Wait) {
	l.t.Helper()
	if !l.dev.(driver.Detacher).Detach(op, op.Seq) {
		l.t.Fatal("it was not detached")
	}
}

// launch gives a lane a launch of some items.
func (l *lanes) launch(lane driver.Lane, entry string, items int, mem []byte) driver.Wait {
	l.t.Helper()
	l.last[lane]++
	op := driver.Op{
		Kind: driver.Launch, Lane: lane, Seq: l.last[lane], Task: &graph.Task{Steps: []graph.Step{step(entry, [3]uint32{uint32(items), 1, 1}, [3]uint32{})}},
		Args: []driver.Arg{{Buf: driver.NoBuffer, Host: mem, Bytes: int64(len(mem))}},
	}
	if err := l.dev.Submit([]driver.Op{op}); err != nil {
		l.t.Fatal(err)
	}
	return driver.Wait{Lane: lane, Seq: l.last[lane]}
}

// ends waits for the next completion, which is to be that of an operation without an error.
func (l *lanes) ends(op driver.Wait) {
	l.t.Helper()
	var c [2]driver.Completion
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); runtime.Gosched() {
		if n := l.dev.Completions(c[:]); n > 0 {
			if n != 1 || c[0].Lane != op.Lane || c[0].Seq != op.Seq || c[0].Err != nil {
				l.t.Fatalf("%d completions: %v", n, c[:n])
			}
			return
		}
	}
	l.t.Fatalf("operation %d of lane %d did not end", op.Seq, op.Lane)
}

// A kernel that does not return and has all cores keeps no launch of another lane from
// ending, detached or not.
func TestLanesAreApart(t *testing.T) {
	l := startLanes(t, 2)
	hung := l.hang(0)
	count := func() {
		t.Helper()
		mem := make([]byte, 100)
		l.ends(l.launch(1, "count", len(mem), mem))
		for i, n := range mem {
			if n != 1 {
				t.Fatalf("item %d was computed %d times", i, n)
			}
		}
	}
	count()
	l.detach(hung)
	count()
	l.letGo()
	l.ends(hung)
	count()
}

// Launches that were detached and have returned leave no goroutine, however many lanes
// the device has.
func TestDetachLeavesNothing(t *testing.T) {
	for _, n := range []int{1, 2} {
		l := startLanes(t, n)
		before := 0
		for i := range 20 {
			hung := l.hang(0)
			l.detach(hung)
			l.letGo()
			l.ends(hung)
			if i == 0 {
				before = runtime.NumGoroutine()
			}
		}
		for end := time.Now().Add(2 * time.Minute); runtime.NumGoroutine() > before; runtime.Gosched() {
			if time.Now().After(end) {
				t.Fatalf("%d lanes: %d goroutines more than after the first", n, runtime.NumGoroutine()-before)
			}
		}
	}
}

// A detached launch that returns when its lane has gone on by more than half of all
// numbers does not move the lane.
func TestDetachedReturnsLate(t *testing.T) {
	l := startLanes(t, 1)
	hung := l.hang(0)
	l.detach(hung)
	const half = 1 << 30
	l.board.Done(0, hung.Seq+half, false)
	l.board.Done(0, hung.Seq+2*half, false)
	l.board.Done(0, hung.Seq+3*half, false)
	l.letGo()
	l.ends(hung)
	if got := l.board.Count(0); got != hung.Seq+3*half {
		t.Errorf("the lane went from operation %d to %d", hung.Seq+3*half, got)
	}
}

// The helper of a grid leaves its core to a launch of another lane, and comes back when
// that has ended.
func TestHelpersLeave(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("a team needs two cores")
	}
	// Each part of the grid waits for a channel of its own, so that no core takes what is for another.
	began, goOn := make(chan chan struct{}, 100), make(chan struct{})
	var cores, twice atomic.Int32 // in the grid now, and how often one began beside another
	single, hold := make(chan struct{}), make(chan struct{})
	devs, err := cpu.New(cpu.Options{Cores: 2, Funcs: map[string]driver.Func{
		"grid": func(*driver.Call, int, int) {
			if cores.Add(1) > 1 {
				twice.Add(1)
			}
			part := make(chan struct{})
			began <- part
			select {
			case <-part:
			case <-goOn:
			}
			cores.Add(-1)
		},
		"single": func(*driver.Call, int, int) {
			single <- struct{}{}
			<-hold
		},
	}}).Open(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	l := &lanes{t: t, dev: devs[0], board: driver.NewBoard(2), last: make([]uint32, 2)}
	l.dev.Attach(l.board, []driver.Lane{0, 1}, func() {})
	defer l.dev.Close()
	letGo := []func(){sync.OnceFunc(func() { close(hold) }), sync.OnceFunc(func() { close(goOn) })}
	defer letGo[1]()
	defer letGo[0]()
	begins := func(what string) (part chan struct{}) {
		t.Helper()
		select {
		case part = <-began:
		case <-time.After(time.Minute):
			t.Fatalf("%s: no core began another part of the grid", what)
		}
		return part
	}
	grid := l.launch(0, "grid", 16, nil) // as many parts
	one, two := begins("alone"), begins("alone")
	other := l.launch(1, "single", 1, nil)
	<-single
	close(one)
	close(two)
	part := begins("beside a launch")
	for end := time.Now().Add(time.Minute); cores.Load() != 1; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("the helper goes on beside a launch that needs its core")
		}
	}
	before := twice.Load()
	for range 5 {
		close(part)
		part = begins("beside a launch")
	}
	if n := twice.Load() - before; n > 0 {
		t.Errorf("the helper took part %d times beside a launch that needs its core", n)
	}
	letGo[0]()
	l.ends(other)
	begins("after it")
	letGo[1]()
	l.ends(grid)
}
