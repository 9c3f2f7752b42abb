package live

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/backend/fake"
	"github.com/weft-run/weft/sched"
)

// rig is what a seed draws once: a runtime with its options and devices, what may happen to
// these, and what graphs may have. An option that makes errors legitimate is noted with them:
// excused looks there.
type rig struct {
	*weft.Runtime
	o        weft.Options
	drv      *fake.Driver // nil without scripted devices
	fakes    int
	kernels  *kernels
	names    []string // of all devices
	log      *tail
	calm     bool     // nothing happens to devices, and kernels do not fail
	what     []string // what scripted devices are told, %d being a device
	copies   bool     // copies fail
	service  bool     // devices are drained, swapped, probed and recovered
	cancels  bool
	pace     time.Duration // the longest pause between two things that happen
	deeds    int           // how many happen: a task that fails ten times waits for a second before the next
	maxBytes int           // of data
	extra    byte          // of all tasks
	secret   bool
	volatile bool
	gangs    int
	only     []string // selectors of tasks
	corrupt  bool     // results are changed
	limited  bool     // scripted devices have less memory than they said
	few      bool     // retries, failures or losses are few, so that they can be used up
	memory   int64    // of each scripted device
}

// tail is a log of which the end is kept.
type tail struct {
	mu    sync.Mutex
	lines []string
}

func (l *tail) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) > 40 {
		l.lines = l.lines[20:]
	}
	l.lines = append(l.lines, string(b))
	return len(b), nil
}

func (l *tail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "")
}

// one reports true for one in n.
func one(r *rand.Rand, n int) bool { return r.IntN(n) == 0 }

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// drawRig draws everything but the runtime.
func drawRig(r *rand.Rand) *rig {
	g := &rig{kernels: &kernels{}, log: &tail{}, maxBytes: pick(r, 1, 8, 60, 300, 300, 2000, 9000)}
	g.o = weft.Options{
		NoCalibrate: true, CacheDir: "off", Retries: 50, MaxLosses: 1000, MaxFailures: 1000, Funcs: g.kernels.funcs(),
		CloseWait: *limitFlag / 4, // a busy machine takes its time
	}
	g.o.Log = slog.New(slog.NewTextHandler(g.log, nil))
	g.calm, g.cancels = one(r, 6), one(r, 2)
	g.pace, g.deeds = pick(r, time.Millisecond, 4*time.Millisecond, 10*time.Millisecond), 10+r.IntN(20)
	g.secret, g.volatile = one(r, 3), one(r, 8)
	if !g.calm && one(r, 3) {
		g.extra |= fragile
	}
	g.drawOptions(r)
	g.drawDevices(r)
	if !g.calm {
		g.drawTrouble(r)
	}
	if one(r, 4) {
		g.o.HostBytes = int64(g.maxBytes) << (4 + r.IntN(9))
	}
	return g
}

// drawOptions draws what is independent of the devices.
func (g *rig) drawOptions(r *rand.Rand) {
	o := &g.o
	o.Policy = pick(r, append(sched.Names(), "", "roundrobin", "roundrobin")...)
	if o.Policy == "hierarchical" {
		o.PolicyBetween, o.PolicyWithin = pick(r, "", "finish", "leastloaded", "capacity", "roundrobin"), pick(r, "", "finish", "roundrobin")
	}
	if one(r, 3) {
		o.Concurrent = 1 + r.IntN(6)
	}
	if one(r, 3) {
		o.Streams = 1 + r.IntN(5)
	}
	if o.Verify = max(0, r.IntN(7)-3); *verifyFlag >= 0 {
		o.Verify = *verifyFlag
	}
	o.Checksums, o.Pin, o.Exact = one(r, 4), one(r, 8), one(r, 8)
	o.PoolBytes = pick[int64](r, 0, 0, -1, 1000)
	if one(r, 3) {
		o.ProbeInterval = pick(r, -1, time.Duration(10+r.IntN(50))*time.Millisecond)
	}
	if one(r, 3) {
		o.HealthInterval = pick(r, -1, time.Millisecond, 20*time.Millisecond)
	}
	if one(r, 3) {
		o.RebalanceInterval, o.RebalanceThreshold = pick(r, -1, time.Millisecond), 0.05
	}
	if one(r, 3) {
		o.Trace = pick(r, 10, 5000)
	}
	if one(r, 8) {
		o.Explain = func(sched.Explanation) {}
	}
	if one(r, 6) {
		o.TaskTimeout = pick(r, -1, 30*time.Second)
	}
	if !g.calm && one(r, 8) {
		g.few = true
		o.Retries, o.MaxFailures, o.MaxLosses = pick(r, -1, 1, 3), pick(r, 1, 3, 1000), pick(r, -1, 1, 2, 1000)
	}
	if one(r, 10) {
		o.NoFaultTolerance = true
	}
	if one(r, 8) {
		o.Ladder = pick(r, "standby, reopen", "restart:1s", "reopen:30s, restart")
	}
}

// drawDevices draws which devices there are: cores, cores in workers, scripted ones, or cores and scripted ones.
func (g *rig) drawDevices(r *rand.Rand) {
	o := &g.o
	kind := pick(r, "fake", "fake", "mixed", "mixed", "mixed", "cpu", "isolated")
	if kind == "isolated" && (runtime.GOOS != "linux" || !one(r, 2)) { // to start workers takes long
		kind = "mixed"
	}
	switch kind {
	case "cpu":
		o.Devices = fmt.Sprintf("cpu/%d", 2+r.IntN(4))
		return
	case "isolated":
		o.Devices, o.Isolate, o.Confine, o.Standby = fmt.Sprintf("cpu/%d", 2+r.IntN(2)), true, one(r, 2), one(r, 2)
		if one(r, 2) {
			o.WorkerBytes = 256 << 20
		}
		if !g.calm && one(r, 2) {
			g.extra |= deadly
			o.Ladder = strings.Repeat("restart:1m, ", 15) + "restart:1m" // a device that is lost more often within some seconds is broken
		}
		return
	}
	g.fakes = 2 + r.IntN(4)
	g.memory = int64(20+r.IntN(60)) * int64(g.maxBytes)
	f := fake.Options{Devices: g.fakes, MemBytes: g.memory, Lanes: 1 + r.IntN(3), Peer: one(r, 2), Funcs: o.Funcs}
	var err error
	if g.drv, err = fake.New(f); err != nil {
		panic(fmt.Sprint("live: ", err))
	}
	o.Drivers = []driver.Driver{g.drv}
	if kind == "mixed" {
		o.Drivers = append(o.Drivers, cpu.New(cpu.Options{Parts: 1 + r.IntN(3), Cores: pick(r, 0, 1), Funcs: o.Funcs}))
		g.only = []string{"cpu"}
	}
	if one(r, 2) {
		g.only = append(g.only, "fake")
	}
	if o.Exact && kind == "mixed" {
		g.only = nil // of the backends one is used
	}
	if one(r, 4) {
		o.Spares = fmt.Sprintf("fake:%d", g.fakes-1)
		if o.Exact || o.Verify > 0 && g.fakes < 3 {
			o.Spares = ""
		}
	}
	if one(r, 4) && o.Verify == 0 {
		g.gangs = 2
	}
}

// drawTrouble draws what may happen. Scripted devices are told so with %d for the number of one.
func (g *rig) drawTrouble(r *rand.Rand) {
	g.service, g.copies = one(r, 2), one(r, 2)
	least := int64(20 * g.maxBytes)
	for _, group := range [][]string{
		{"on %d fail launches times 1", "on %d fail kernel wide times 1"},
		{"on %d lose", "on %d lose copies times 1", "on %d lose launches times 1"},
		{"on %d take 1ms launches times 2", "on %d take 2ms copies times 1"},
		{"on %d hang launches times 1", "release", "release"},
		{fmt.Sprintf("on %%d limit %d", least), fmt.Sprintf("on %%d limit %d", max(least, g.memory))},
		{"on %d set temp 95", "on %d set temp 40", "on %d set util 0.9"},
		{"on %d revive standby fails times 1", "on %d revive restart kept times 1", "on %d revive reopen fails times 1"},
	} {
		if one(r, 2) {
			g.what = append(g.what, group...)
		}
	}
	g.limited = slices.ContainsFunc(g.what, func(w string) bool { return strings.Contains(w, "limit") })
	if g.drv != nil && g.fakes > 2 && one(r, 8) {
		g.corrupt, g.service = true, true // a device that is blamed is drained: service puts it back
		g.what = append(g.what, "on %d corrupt kernel mix times 1", "on %d corrupt kernel wide times 1")
	}
}

// open opens the runtime.
func (g *rig) open(ctx context.Context) (err error) {
	if g.Runtime, err = weft.Open(ctx, g.o); err != nil {
		return err
	}
	g.names = nil
	for _, d := range g.Devices() {
		g.names = append(g.names, d.Name)
	}
	return nil
}

// String describes the rig for a failure's message.
func (g *rig) String() string {
	o, err := g.o.MarshalJSON()
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("options %s; devices %v; up to %d bytes; calm %v, copies %v, service %v, cancels %v, extra %d, gangs %d, volatile %v, secret %v, %d deeds with pauses up to %v, memory %d, what %q",
		o, g.names, g.maxBytes, g.calm, g.copies, g.service, g.cancels, g.extra, g.gangs, g.volatile, g.secret, g.deeds, g.pace, g.memory, g.what)
}

// trouble has things happen until over is closed, and then, or when enough has happened, puts all
// into service again.
func (g *rig) trouble(ctx context.Context, r *rand.Rand, over <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var asked sync.WaitGroup
	defer asked.Wait()
	for left := g.deeds; ; left-- {
		select {
		case <-over:
			cancel()
			asked.Wait()
			return g.soothe()
		case <-time.After(time.Duration(r.Int64N(int64(g.pace)))):
		}
		if g.drv != nil && g.copies && one(r, 2) { // for as long as it goes on: it costs no attempt
			if err := g.play(r, pick(r, "on %d fail copies times 1", "on %d fail copies times 1", "on %d fail copies times 3")); err != nil {
				return err
			}
		}
		if left < 0 { // what is asked of devices may have come after the last time
			if err := g.soothe(); err != nil {
				return err
			}
			continue
		}
		if g.drv != nil && len(g.what) > 0 && !one(r, 4) {
			if err := g.play(r, g.what[r.IntN(len(g.what))]); err != nil {
				return err
			}
		}
		if g.service && one(r, 3) {
			asked.Go(g.serve(ctx, r))
		}
		switch r.IntN(20) {
		case 0:
			g.Metrics()
			g.Runs()
			g.Running()
		case 1:
			_ = g.Checkpoint(ctx) // which errs if nothing is kept
		case 2:
			g.undrain()
		}
	}
}

// soothe puts all into service again.
func (g *rig) soothe() error {
	g.undrain()
	if g.drv == nil {
		return nil
	}
	return g.drv.Play("release; set temp 40; set util 0.1")
}

// undrain puts every device into service, so that no task waits for one for ever.
func (g *rig) undrain() {
	for _, n := range g.names {
		_ = g.Undrain(n) // it may be lost
	}
}

// play tells a scripted device something. Where tasks need one the first is never lost.
func (g *rig) play(r *rand.Rand, what string) error {
	if strings.Contains(what, "%d") {
		first := 0
		if (len(g.names) == g.fakes || slices.Contains(g.only, "fake")) && strings.Contains(what, "lose") {
			first = 1
		}
		what = fmt.Sprintf(what, first+r.IntN(g.fakes-first))
	}
	if err := g.drv.Play(what); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// serve returns something that is asked of a device. It may fail.
func (g *rig) serve(ctx context.Context, r *rand.Rand) func() {
	name, other, limit := pick(r, g.names...), pick(r, g.names...), time.Duration(r.IntN(20))*time.Millisecond
	kind := r.IntN(6)
	return func() {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		switch kind {
		case 0:
			_ = g.Drain(ctx, name)
		case 1, 2:
			_ = g.Undrain(name)
		case 3:
			_ = g.Swap(ctx, name, other)
		case 4:
			_, _ = g.Probe(ctx, name)
		case 5:
			_ = g.Recover(ctx, name)
		}
	}
}

// memoryFits reports whether a run has so much host memory to itself that it cannot lack any. Old
// versions stay for as long as something on a device would be computed again from them.
func (g *rig) memoryFits(p *program) bool {
	const versions = 24
	return g.o.HostBytes == 0 || g.o.HostBytes >= versions*p.total+p.need
}
