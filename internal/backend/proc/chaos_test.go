//go:build linux

package proc_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/arena"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/backend/proc"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/exec"
	"github.com/weft-run/weft/internal/test/poll"
	"github.com/weft-run/weft/machine"
)

var (
	chaosRounds = flag.Int("chaos.rounds", 6, "how many children the tests of chaos strike")
	chaosSeed   = flag.Uint64("chaos.seed", 1, "what decides which, when and how")
	// A wait that is too short for a busy machine is one strike more.
	chaosWait = flag.Duration("chaos.wait", 2*time.Second, "how long children may be silent in the tests of chaos")
)

// What a child does to itself when it is told to.
const (
	sigHang    = syscall.SIGUSR1
	sigGarbage = syscall.SIGUSR2
)

// obey has a child do what chaos tells it to. It is called before the process turns
// into one.
func obey() {
	told := make(chan os.Signal, 8)
	signal.Notify(told, sigHang, sigGarbage)
	go func() {
		for s := range told {
			if s == sigHang {
				hang()
			} else {
				garble()
			}
		}
	}()
}

// hang stops every goroutine of this process for good: Go stops them while it writes a
// heap dump, and this dump goes to a pipe that is never read.
func hang() {
	_, w, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	debug.WriteHeapDump(w.Fd())
}

// garble writes nonsense to all that the parent reads.
func garble() {
	junk := make([]byte, 1<<16)
	for i := range junk {
		junk[i] = byte(rand.Uint32())
	}
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(err)
	}
	for _, e := range list {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			panic(err)
		}
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		switch {
		case err != nil:
		case strings.HasPrefix(to, "socket:"):
			_ = unix.Sendmsg(fd, junk[:1+rand.IntN(1000)], unix.UnixRights(0), nil, 0) // the parent may be gone
		case strings.HasPrefix(to, "/memfd:weft rings"):
			var st unix.Stat_t
			if unix.Fstat(fd, &st) == nil {
				for at := int64(0); at < st.Size; at += int64(len(junk)) {
					_, _ = unix.Pwrite(fd, junk[:min(int64(len(junk)), st.Size-at)], at)
				}
			}
		}
	}
}

// chaotic describes a chaos test: how children are started, and the work they get.
type chaotic struct {
	o proc.Options
	// work returns a graph, what it begins with, and what it ends with.
	work func(t *testing.T, rnd *rand.Rand) (g *graph.Graph, in, want []byte)
}

// chaos opens devices, runs graphs and closes devices, again and again, and strikes
// children meanwhile. Every result is right, or there is an error that says what
// happened, and at the end nothing is left.
func chaos(t *testing.T, c chaotic) {
	t.Setenv("TMPDIR", t.TempDir())
	rnd := rand.New(rand.NewPCG(*chaosSeed, 14))
	m := &mayhem{t: t, rnd: rnd, told: map[string]int{}}
	quiet := 0 // opens in a row that failed though no process was struck
	for m.struck < *chaosRounds {
		m.look()
		r, err := m.open(c)
		switch {
		case err != nil && m.idle && quiet == 5:
			t.Fatalf("devices never open: %v", err)
		case err != nil && m.idle:
			quiet++
		default:
			quiet = 0
		}
		if err == nil {
			for range 1 + rnd.IntN(4) {
				if !m.run(c, r) {
					break
				}
			}
			m.close(r)
		}
		m.nothingLeft()
	}
	t.Logf("seed %d: %d strikes, %v", *chaosSeed, m.struck, m.told)
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
}

// mayhem is one test's chaos.
type mayhem struct {
	t      *testing.T
	rnd    *rand.Rand
	struck int
	idle   bool           // no process was struck while devices opened
	told   map[string]int // how often what came about
	// What there was before devices opened.
	fds, routines, processes int
}

// deeds are the ways to strike a child, each by a signal.
var deeds = []struct {
	name   string
	signal syscall.Signal
}{{"kill", syscall.SIGKILL}, {"stop", syscall.SIGSTOP}, {"segfault", syscall.SIGSEGV}, {"hang", sigHang}, {"garbage", sigGarbage}}

// strike waits a moment and strikes a child. It reports whether there was one.
func (m *mayhem) strike(within time.Duration) bool {
	role := []string{"worker", "worker", "keeper"}[m.rnd.IntN(3)] // a standby is a worker
	deed := deeds[m.rnd.IntN(len(deeds))]
	time.Sleep(time.Duration(m.rnd.Int64N(int64(within))))
	all := proc.Pids(role)
	if len(all) == 0 {
		return false
	}
	if syscall.Kill(all[m.rnd.IntN(len(all))], deed.signal) != nil {
		return false // it has ended by itself
	}
	m.struck++
	m.told[deed.name]++
	return true
}

// open opens devices, and strikes meanwhile now and then.
func (m *mayhem) open(c chaotic) (*rig, error) {
	mem, err := arena.Open(1 << 28)
	if err != nil {
		m.t.Fatal(err)
	}
	o := c.o
	o.Memory, o.HangTimeout, o.Answer, o.Standby = mem, *chaosWait, *chaosWait, m.rnd.IntN(2) == 0
	copier, err := cpu.New(cpu.Options{Cores: 1}).Open(context.Background(), nil)
	if err != nil {
		m.t.Fatal(err)
	}
	book := &logBook{}
	type opened struct {
		x   *exec.Executor
		err error
	}
	done := make(chan opened, 1)
	go func() {
		x, err := exec.Open(context.Background(), exec.Config{
			Drivers: []driver.Driver{proc.New(o)}, Copier: copier[0], Log: slog.New(slog.NewTextHandler(book, nil)),
			Engine: engine.Options{Retries: 100, Health: engine.HealthRules{Trust: time.Nanosecond, MaxLosses: 1000, RungTimeout: 10 * *chaosWait}},
		})
		done <- opened{x, err}
	}()
	m.idle = m.rnd.IntN(3) > 0 || !m.strike(300*time.Millisecond)
	select {
	case got := <-done:
		if got.err != nil {
			m.told["open failed"]++
			m.clear("open", got.err)
			mem.Close()
			return nil, got.err
		}
		return &rig{got.x, mem, book}, nil
	case <-time.After(5 * time.Minute):
		m.t.Fatalf("devices never open:\n%s\n%s", book, stacks())
		return nil, nil
	}
}

// run runs a graph and strikes before, meanwhile or after. It reports whether the
// devices are of use still.
func (m *mayhem) run(c chaotic, r *rig) bool {
	g, in, want := c.work(m.t, m.rnd)
	type ended struct {
		out []byte
		err error
	}
	if m.rnd.IntN(3) == 0 {
		m.strike(time.Millisecond)
	}
	done := make(chan ended, 1)
	go func() {
		out := make([]byte, len(want))
		mem := make([][]byte, g.NumData())
		for i := range mem {
			switch d := g.Data(graph.DataID(i)); {
			case d.Output:
				copy(out, in) // of use where it is the input too
				mem[i] = out
			case d.Input:
				mem[i] = in
			}
		}
		_, err := r.Run(context.Background(), g, engine.RunOptions{}, func(d graph.DataID) []byte { return mem[d] })
		done <- ended{out, err}
	}()
	m.strike(50 * time.Millisecond)
	select {
	case got := <-done:
		if got.err != nil {
			m.told["run failed"]++
			m.clear("run", got.err)
		} else if !bytes.Equal(got.out, want) {
			m.t.Fatalf("a result is wrong:\n%s", r.log)
		} else {
			m.told["right"]++
		}
	case <-time.After(10 * time.Minute):
		m.t.Fatalf("a run never ends:\n%s\n%s", r.log, stacks())
	}
	use := false
	r.Look(func(_ machine.Cost, st []engine.DeviceStatus) {
		for i := range st {
			use = use || st[i].State != engine.Broken
		}
	})
	return use
}

// clear fails the test if an error does not say what happened, in some words.
func (m *mayhem) clear(what string, err error) {
	m.t.Helper()
	text := err.Error()
	m.t.Logf("strike %d: %s: %s", m.struck, what, text)
	if len(text) > 4096 || !strings.Contains(text, ":") || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		m.t.Errorf("%s: %q says little, or too much", what, text)
	}
}

func (m *mayhem) close(r *rig) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := r.Close(ctx); err != nil {
		m.t.Fatalf("close: %v\n%s\n%s", err, r.log, stacks())
	}
	if err := r.mem.Close(); err != nil {
		m.t.Error(err)
	}
}

// look notes what there is while no devices are open.
func (m *mayhem) look() {
	m.fds, _ = usage(m.t)
	m.routines, m.processes = runtime.NumGoroutine(), children()
}

// nothingLeft waits until there is no more than before: what was killed last may not
// be cleared away yet.
func (m *mayhem) nothingLeft() {
	m.t.Helper()
	var fds, routines, processes int
	if !poll.Within(2*time.Minute, func() bool {
		fds, _ = usage(m.t)
		routines, processes = runtime.NumGoroutine(), children()
		return fds <= m.fds && routines <= m.routines && processes <= m.processes
	}) {
		m.t.Fatalf("left are %d descriptors (%d before), %d goroutines (%d), %d processes (%d):\n%s",
			fds, m.fds, routines, m.routines, processes, m.processes, stacks())
	}
}

func stacks() []byte {
	all := make([]byte, 1<<20)
	return all[:runtime.Stack(all, true)]
}

// Chaos with scripted devices.
func TestChaos(t *testing.T) {
	chaos(t, chaotic{
		o: proc.Options{Driver: "fake", Config: []byte("devices 2\ntake 1ms launches")},
		work: func(t *testing.T, rnd *rand.Rand) (*graph.Graph, []byte, []byte) {
			return chain(t, 1000+rnd.Int64N(1<<20), 8, 4)
		},
	})
}

// increments is a graph whose tasks each run a kernel that adds one to n words, and
// what it begins and ends with.
func increments(t *testing.T, k *graph.Kernel, params any, n, tasks int) (g *graph.Graph, in, want []byte) {
	t.Helper()
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: int64(4 * n), Input: true, Output: true})
	for i := range tasks {
		b.Add(graph.Task{
			Name:  fmt.Sprintf("add %d", i),
			Steps: []graph.Step{graph.Step{Kernel: k, Launch: graph.Launch{Grid: [3]uint32{uint32(n), 1, 1}}}.With(params)},
			Uses:  []graph.Use{{Data: x, Access: graph.ReadWrite}},
		})
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint32(n) {
		in = binary.LittleEndian.AppendUint32(in, i*2654435761)
		want = binary.LittleEndian.AppendUint32(want, i*2654435761+uint32(tasks))
	}
	return g, in, want
}
