package bench

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/chaos"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/trace"
)

// failoverRow says what became of tasks whose workers were struck.
type failoverRow struct {
	Case    string `json:"case"` // kill, hang
	Backend string `json:"backend"`
	Devices int    `json:"devices"`
	Seed    uint64 `json:"seed"`
	Kills   int    `json:"kills"` // or stops, of case hang
	// Requeued is the number of them that hit a device with a task. The others say nothing about
	// failover.
	Requeued int `json:"requeued"`
	// DetectMS is the time from the signal until the runtime knows that the device is lost,
	// FailoverMS that from then until the first task that was requeued starts, AddedMS how
	// much longer the run of such a task took than the median of undisturbed ones, BackMS
	// the time from the loss until the device takes work again.
	DetectMS   chaos.Spread `json:"detect_ms"`
	FailoverMS chaos.Spread `json:"failover_ms"`
	AddedMS    chaos.Spread `json:"added_ms"`
	BackMS     chaos.Spread `json:"device_back_ms"`
	// TimeoutMS is the time a worker may be silent; 0 for case kill, which waits for no silence.
	TimeoutMS float64 `json:"timeout_ms"`
	// Of Tasks that ran, Lost ended with an error and the results of Duplicated were
	// delivered more than once. A wrong result is an error of the benchmark.
	Tasks      int    `json:"tasks"`
	Lost       int    `json:"lost"`
	Duplicated int    `json:"duplicated"`
	Error      string `json:"error,omitempty"` // of the first task that was lost
}

// Limits that docs/TESTING.md sets for failover, in milliseconds.
const (
	detectBar   = 5.0   // a dead worker
	hungBar     = 100.0 // a hung one, beyond its timeout
	failoverBar = 10.0
)

// failover is the benchmark of that name.
type failover struct {
	kills, hangs int
	seed         uint64
}

func newFailover(s Setup) *cobra.Command {
	var o failover
	c := benchmark[failoverRow]{
		use:   "failover",
		short: "How fast work goes on when a worker process is killed",
		long: `Kill worker processes at random moments while they run a stream of tasks, and
see how fast the work goes on elsewhere. One device fewer is kept busy than
there are, so that one is idle to take over. detect_ms is the time from the
signal until weft knows, failover_ms that from then until the first task that
was requeued starts, added_ms what the loss cost the run of that task. Every
result is compared with what it should be; lost are tasks that ended with an
error, duplicated those whose result came more than once.

With --hang, workers are also stopped (SIGSTOP): such a one is given up on when
it was silent for --hang-timeout (2s here).

The devices are cores (cpu/2), scripted devices (fake/2) or GPUs of NVIDIA
(cuda:0/4), each in a worker process of its own. Needs Linux. When --timeout
comes, figures cover the workers killed until then. weft chaos serve measures
the requests to a service.`,
		repeat: 1, measure: o.measure, text: writeFailover,
	}.command(s)
	c.Flags().IntVar(&o.kills, "kills", 200, "workers to kill")
	c.Flags().IntVar(&o.hangs, "hang", 0, "workers to stop")
	c.Flags().Uint64Var(&o.seed, "seed", 1, "decides which worker is struck, and when")
	return c
}

func (o *failover) measure(m *meter) (rows []failoverRow, err error) {
	switch {
	case o.kills < 0 || o.hangs < 0:
		return nil, terminal.Usagef("--kills %d --hang %d: neither can be less than 0", o.kills, o.hangs)
	case o.kills+o.hangs == 0:
		return nil, terminal.Usagef("--kills 0 --hang 0: nothing would be measured; give one of them")
	}
	if m.options.Devices == "" {
		m.options.Devices = "cpu/2"
	}
	hang := cmp.Or(m.options.HangTimeout, 2*time.Second)
	p := m.progress("strike", (o.kills+o.hangs)*m.repeat)
	defer p.Finish()
	for range m.repeat {
		for _, c := range []*failoverTrial{
			{strike: chaos.Kill, count: o.kills, miss: failoverMiss},
			{strike: chaos.Stop, count: o.hangs, hang: hang, miss: failoverMiss + hang},
		} {
			if c.count == 0 {
				continue
			}
			c.m, c.p, c.rnd = m, p, rand.New(rand.NewPCG(o.seed, uint64(c.strike)))
			c.row.Seed = o.seed
			p.At("%s", c.strike)
			err := c.run()
			if err == nil || m.ctx.Err() != nil && c.row.Kills > 0 { // of what there was time for
				rows = append(rows, c.row)
			}
			if err != nil {
				return rows, err
			}
		}
	}
	return rows, nil
}

// failoverKernel makes of each byte x at i the byte 3x + i, again and again for as long as its
// parameter says, so that a worker dies while it computes.
const failoverKernel = "bench.failover"

type failoverParams struct{ Nanos int64 }

//go:embed failover.ptx.gz
var failoverPTX []byte

// failoverStepKernel is that kernel for cores and for GPUs of NVIDIA.
var failoverStepKernel = &graph.Kernel{Name: failoverKernel, Impls: []graph.Impl{
	{Dialect: graph.Go, Entry: failoverKernel},
	{Dialect: graph.PTX, Arch: "sm_75", Entry: "failover", Source: failoverPTX, Per: [3]uint32{256}, Block: [3]uint32{256}},
}}

func failoverStep(c *weft.Call, p failoverParams, lo, hi int) {
	for end := time.Now().Add(time.Duration(p.Nanos)); ; {
		for i := lo; i < hi; i++ {
			c.Args[1][i] = c.Args[0][i]*3 + byte(i)
		}
		if c.Stopped() || !time.Now().Before(end) {
			return
		}
	}
}

const (
	failoverBytes = 4096
	failoverTask  = 5 * time.Millisecond // far longer than starting a task on a worker
	// failoverQuiet is the number of undisturbed tasks of each stream that are measured first.
	failoverQuiet = 50
	// failoverWait is the limit on every wait of the benchmark. failoverMiss, added to the time that
	// a worker may be silent, is the limit after which a strike without effect counts as a miss; it
	// is long because the machine may be very busy. Time is counted by failoverTick.
	failoverWait = 2 * time.Minute
	failoverMiss = 20 * time.Second
	failoverTick = 100 * time.Millisecond
	// failoverEvents is the number of events the trace keeps: a strike's are read soon after it.
	failoverEvents = 1 << 12
)

// failoverTrial strikes workers in one way, again and again.
type failoverTrial struct {
	m      *meter
	p      *terminal.Progress
	rnd    *rand.Rand
	strike chaos.Strike
	count  int
	hang   time.Duration
	miss   time.Duration // how long a strike may show nothing until it is taken to have missed
	row    failoverRow

	rig     *chaos.Rig
	changes chan weft.Event
	opened  time.Time // what events count from
	usual   float64   // what an undisturbed run takes, in milliseconds
	detect  []float64
	over    []float64
	added   []float64
	back    []float64

	mu     sync.Mutex
	runs   []int             // by stream, how many have ended
	took   map[int64]float64 // by run, since the last strike
	done   map[int64]int     // by run, how often its task was done, replays not counted
	wrong  error
	missed uint64
}

func (t *failoverTrial) run() (err error) {
	o := t.m.options
	o.Trace = failoverEvents
	o.HangTimeout = cmp.Or(t.hang, o.HangTimeout)
	t.rig, err = chaos.Open(t.m.ctx, o, chaos.Workers{})
	if err != nil {
		return terminal.Usage(err)
	}
	defer func() { err = errors.Join(err, t.rig.Close()) }()
	devs := t.rig.Devices()
	if len(devs) < 2 {
		return terminal.Usagef("--devices %s: failover needs two devices at least, as in cpu/2", o.Devices)
	}
	for _, d := range t.rig.Machine().Devices {
		if !d.CanRun(failoverStepKernel) {
			return terminal.Usagef("--devices %s: %s cannot run the tasks of failover, which are for cores, scripted devices and GPUs of NVIDIA", o.Devices, d.Name)
		}
	}
	t.row.Case, t.row.Backend, t.row.Devices, t.row.TimeoutMS = t.strike.String(), devs[0].Backend, len(devs), t.hang.Seconds()*1e3
	t.runs, t.took, t.done = make([]int, len(devs)-1), make(map[int64]float64), make(map[int64]int)
	t.changes = make(chan weft.Event, 4*len(devs))

	ctx, cancel := context.WithCancel(t.m.ctx)
	var watcher, streams sync.WaitGroup
	events := t.rig.Events(ctx, weft.EventDevice, weft.EventTaskDone, weft.EventTaskReplayed)
	watcher.Go(func() { t.watch(ctx, events) })
	enough := make(chan struct{})
	for i := range t.runs {
		streams.Go(func() { t.stream(ctx, i, enough) })
	}
	err = t.strikes(ctx)
	close(enough)
	if err != nil {
		cancel() // tasks may be what does not end
	}
	streams.Wait()
	cancel()
	watcher.Wait()
	if err == nil || t.m.ctx.Err() != nil {
		err = cmp.Or(t.settle(), err)
	}
	return err
}

// settle computes the row.
func (t *failoverTrial) settle() error {
	if t.wrong != nil {
		return t.wrong
	}
	if t.missed > 0 {
		return fmt.Errorf("%d events were missed, so that results delivered twice cannot be counted; use a machine that is less busy", t.missed)
	}
	for _, n := range t.runs {
		t.row.Tasks += n
	}
	for _, n := range t.done {
		if n > 1 {
			t.row.Duplicated++
		}
	}
	t.row.Kills, t.row.Requeued = len(t.detect), len(t.over)
	t.row.DetectMS, t.row.FailoverMS, t.row.AddedMS, t.row.BackMS = chaos.SpreadOf(t.detect), chaos.SpreadOf(t.over), chaos.SpreadOf(t.added), chaos.SpreadOf(t.back)
	return nil
}

// watch counts results as they are delivered and passes changes of devices on.
func (t *failoverTrial) watch(ctx context.Context, events func(func(weft.Event) bool)) {
	for e := range events {
		switch e.Kind {
		case weft.EventDevice:
			select {
			case t.changes <- e:
			case <-ctx.Done():
				return
			}
			continue
		}
		t.mu.Lock()
		switch e.Kind {
		case weft.EventTaskDone:
			t.done[e.Run]++
		case weft.EventTaskReplayed:
			t.done[e.Run]--
		case weft.EventMissed:
			t.missed += e.Missed
		}
		t.mu.Unlock()
	}
}

// stream runs one task after another until there are enough, each with other bytes.
func (t *failoverTrial) stream(ctx context.Context, number int, enough <-chan struct{}) {
	var b graph.Builder
	from := b.Data(graph.Data{Name: "from", Bytes: failoverBytes, Input: true})
	to := b.Data(graph.Data{Name: "to", Bytes: failoverBytes, Output: true})
	step := graph.Step{Kernel: failoverStepKernel, Launch: graph.Launch{Grid: [3]uint32{failoverBytes, 1, 1}}}
	b.Add(graph.Task{Name: "step", Steps: []graph.Step{step.With(failoverParams{failoverTask.Nanoseconds()})},
		Uses: []graph.Use{{Data: from, Access: graph.Read}, {Data: to, Access: graph.Write}}})
	g, err := b.Build()
	for n := 0; err == nil; n++ {
		select {
		case <-enough:
			return
		case <-ctx.Done():
			return
		default:
		}
		in, out := noisy(failoverBytes, n*31+number), make([]byte, failoverBytes)
		for i := range out {
			out[i] = ^(in[i]*3 + byte(i)) // none of them right
		}
		began := time.Now()
		rep, failed := t.rig.Run(ctx, g, weft.Bind("from", in), weft.Bind("to", out))
		took := time.Since(began)
		if failed != nil && ctx.Err() != nil {
			return
		}
		t.mu.Lock()
		t.runs[number]++
		if failed != nil {
			t.row.Lost++
			if t.row.Error == "" {
				t.row.Error = failed.Error()
			}
		} else {
			t.took[rep.Run] = took.Seconds() * 1e3
			for i, x := range out {
				if x != in[i]*3+byte(i) {
					err = fmt.Errorf("task %d of stream %d: byte %d of its result is %d and should be %d", n, number, i, x, in[i]*3+byte(i))
					break
				}
			}
		}
		t.mu.Unlock()
	}
	t.mu.Lock()
	t.wrong = errors.Join(t.wrong, err)
	t.mu.Unlock()
}

// strikes measures undisturbed tasks, then strikes.
func (t *failoverTrial) strikes(ctx context.Context) error {
	if err := t.ended(ctx, failoverQuiet); err != nil {
		return err
	}
	t.mu.Lock()
	var quiet []float64
	for _, x := range t.took {
		quiet = append(quiet, x)
	}
	t.mu.Unlock()
	if len(quiet) == 0 {
		return fmt.Errorf("no task runs even undisturbed: %s", t.row.Error)
	}
	t.usual = median(quiet)
	t.opened = t.rig.Opened()
	for range t.count {
		if err := t.once(ctx); err != nil {
			return err
		}
		t.p.Add()
	}
	return nil
}

// ended waits until each stream has run n more tasks.
func (t *failoverTrial) ended(ctx context.Context, n int) error {
	t.mu.Lock()
	want := slices.Clone(t.runs)
	t.mu.Unlock()
	for limit := time.Now().Add(failoverWait); ; {
		t.mu.Lock()
		all, wrong := true, t.wrong
		for i := range want {
			all = all && t.runs[i] >= want[i]+n
		}
		t.mu.Unlock()
		switch {
		case all || wrong != nil:
			return wrong
		case time.Now().After(limit):
			return fmt.Errorf("tasks have not gone on within %v", failoverWait)
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

// pause waits, or returns why ctx ended.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// once strikes a worker and measures what follows, until all is as before.
func (t *failoverTrial) once(ctx context.Context) error {
	t.mu.Lock()
	clear(t.took)
	t.mu.Unlock()
	if err := pause(ctx, time.Duration(t.rnd.Int64N(int64(4*failoverTask)))); err != nil {
		return err
	}
	struck, lost, err := t.hit(ctx)
	if err != nil {
		return err
	}
	back, err := t.next(ctx, struck, failoverWait, "healthy", lost.Device)
	if err != nil {
		return err
	}
	if err := t.ended(ctx, 2); err != nil { // those under way, and another
		return err
	}
	t.detect = append(t.detect, t.opened.Add(lost.At).Sub(struck).Seconds()*1e3)
	t.back = append(t.back, (back.At-lost.At).Seconds()*1e3)
	first, runs := requeued(t.rig.Trace(), slices.IndexFunc(t.rig.Devices(), func(d weft.Device) bool { return d.Name == lost.Device }))
	if len(runs) == 0 {
		return nil
	}
	t.over = append(t.over, first.Seconds()*1e3)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range runs {
		if took, ok := t.took[r]; ok {
			t.added = append(t.added, took-t.usual)
		}
	}
	return nil
}

// hit strikes workers until a device is lost, and returns when the last was struck and the loss. A
// strike costs no device where it hits a worker that stands by, or one that ends by itself.
func (t *failoverTrial) hit(ctx context.Context) (struck time.Time, lost weft.Event, err error) {
	for left := failoverWait; left > 0; left -= t.miss {
		if err = t.settled(ctx); err != nil {
			return struck, lost, err
		}
		if struck, err = chaos.Any(t.rnd, t.strike); err != nil {
			return struck, lost, err
		}
		if lost, err = t.next(ctx, struck, t.miss, "lost", ""); !errors.Is(err, errLate) {
			return struck, lost, err
		}
	}
	return struck, lost, err
}

// settled waits until all devices are healthy, and lets pass what became of them before a strike:
// on a busy machine one may be lost by itself, and the worker that is started for it is no
// device's yet.
func (t *failoverTrial) settled(ctx context.Context) error {
	for {
		select {
		case c := <-t.changes:
			if err := t.revive(ctx, c); err != nil {
				return err
			}
			continue
		default:
		}
		if !slices.ContainsFunc(t.rig.Devices(), func(d weft.Device) bool { return d.State != "healthy" }) {
			return nil
		}
		if _, err := t.next(ctx, time.Time{}, failoverWait, "healthy", ""); err != nil {
			return err
		}
	}
}

// revive brings a device back that was given up.
func (t *failoverTrial) revive(ctx context.Context, c weft.Event) error {
	if c.To != "broken" {
		return nil
	}
	return t.rig.Recover(ctx, c.Device)
}

// errLate is wrapped by the error of something that did not happen in time.
var errLate = errors.New("it is late")

// next waits until a device, or any if none is named, reaches a state at a time past after. It
// brings back a device that is given up. The time in which this process is stopped does not count.
func (t *failoverTrial) next(ctx context.Context, after time.Time, wait time.Duration, state, device string) (weft.Event, error) {
	tick := time.NewTicker(failoverTick)
	defer tick.Stop()
	for left := wait; ; {
		select {
		case c := <-t.changes:
			if c.To == state && (device == "" || c.Device == device) && t.opened.Add(c.At).After(after) {
				return c, nil
			}
			if err := t.revive(ctx, c); err != nil {
				return c, err
			}
		case <-ctx.Done():
			return weft.Event{}, context.Cause(ctx)
		case <-tick.C:
			if left -= failoverTick; left > 0 {
				continue
			}
			states := make([]string, 0, 4)
			for _, d := range t.rig.Devices() {
				states = append(states, d.Name+" "+d.State)
			}
			return weft.Event{}, fmt.Errorf("%w: no device has become %s within %v of %s %d; there are %d processes and %s",
				errLate, state, wait, t.strike, len(t.detect)+1, chaos.Usage().Processes, strings.Join(states, ", "))
		}
	}
}

// requeued returns the runs whose tasks a device had when it was last lost, and the time from
// the loss until the first of these started again.
func requeued(events []trace.Event, device int) (first time.Duration, runs []int64) {
	at := time.Duration(-1)
	for _, e := range events {
		if e.Kind == trace.Lost && int(e.Device) == device {
			at = e.Start
		}
	}
	for _, e := range events {
		if at >= 0 && e.Kind == trace.Exec && e.Failed && int(e.Device) == device && e.End == at {
			runs = append(runs, int64(e.Run))
		}
	}
	first = -1
	for _, e := range events {
		if e.Kind == trace.Exec && !e.Failed && e.Start >= at && slices.Contains(runs, int64(e.Run)) && (first < 0 || e.Start-at < first) {
			first = e.Start - at
		}
	}
	if first < 0 {
		return 0, nil
	}
	return first, runs
}

func writeFailover(w io.Writer, rows []failoverRow) {
	table := [][]any{{"case", "devices", "time of", "count", "p50", "p99", "max", "bar"}}
	ms := func(x float64) string { return fmt.Sprintf("%.2f ms", x) }
	for _, r := range rows {
		detect, bar, of := r.DetectMS.P99, detectBar, "p99"
		if r.TimeoutMS > 0 {
			detect, bar, of = r.DetectMS.Max, r.TimeoutMS+hungBar, "max"
		}
		held := func(x, bar float64, what string) string {
			if x < bar {
				return fmt.Sprintf("%s < %g ms: held", what, bar)
			}
			return fmt.Sprintf("%s < %g ms: MISSED", what, bar)
		}
		for i, f := range []struct {
			name string
			s    chaos.Spread
			bar  string
		}{
			{"detection", r.DetectMS, held(detect, bar, of)},
			{"failover", r.FailoverMS, held(r.FailoverMS.P99, failoverBar, "p99")},
			{"run, added", r.AddedMS, ""},
			{"device back", r.BackMS, ""},
		} {
			name, devices := "", ""
			if i == 0 {
				name, devices = r.Case, fmt.Sprintf("%s/%d", r.Backend, r.Devices)
			}
			table = append(table, []any{name, devices, f.name, f.s.N, ms(f.s.P50), ms(f.s.P99), ms(f.s.Max), f.bar})
		}
	}
	terminal.Table(w, table)
	fmt.Fprintln(w)
	for _, r := range rows {
		fmt.Fprintf(w, "%s: of %s, lost %d, duplicated %d; every result was compared.\n", r.Case, terminal.Count(r.Tasks, "task"), r.Lost, r.Duplicated)
		if r.Error != "" {
			fmt.Fprintf(w, "  first error: %s\n", r.Error)
		}
	}
}
