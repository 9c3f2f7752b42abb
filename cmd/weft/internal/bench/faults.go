package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/chaos"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/host"
	"github.com/weft-run/weft/internal/probe"
	"github.com/weft-run/weft/internal/text"
)

// faultsRow says how a device came back from kernels that broke it.
type faultsRow struct {
	Case     string `json:"case"` // restart, standby
	Device   string `json:"device"`
	Faults   int    `json:"faults"`
	Arena    int64  `json:"arena_bytes"`    // host memory shared with workers, at most
	Resident int64  `json:"resident_bytes"` // on the device before the first fault
	// Reported is the time from submitting the bad kernel until its error is
	// known, Back that from then until another task on the same device has ended.
	ReportedMS float64 `json:"reported_ms"` // median
	BackMS     float64 `json:"back_ms"`     // median
	BackMaxMS  float64 `json:"back_max_ms"`
	// Sent is the number of bytes copied during all faults and after them, when the
	// resident data is read: those of the small tasks, and all that were sent again.
	Sent int64 `json:"sent_bytes"`
	// Memory and descriptors of the program after the first tenth of the faults
	// and after all of them.
	RSSBefore int64 `json:"rss_before_bytes"`
	RSSAfter  int64 `json:"rss_after_bytes"`
	FDsBefore int   `json:"descriptors_before"`
	FDsAfter  int   `json:"descriptors_after"`
	// Error is the error of the last bad task.
	Error string `json:"error"`
}

// faults is the benchmark of that name.
type faults struct {
	resident, arena string
	count, standbys int
}

func newFaults(s Setup) *cobra.Command {
	var o faults
	c := benchmark[faultsRow]{
		use:   "faults",
		short: "How a GPU comes back from kernels that break it",
		long: `Run kernels that write to an illegal address, which costs a process its GPU, and
see what becomes of everything else: the bad task must fail with its kernel's
name, tasks that run at the same time must complete, data on the device must
stay without being sent again, and memory must not grow. Without a standby
(restart) a new worker is started after each fault; with one, ready to serve and
all its host memory page-locked, that takes over. Only for GPUs of NVIDIA.`,
		repeat: 1, measure: o.measure, text: writeFaults,
	}.command(s)
	c.Flags().IntVar(&o.count, "faults", 100, "faults without a standby")
	c.Flags().IntVar(&o.standbys, "standbys", 10, "faults with one, each when it is ready")
	c.Flags().StringVar(&o.resident, "resident", "1GiB", "`size` of the data on the device")
	c.Flags().StringVar(&o.arena, "arena", "8GiB", "`size` of the host memory to share with workers, at most")
	return c
}

func (o *faults) measure(m *meter) (rows []faultsRow, err error) {
	var sizes [2]int64
	for i, s := range []string{o.resident, o.arena} {
		if sizes[i], err = text.ParseSize(s); err != nil || sizes[i] < 1<<20 {
			return nil, terminal.Usagef("%q: a size is written such as 16MiB and is at least 1MiB", s)
		}
	}
	if o.count < 0 || o.standbys < 0 {
		return nil, terminal.Usagef("--faults %d --standbys %d: neither can be less than 0", o.count, o.standbys)
	}
	if err := host.Enough("bench faults", 2*sizes[0]); err != nil {
		return nil, err
	}
	if m.options.Devices == "" {
		m.options.Devices = "cuda:0"
	}
	p := m.progress("fault", o.count+o.standbys)
	defer p.Finish()
	for _, c := range []struct {
		name    string
		count   int
		standby bool
	}{{"restart", o.count, false}, {"standby", o.standbys, true}} {
		if c.count == 0 {
			continue
		}
		p.At("%s", c.name)
		t := &faultTrial{m: m, count: c.count, standby: c.standby, p: p,
			row: faultsRow{Case: c.name, Faults: c.count, Resident: sizes[0], Arena: sizes[1]}}
		if err := t.run(); err != nil {
			return rows, fmt.Errorf("%s: %w", c.name, err)
		}
		rows = append(rows, t.row)
	}
	return rows, nil
}

// standbyLog reads from the log which standbys are ready: started, with all host memory
// page-locked that they will need.
type standbyLog struct {
	slog.Handler
	there *atomic.Int64
	ready *atomic.Int64
}

func (l standbyLog) Enabled(context.Context, slog.Level) bool { return true }

func (l standbyLog) Handle(_ context.Context, r slog.Record) error {
	switch r.Message {
	case "a worker stands by":
		l.there.Add(1)
	case "all host memory is page-locked":
		l.ready.Store(l.there.Load())
	}
	return nil
}

func (l standbyLog) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l standbyLog) WithGroup(string) slog.Handler      { return l }

// faultTrial is one case, of several faults.
type faultTrial struct {
	m       *meter
	count   int
	standby bool
	p       *terminal.Progress
	row     faultsRow

	rt     *weft.Runtime
	there  atomic.Int64 // standbys started so far
	ready  atomic.Int64 // number of the last that was ready
	blocks []*weft.Data[byte]
	want   []byte // content of each block
}

// blockBytes is the largest piece of resident data: arguments of a task have limits.
const blockBytes = 256 << 20

// smallBytes is the number of bytes copied by the tasks that run during and after the
// bad one.
const smallBytes = 64 << 10

func (t *faultTrial) run() (err error) {
	o := t.m.options
	o.HostBytes, o.Standby, o.Retries, o.NoCalibrate = t.row.Arena, t.standby, -1, true
	o.Log = slog.New(standbyLog{slog.DiscardHandler, &t.there, &t.ready})
	if t.rt, err = weft.Open(t.m.ctx, o); err != nil {
		return terminal.Usage(err)
	}
	defer func() { err = errors.Join(err, t.rt.Close()) }()
	if devs := t.rt.Devices(); len(devs) != 1 || !devs[0].CanRun(probe.Crash()) {
		return terminal.Usagef("--devices %s: name one GPU of NVIDIA, as in cuda:0", o.Devices)
	}
	t.row.Device = t.rt.Devices()[0].Name
	// Reading copies a block within the device.
	if has, wants := t.rt.Devices()[0].MemBytes, t.row.Resident+min(t.row.Resident, blockBytes)+1<<20; has > 0 && has < wants {
		return terminal.Usagef("--resident %s: with what reads it that takes %s, and %s has %s", text.FormatSize(t.row.Resident),
			text.FormatSize(wants), t.row.Device, text.FormatSize(has))
	}
	if err := t.put(); err != nil {
		return err
	}
	defer func() {
		for _, b := range t.blocks {
			b.Release()
		}
	}()
	if err := t.read(false); err != nil { // copies it to the device
		return err
	}
	before := t.rt.Metrics().CopyBytes
	if err := t.breakOften(); err != nil {
		return err
	}
	if err := t.read(true); err != nil {
		return err
	}
	// Lost data would have been sent again by now. The copies read back to the host
	// are not counted.
	t.row.Sent = t.rt.Metrics().CopyBytes - before - t.row.Resident
	return nil
}

// put makes the resident data, which is to survive the faults.
func (t *faultTrial) put() error {
	t.want = make([]byte, min(t.row.Resident, blockBytes)&^(probe.ItemBytes-1))
	for i := range t.want {
		t.want[i] = byte(i*7 + i>>9)
	}
	for left := t.row.Resident; left >= int64(len(t.want)); left -= int64(len(t.want)) {
		b, err := weft.Put(t.rt, fmt.Sprint("block ", len(t.blocks)), t.want)
		if err != nil {
			return err
		}
		t.blocks = append(t.blocks, b)
	}
	t.row.Resident = int64(len(t.blocks) * len(t.want))
	return nil
}

// read has the device copy every block. With back it copies the copies to the host and
// compares them.
func (t *faultTrial) read(back bool) error {
	var g graph.Builder
	n := int64(len(t.want))
	from := g.Data(graph.Data{Name: "from", Bytes: n, Input: true})
	to := g.Data(graph.Data{Name: "to", Bytes: n, Output: back})
	g.Add(graph.Task{Name: "read", Steps: []graph.Step{streamStep(n)}, Work: graph.Work{Bytes: 2 * float64(n)},
		Uses: []graph.Use{{Data: from, Access: graph.Read}, {Data: to, Access: graph.Write}}})
	built, err := g.Build()
	if err != nil {
		return err
	}
	var bind []weft.Binding
	var got *weft.Buffer[byte]
	if back {
		if got, err = weft.NewBuffer[byte](t.rt, len(t.want)); err != nil {
			return err
		}
		defer got.Release()
		bind = append(bind, weft.Bind("to", got.Slice()))
	}
	for i, b := range t.blocks {
		if _, err := t.rt.Run(t.m.ctx, built, append(bind, b.As("from"))...); err != nil {
			return err
		}
		if back && !slices.Equal(got.Slice(), t.want) {
			return fmt.Errorf("block %d has changed since before the faults", i)
		}
	}
	return nil
}

// breakOften runs the bad kernel count times, each with a small task at the same time
// and one after it.
func (t *faultTrial) breakOften() error {
	var g graph.Builder
	g.Add(graph.Task{Name: "bad", Steps: []graph.Step{{Kernel: probe.Crash()}},
		Uses: []graph.Use{{Data: g.Data(graph.Data{Name: "to", Bytes: 64}), Access: graph.Write}}})
	bad, err := g.Build()
	if err != nil {
		return err
	}
	small, err := streamGraph(smallBytes)
	if err != nil {
		return err
	}
	var reported, back []float64
	for i := range t.count {
		for waited := time.Now(); t.standby && t.ready.Load() <= int64(i); {
			select {
			case <-t.m.ctx.Done():
				return context.Cause(t.m.ctx)
			case <-time.After(time.Millisecond):
			}
			if time.Since(waited) > time.Minute {
				return fmt.Errorf("fault %d: no worker stood by within a minute", i)
			}
		}
		in, out, after := noisy(smallBytes, i), make([]byte, smallBytes), make([]byte, smallBytes)
		beside := t.rt.Submit(small, nil, weft.Bind("from", in), weft.Bind("to", out))
		began := time.Now()
		_, err := t.rt.Run(t.m.ctx, bad)
		known := time.Now()
		if err == nil || !strings.Contains(err.Error(), probe.Crash().Name) {
			return fmt.Errorf("fault %d: the bad task ended with %w; its kernel should be named", i, err)
		}
		t.row.Error = err.Error()
		if _, err := t.rt.Run(t.m.ctx, small, weft.Bind("from", in), weft.Bind("to", after)); err != nil {
			return fmt.Errorf("fault %d: the task after it: %w", i, err)
		}
		reported = append(reported, known.Sub(began).Seconds()*1e3)
		back = append(back, time.Since(known).Seconds()*1e3)
		if _, err := beside.Wait(); err != nil {
			return fmt.Errorf("fault %d: the task that ran at the same time: %w", i, err)
		}
		if !slices.Equal(in, out) || !slices.Equal(in, after) {
			return fmt.Errorf("fault %d: a task during or after it gave a wrong result", i)
		}
		if i == t.count/10 {
			use := chaos.Usage()
			t.row.RSSBefore, t.row.FDsBefore = use.RSS, use.Descriptors
		}
		t.p.Add()
	}
	use := chaos.Usage()
	t.row.RSSAfter, t.row.FDsAfter = use.RSS, use.Descriptors
	t.row.ReportedMS, t.row.BackMS, t.row.BackMaxMS = median(reported), median(back), slices.Max(back)
	return nil
}

// noisy makes bytes that differ from seed to seed.
func noisy(n, seed int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte((i + seed) * 131)
	}
	return out
}

func writeFaults(w io.Writer, rows []faultsRow) {
	table := [][]any{{"case", "device", "faults", "resident", "reported", "back", "at most", "sent", "memory", "after", "descriptors", "after"}}
	ms := func(x float64) string { return fmt.Sprintf("%.0f ms", x) }
	for _, r := range rows {
		table = append(table, []any{r.Case, r.Device, r.Faults, text.FormatSize(r.Resident), ms(r.ReportedMS), ms(r.BackMS), ms(r.BackMaxMS),
			terminal.SI(float64(r.Sent), "B"), terminal.SI(float64(r.RSSBefore), "B"), terminal.SI(float64(r.RSSAfter), "B"), r.FDsBefore, r.FDsAfter})
	}
	terminal.Table(w, table)
	for _, r := range rows {
		fmt.Fprintf(w, "\n%s: %s\n", r.Case, r.Error)
	}
}
