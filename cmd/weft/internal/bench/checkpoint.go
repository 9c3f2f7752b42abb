package bench

import (
	"context"
	_ "embed" // the kernel for GPUs
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/host"
	"github.com/weft-run/weft/internal/text"
)

// checkpointRow is the cost of checkpoints for a computation whose whole state changes.
type checkpointRow struct {
	State   int64   `json:"state_bytes"`
	Every   float64 `json:"every_seconds"`
	Steps   int     `json:"steps"`
	Pairs   int     `json:"pairs"`
	Plain   float64 `json:"plain_seconds"` // without checkpoints, median
	Kept    float64 `json:"kept_seconds"`  // with them, median
	Over    float64 `json:"overhead"`      // median of Kept ÷ Plain − 1 over pairs
	Written float64 `json:"checkpoints"`   // a run, the one at its end included
	Bytes   float64 `json:"written_bytes"` // a run
	// Held is the time for which a checkpoint stops the computation while it copies the state, Took
	// the time until it is on the disk; both are means without the last checkpoint of a run, which
	// the program waits for.
	Held float64 `json:"held_seconds"`
	Took float64 `json:"took_seconds"`
	// Last is the time the program waits for the last checkpoint when the steps are done.
	Last float64 `json:"last_seconds"`
	// Machine names the devices, and Cores is the number of cores.
	Machine string `json:"machine"`
	Cores   int    `json:"cores"`
	// Others is the mean number of cores that other programs used meanwhile; -1 if it is not known.
	Others float64          `json:"cores_used_by_others"`
	Each   []checkpointPair `json:"each"` // in the order they were run
	// CPU is the processor time, of user and system, that checkpoints took for each GiB written, the
	// median over pairs; 0 where that is not known. Other programs disturb it less than they do Over.
	CPU float64 `json:"cpu_seconds_per_gib"`
	// Share is that of a checkpoint, of what all cores have in the time between two: what Over is
	// on a machine that is busy with the steps alone.
	Share float64 `json:"cpu_share"`
}

// checkpointPair is a run without checkpoints and one with them.
type checkpointPair struct {
	KeptFirst bool    `json:"kept_first"` // which every second pair has
	Plain     float64 `json:"plain_seconds"`
	Kept      float64 `json:"kept_seconds"`
	Over      float64 `json:"overhead"`
	CPU       float64 `json:"cpu_seconds_per_gib"`
	// Cores that other programs used during each; -1 if that is not known.
	PlainOthers float64 `json:"plain_cores_used_by_others"`
	KeptOthers  float64 `json:"kept_cores_used_by_others"`
}

// keep is the benchmark of checkpoints.
type keep struct {
	size, dir string
	every     time.Duration
	length    time.Duration
}

func newCheckpoint(s Setup) *cobra.Command {
	var o keep
	c := benchmark[checkpointRow]{
		use:   "checkpoint",
		short: "What checkpoints cost a long computation",
		long: `Run steps that each change all of some resident data, with checkpoints and
without, in pairs, of which every second begins with the other, and compare the
times. Both runs of a pair use the same data, since memory pages differ in
speed. All pairs must end with the same bytes, and a resumed state must equal
the one that the steps left. The overhead is the median of the pairs, all of
which are printed. It leaves out the wait for the last checkpoint at the end of
a run, which occurs once however long the run is. The processor time of
checkpoints is given for each GiB written, and as a share of the time that all
cores have from one checkpoint to the next.`,
		repeat: 5, measure: o.measure, text: writeCheckpoint,
	}.command(s)
	c.Flags().StringVar(&o.size, "size", "1GiB", "`size` of the state")
	c.Flags().DurationVar(&o.every, "every", 10*time.Second, "least time between two checkpoints")
	c.Flags().DurationVar(&o.length, "length", time.Minute, "about how long a run takes")
	c.Flags().StringVar(&o.dir, "dir", "", "`folder` in which checkpoints are written and removed again (one for temporary files)")
	return c
}

//go:embed evolve.ptx.gz
var evolvePTX []byte

// evolveName is the Go function of a step, and evolveKernel its kernel.
const evolveName = "bench.evolve"

var evolveKernel = &graph.Kernel{Name: evolveName, Impls: []graph.Impl{
	{Dialect: graph.Go, Entry: evolveName},
	{Dialect: graph.PTX, Arch: "sm_75", Entry: "evolve", Source: evolvePTX, Per: [3]uint32{1}, Block: [3]uint32{256}},
}}

// evolveParams are the parameters of a step: the number of words.
type evolveParams struct{ Words uint64 }

// evolveRounds makes a step compute rather than move memory, as programs do that are worth
// a checkpoint.
const evolveRounds = 16

// evolve makes the next state of words.
func evolve(c *weft.Call, p evolveParams, lo, hi int) {
	in, out := weft.View[uint64](c.Args[0]), weft.View[uint64](c.Args[1])
	for i := lo * evolveWords; i < min(hi*evolveWords, int(p.Words)); i++ {
		out[i] = evolved(in[i], i)
	}
}

// evolved is the next value of word i of a task.
func evolved(x uint64, i int) uint64 {
	for range evolveRounds {
		x ^= x >> 29
		x = x*0xbf58476d1ce4e5b9 + uint64(i)
	}
	return x
}

// checkEvolve errs if the devices compute another state than this process does: steps in Go and PTX must agree.
func checkEvolve(ctx context.Context, rt *weft.Runtime) error {
	const tasks, words = 2, 3*evolveWords + 5 // in each
	g, err := evolveGraph(tasks*words*8, tasks)
	if err != nil {
		return err
	}
	state, err := weft.Alloc[uint64](rt, "check", tasks*words)
	if err != nil {
		return err
	}
	defer state.Release()
	for n := range 2 {
		if _, err := rt.Run(ctx, g, state.As("from"), state.As("to")); err != nil {
			return err
		}
		got, err := state.Get(ctx)
		if err != nil {
			return err
		}
		for k, is := range got {
			x := uint64(0)
			for range n + 1 {
				x = evolved(x, k%words)
			}
			if is != x {
				return fmt.Errorf("the devices compute another state: word %d is %#x, want %#x", k, is, x)
			}
		}
	}
	return nil
}

// evolveWords is the number of words of an item.
const evolveWords = 1 << 16

// evolveGraph is one step: each task reads and writes its part of the state.
func evolveGraph(bytes int64, tasks int) (*graph.Graph, error) {
	var b graph.Builder
	from, to := b.Data(graph.Data{Name: "from", Bytes: bytes, Input: true}), b.Data(graph.Data{Name: "to", Bytes: bytes})
	for i := range int64(tasks) {
		lo, hi := bytes/8*i/int64(tasks)*8, bytes/8*(i+1)/int64(tasks)*8
		words := (hi - lo) / 8
		b.Add(graph.Task{
			Steps: []graph.Step{graph.Step{Kernel: evolveKernel, Launch: graph.Grid((words + evolveWords - 1) / evolveWords)}.With(evolveParams{uint64(words)})},
			Uses:  []graph.Use{{Data: from, Offset: lo, Bytes: hi - lo}, {Data: to, Offset: lo, Bytes: hi - lo, Access: graph.Write}},
			Work:  graph.Work{Ops: 4 * evolveRounds * float64(words), Bytes: float64(2 * (hi - lo)), Unit: graph.Int32},
		})
	}
	return b.Build()
}

func (o *keep) measure(m *meter) (rows []checkpointRow, err error) {
	bytes, err := text.ParseSize(o.size)
	if err != nil || bytes < 1<<16 {
		return nil, terminal.Usagef("--size %s: a size is written such as 1GiB and is at least 64KiB", o.size)
	}
	if o.every <= 0 || o.length <= 0 {
		return nil, terminal.Usagef("--every %v --length %v: both must be more than nothing", o.every, o.length)
	}
	bytes = bytes / 8 * 8
	if err := host.Enough("bench checkpoint", 5*bytes); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(o.dir, "weft-bench-")
	if err != nil {
		return nil, terminal.Usage(err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p := m.progress("run", 2*m.repeat+1)
	defer p.Finish()
	p.At("how long a step takes")
	t := &keepTrial{m: m, bytes: bytes}
	few := 3
	first, err := t.try(few)
	for ; err == nil && first.took < o.length/30 && few < 1<<20; few *= 8 { // too short to tell
		first, err = t.try(8 * few)
	}
	if err != nil {
		return nil, err
	}
	p.Add()
	steps := max(few, int(o.length/(first.took/time.Duration(few)))+1)
	row := checkpointRow{State: bytes, Every: o.every.Seconds(), Steps: steps, Machine: t.machine, Cores: runtime.NumCPU()}
	for i := range m.repeat {
		pair, err := o.pair(t, p, steps, filepath.Join(dir, fmt.Sprint(i)), i%2 == 1)
		if err != nil {
			return rows, err
		}
		row.add(pair, t)
		rows = []checkpointRow{row}
	}
	return rows, nil
}

// pair measures a run with checkpoints in a folder and one without, in either order.
func (o *keep) pair(t *keepTrial, p *terminal.Progress, steps int, folder string, keptFirst bool) (out checkpointPair, err error) {
	l, err := t.load(weft.Checkpoint{Dir: folder, Every: o.every, Saved: t.saved})
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, l.close(), os.RemoveAll(folder)) }()
	var without, with keepRun
	var kept, last uint32 // checksums of the state: after the run with checkpoints, and in the end
	before := t.wrote
	for _, keeps := range []bool{keptFirst, !keptFirst} {
		into := &without
		p.At("without checkpoints")
		if keeps {
			into = &with
			p.At("with checkpoints")
		}
		if *into, err = t.run(l, steps, keeps); err != nil {
			return out, err
		}
		if last, err = l.sum(t.m.ctx); err != nil {
			return out, err
		}
		if keeps {
			kept = last
		}
		p.Add()
	}
	if t.failed != nil {
		return out, t.failed
	}
	if t.ends == nil {
		t.ends = &last
	}
	if *t.ends != last {
		return out, fmt.Errorf("the final state has checksum %08x; the first pair ended with %08x", last, *t.ends)
	}
	if err := l.close(); err != nil {
		return out, err
	}
	switch there, err := t.resumed(folder, steps); {
	case err != nil:
		return out, err
	case there != kept:
		return out, fmt.Errorf("the resumed state differs: %08x, want %08x", there, kept)
	}
	return checkpointPair{
		KeptFirst: keptFirst, Plain: without.took.Seconds(), Kept: with.took.Seconds(), Over: with.took.Seconds()/without.took.Seconds() - 1,
		CPU:         (with.cpu - without.cpu).Seconds() / (float64(t.wrote-before) / (1 << 30)),
		PlainOthers: without.others, KeptOthers: with.others,
	}, nil
}

// add takes in a further pair.
func (r *checkpointRow) add(pair checkpointPair, t *keepTrial) {
	r.Each = append(slices.Clone(r.Each), pair)
	of := func(f func(p checkpointPair) float64) float64 {
		var xs []float64
		for _, p := range r.Each {
			xs = append(xs, f(p))
		}
		return median(xs)
	}
	n := float64(len(r.Each))
	r.Pairs = len(r.Each)
	r.Plain, r.Kept = of(func(p checkpointPair) float64 { return p.Plain }), of(func(p checkpointPair) float64 { return p.Kept })
	r.Over, r.CPU = of(func(p checkpointPair) float64 { return p.Over }), of(func(p checkpointPair) float64 { return p.CPU })
	r.Written, r.Bytes, r.Last = float64(t.written)/n, float64(t.wrote)/n, t.last.Seconds()/n
	if t.between > 0 {
		r.Held, r.Took = t.held.Seconds()/float64(t.between), t.took.Seconds()/float64(t.between)
	}
	if r.Written > 0 {
		r.Share = r.CPU * r.Bytes / r.Written / (1 << 30) / (float64(r.Cores) * r.Every)
	}
	r.Others = 0
	for _, p := range r.Each {
		if p.PlainOthers < 0 || p.KeptOthers < 0 {
			r.Others = -1
			break
		}
		r.Others += (p.PlainOthers*p.Plain + p.KeptOthers*p.Kept) / (p.Plain + p.Kept) / n
	}
}

// keepTrial runs the steps.
type keepTrial struct {
	m       *meter
	bytes   int64
	machine string // its devices

	written, between int // checkpoints, and those of them that were not at the end
	wrote            int64
	held, took, last time.Duration
	failed           error
	ends             *uint32 // checksum of the state after a pair; nil before the first
}

// saved counts a checkpoint.
func (t *keepTrial) saved(s weft.Saved) {
	if s.Err != nil {
		t.failed = s.Err
		return
	}
	t.written++
	t.wrote += s.Bytes
	if !s.Finished {
		t.between++
		t.held += s.Held
		t.took += s.Took
	}
}

// keepRun is the cost of some steps. The last checkpoint, which is written after them, is in cpu and not in took.
type keepRun struct {
	took, cpu time.Duration
	others    float64 // cores that other programs used; -1 if that is not known
}

// keepLoad is a runtime with the state and a step that is ready to run.
type keepLoad struct {
	rt    *weft.Runtime
	state *weft.Data[byte]
	step  *weft.Prepared
}

// load opens a runtime and runs a step, which makes its buffers.
func (t *keepTrial) load(c weft.Checkpoint) (_ *keepLoad, err error) {
	rt, err := t.m.open(func(o *weft.Options) { o.Checkpoint = c })
	if err != nil {
		return nil, err
	}
	l := &keepLoad{rt: rt}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	if t.machine == "" { // the first time
		if err := checkEvolve(t.m.ctx, rt); err != nil {
			return nil, err
		}
	}
	t.machine = devicesOf(rt)
	g, err := evolveGraph(t.bytes, 8*len(rt.Devices()))
	if err != nil {
		return nil, err
	}
	if l.state, err = weft.Alloc[byte](rt, "state", int(t.bytes)); err != nil {
		return nil, err
	}
	if l.step, err = rt.Prepare(g, l.state.As("from"), l.state.As("to")); err != nil {
		return nil, err
	}
	_, err = l.step.Run(t.m.ctx)
	return l, err
}

// close gives all back; closing again does nothing.
func (l *keepLoad) close() error {
	l.state.Release()
	return l.rt.Close()
}

// sum is the checksum of the state.
func (l *keepLoad) sum(ctx context.Context) (uint32, error) {
	all, err := l.state.Get(ctx)
	return crc32.Checksum(all, crc32.MakeTable(crc32.Castagnoli)), err
}

// keep runs some steps with checkpoints: none where all of them are resumed.
func (l *keepLoad) keep(ctx context.Context, steps int, step func(context.Context, int) error) error {
	return l.rt.Steps(ctx, weft.Keep{Name: "bench"}, steps, []weft.Binding{l.state.As("state")}, step)
}

// try runs some steps without checkpoints.
func (t *keepTrial) try(steps int) (r keepRun, err error) {
	l, err := t.load(weft.Checkpoint{})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	return t.run(l, steps, false)
}

// resumed returns the checksum of the state that a run of some steps left in a folder.
func (t *keepTrial) resumed(folder string, steps int) (sum uint32, err error) {
	l, err := t.load(weft.Checkpoint{Dir: folder, Resume: true})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	if err := l.keep(t.m.ctx, steps, func(context.Context, int) error { return errors.New("the last checkpoint lacks steps") }); err != nil {
		return 0, err
	}
	return l.sum(t.m.ctx)
}

// run runs some steps, with checkpoints or without.
func (t *keepTrial) run(l *keepLoad, steps int, keeps bool) (r keepRun, err error) {
	step := func(ctx context.Context, _ int) error {
		_, err := l.step.Run(ctx)
		return err
	}
	var part partRow
	ended := part.watch()
	began, used := time.Now(), cpuTime()
	if keeps {
		err = l.keep(t.m.ctx, steps, step)
	}
	for i := 0; i < steps && !keeps && err == nil; i++ {
		err = step(t.m.ctx, i)
	}
	if err != nil {
		return r, err
	}
	r.took = time.Since(began)
	ended()
	r.others = part.Others
	if keeps {
		_ = l.rt.Checkpoint(t.m.ctx) // it may be written already, and what goes wrong is told
		t.last += time.Since(began) - r.took
	}
	r.cpu = cpuTime() - used
	return r, nil
}

// devicesOf names the devices of a runtime, grouped by kind.
func devicesOf(rt *weft.Runtime) string {
	count, kinds := make(map[string]int), []string{}
	for _, d := range rt.Devices() {
		kind := fmt.Sprintf("%s (%s, %s)", d.Backend, d.Model, terminal.Count(d.ComputeUnits, "core"))
		if count[kind]++; count[kind] == 1 {
			kinds = append(kinds, kind)
		}
	}
	for i, kind := range kinds {
		if count[kind] > 1 {
			kinds[i] = fmt.Sprintf("%d × %s", count[kind], kind)
		}
	}
	return strings.Join(kinds, ", ")
}

func writeCheckpoint(w io.Writer, rows []checkpointRow) {
	out := [][]any{{"state", "every", "steps", "pairs", "without", "with", "overhead", "checkpoints", "written", "held", "on disk after", "last", "CPU/GiB", "share"}}
	each := [][]any{{"pair", "first", "without", "others", "with", "others", "overhead", "CPU/GiB"}}
	cores := func(x float64) string {
		if x < 0 {
			return "unknown"
		}
		return fmt.Sprintf("%.2f cores", x)
	}
	for _, r := range rows {
		out = append(out, []any{text.FormatSize(r.State), terminal.Seconds(r.Every), r.Steps, r.Pairs, terminal.Seconds(r.Plain), terminal.Seconds(r.Kept), terminal.Percent(r.Over),
			fmt.Sprintf("%.1f", r.Written), terminal.SI(r.Bytes, "B"), terminal.Seconds(r.Held), terminal.Seconds(r.Took), terminal.Seconds(r.Last), terminal.Seconds(r.CPU), terminal.Percent(r.Share)})
		for i, p := range r.Each {
			first := "without"
			if p.KeptFirst {
				first = "with"
			}
			each = append(each, []any{i + 1, first, terminal.Seconds(p.Plain), cores(p.PlainOthers), terminal.Seconds(p.Kept), cores(p.KeptOthers), terminal.Percent(p.Over), terminal.Seconds(p.CPU)})
		}
	}
	terminal.Table(w, out)
	fmt.Fprintln(w)
	terminal.Table(w, each)
	fmt.Fprintln(w, "\nOf a run: checkpoints and bytes written. Of a checkpoint: how long the steps\nwere held up, and when it was on the disk. Last: the wait for the last one.\nCPU/GiB: processor time of checkpoints, of user and system, for each GiB written;\nshare: the part of the time of all cores between two that one takes. Others:\ncores that other programs used.")
	for _, r := range rows {
		fmt.Fprintf(w, "\n%s, %s.\n", r.Machine, terminal.Count(r.Cores, "core"))
	}
}
