package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/chaos"
	"github.com/weft-run/weft/cmd/weft/internal/workloads"
	"github.com/weft-run/weft/internal/backend/cuda/cudatest"
	"github.com/weft-run/weft/internal/backend/proc"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/trace"
)

// TestMain keeps measurements in a folder of its own: the benchmarks of a test measure
// devices once, and never read the user's cache.
func TestMain(m *testing.M) {
	proc.Main(chaos.Makers(allFuncs))
	if os.Getenv("WEFT_TEST_BENCH") != "" { // a process that a benchmark started
		root := newRoot()
		if err := root.ExecuteContext(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	dir, err := os.MkdirTemp("", "weft-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Setenv("XDG_CACHE_HOME", dir)
	code := m.Run()
	os.RemoveAll(dir)
	cudatest.Remove()
	os.Exit(code)
}

// allFuncs are the kernels of workloads and benchmarks.
func allFuncs() map[string]weft.Func {
	all := workloads.Funcs()
	maps.Copy(all, Funcs())
	return all
}

// openAll opens devices with all kernels.
func openAll(ctx context.Context, o weft.Options, _ io.Writer) (*weft.Runtime, error) {
	o.Funcs = allFuncs()
	return weft.Open(ctx, o)
}

// newRoot makes a command with the benchmarks below it and the settings that tests use.
func newRoot() *cobra.Command {
	var o weft.Options
	root, all := &cobra.Command{Use: "weft", SilenceErrors: true, SilenceUsage: true}, &cobra.Command{Use: "bench"}
	all.PersistentFlags().StringVar(&o.Devices, "devices", "", "")
	all.PersistentFlags().DurationVar(&o.HangTimeout, "hang-timeout", 0, "")
	all.AddCommand(Commands(Setup{func() (weft.Options, error) { return o, nil }, openAll})...)
	root.AddCommand(all)
	return root
}

// run runs a benchmark and returns what it printed.
func run(ctx context.Context, args ...string) (string, error) {
	root := newRoot()
	var out bytes.Buffer
	root.SetArgs(append([]string{"bench"}, args...))
	root.SetOut(&out)
	root.SetErr(io.Discard)
	err := root.ExecuteContext(ctx)
	return out.String(), err
}

// rows runs a benchmark and returns its rows.
func rows[T any](t *testing.T, args ...string) (out []T) {
	t.Helper()
	text, err := run(t.Context(), append(args, "--json")...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("not JSON: %v\n%s", err, text)
	}
	return out
}

// refused checks that a benchmark takes its arguments for a mistake, with a word that
// says which.
func refused(t *testing.T, word string, args ...string) {
	t.Helper()
	_, err := run(t.Context(), args...)
	if mistake := (text.Mistake{}); !errors.As(err, &mistake) || !strings.Contains(err.Error(), word) {
		t.Errorf("%v: %v", args, err)
	}
}

func TestBenchOverhead(t *testing.T) {
	got := rows[overheadRow](t, "overhead", "--tasks", "500", "--repeat", "2")
	if len(got) != 9 || got[8].Case != "round trip" || got[8].P99US < got[8].MedianUS || got[8].MedianUS < got[8].USPerTask {
		t.Fatalf("%+v; want four cases with tracing off and on, and the round trip", got)
	}
	for _, r := range got[:8] {
		if r.USPerTask <= 0 || r.MedianUS < r.USPerTask || r.Tasks != 500 {
			t.Errorf("%+v", r)
		}
	}
}

func TestBenchScaling(t *testing.T) {
	defer func(sizes map[string]int) { scalingFrom = sizes }(scalingFrom)
	scalingFrom = map[string]int{"rows": 512, "cols": 512, "n": 1 << 16}
	for _, weak := range []string{"--weak=false", "--weak"} {
		got := rows[scalingRow](t, "scaling", "--only", "automata", "--at-least", "1us", "--repeat", "1", "--devices", "cpu/2", "--limit", weak)
		if len(got) != 2 || got[0].Devices != 1 || got[1].Devices != 2 {
			t.Fatalf("%+v", got)
		}
		if got[0].Speedup != 1 || got[0].Efficiency != 1 || math.Abs(got[1].Efficiency*2-got[1].Speedup) > 1e-9 {
			t.Errorf("%+v", got)
		}
		// In one round the one follows from the others.
		if a, b := got[0], got[1]; a.Work != 1 || a.Busy <= 0 || a.Busy > 1 || math.Abs(b.Busy/b.Work-a.Busy*b.Efficiency) > 1e-9 {
			t.Errorf("%+v", got)
		}
		if got[0].Limit != 0 || got[1].Limit <= 0 {
			t.Errorf("limits %v and %v, want none of one device and some of two", got[0].Limit, got[1].Limit)
		}
		if same := got[0].Job == got[1].Job; same != (weak != "--weak") {
			t.Errorf("%s ran %s and %s", weak, got[0].Job, got[1].Job)
		}
	}
	// Sizes crossed with numbers of devices.
	got := rows[scalingRow](t, "scaling", "--only", "gemm", "--sizes", "64,130", "--repeat", "1", "--devices", "cpu/2")
	var seen []string
	for _, r := range got {
		seen = append(seen, fmt.Sprintf("%d on %d: %s", r.Size, r.Devices, r.Job))
		if want := map[int]string{1: "", 2: trace.ScalingVerdict(r.Efficiency)}[r.Devices]; r.Verdict != want {
			t.Errorf("%+v: the verdict is %q, want %q", r, r.Verdict, want)
		}
	}
	if want := []string{
		"64 on 1: gemm 64 × 64 × 64", "64 on 2: gemm 64 × 64 × 64",
		"130 on 1: gemm 192 × 192 × 192", "130 on 2: gemm 192 × 192 × 192",
	}; !slices.Equal(seen, want) {
		t.Errorf("%q, want %q", seen, want)
	}
	refused(t, "--sizes 0: gemm takes 1 to", "scaling", "--only", "gemm", "--sizes", "0")
	got = rows[scalingRow](t, "scaling", "--only", "reduce", "--at-least", "1us", "--repeat", "1", "--devices", "cpu/2", "--counts", "1")
	if len(got) != 1 || got[0].Devices != 1 {
		t.Errorf("%+v; want one device alone", got)
	}
}

// A table of scaling ends with what the efficiencies mean, of the most devices.
func TestScalingVerdicts(t *testing.T) {
	var b strings.Builder
	row := func(workload string, devices int, efficiency float64) scalingRow {
		return scalingRow{Workload: workload, Job: "a " + workload, Devices: devices, Efficiency: efficiency, Verdict: trace.ScalingVerdict(efficiency)}
	}
	writeScaling(&b, []scalingRow{
		{Workload: "x", Job: "a x", Devices: 1}, row("x", 2, 0.9), row("x", 4, 0.7),
		{Workload: "y", Job: "a y", Devices: 1}, row("y", 4, 0.81), {Workload: "z", Job: "a z", Devices: 1}, row("z", 4, 0.6),
	})
	want := `
a x
  on 4 devices: good scaling efficiency with room for improvement
a y
  on 4 devices: excellent scaling efficiency
a z
  on 4 devices: poor scaling efficiency - investigate bottlenecks
`
	if got := b.String(); !strings.HasSuffix(got, want) || strings.Contains(got, "size") {
		t.Errorf("%s\nwant at its end\n%s", got, want)
	}
	b.Reset()
	writeScaling(&b, []scalingRow{{Workload: "x", Size: 50_000, Devices: 1, Limit: 0.5}})
	if head, line := strings.Fields(b.String())[:10], strings.Fields(b.String())[10:13]; !slices.Equal(line, []string{"x", "50000", "1"}) || head[1] != "size" || head[6] != "limit" {
		t.Errorf("with a size and a limit:\n%s", b.String())
	}
}

// A benchmark that takes longer than --timeout ends, says so and keeps complete rows.
func TestBenchTimeout(t *testing.T) {
	out, err := run(t.Context(), "scaling", "--only", "reduce", "--devices", "cpu/2", "--at-least", "10m", "--timeout", "300ms")
	if err == nil || !strings.Contains(err.Error(), "bench scaling: ended after 300ms (--timeout) with 0 rows complete") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = run(t.Context(), "collective", "--devices", "cpu/2", "--sizes", "4KiB", "--ops", "barrier,allreduce", "--peers=false", "--repeat", "1000000", "--timeout", "5s")
	if err == nil || !strings.Contains(err.Error(), "(--timeout) with 0 rows complete") || out != "" {
		t.Errorf("%v\n%s", err, out)
	}
	refused(t, "--timeout -1s", "sync", "--timeout", "-1s")
}

func TestBenchMemory(t *testing.T) {
	got := rows[memoryRow](t, "memory", "--sizes", "64KiB,100", "--repeat", "1", "--devices", "cpu/2")
	seen := make(map[memoryRow]bool)
	for _, r := range got {
		if r.BPS <= 0 || r.Bytes != 64<<10 && r.Bytes != 64 {
			t.Errorf("%+v", r)
		}
		seen[memoryRow{Device: r.Device, Case: r.Case, Bytes: r.Bytes}] = true
	}
	for _, device := range []string{"cpu:0", "cpu:1"} {
		for _, kind := range []string{"within", "read", "write", "copy", "triad"} {
			if !seen[memoryRow{Device: device, Case: kind, Bytes: 64 << 10}] {
				t.Errorf("no row for %s on %s", kind, device)
			}
		}
	}
}

func TestBenchSync(t *testing.T) {
	defer func(n int) { haloSide = n }(haloSide)
	haloSide = 256
	got := rows[syncRow](t, "sync", "--repeat", "1", "--devices", "cpu/2")
	last := len(got) - 1
	if halo := got[last]; halo.Case != "automata 256²" || halo.Devices != "all 2" || halo.Tasks < 1 || halo.USPerRound <= 0 || halo.Overhead >= 1 {
		t.Errorf("%+v", halo)
	}
	got = got[:last]
	want := []syncRow{
		{Case: "chain", Devices: "cpu:0", Tasks: 1}, {Case: "ping-pong", Devices: "cpu:0, cpu:1", Tasks: 2},
		{Case: "barrier", Devices: "all 2", Tasks: 2}, {Case: "fork-join", Devices: "all 2", Tasks: 17},
	}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i, r := range got {
		if r.USPerRound <= 0 || r.MedianUS < r.USPerRound {
			t.Errorf("%+v", r)
		}
		if r.USPerRound, r.MedianUS = 0, 0; r != want[i] {
			t.Errorf("%+v, want %+v", r, want[i])
		}
	}
}

// Work that is fixed to devices by its cost is balanced, by its length it is
// not: of two equal halves of a triangle, one has three quarters.
func TestBalance(t *testing.T) {
	for cut, want := range map[string]float64{"equal": 0.75, "proportional": 0.5} {
		m := &meter{Setup: Setup{Open: openAll}, ctx: t.Context(), repeat: 1, stderr: &bytes.Buffer{}, options: weft.Options{Devices: "cpu/2", Partitioner: cut}}
		rt, err := m.open(nil)
		if err != nil {
			t.Fatal(err)
		}
		job := newTriangle(256, 10)
		part, err := rt.Split(job.Items(), job.Whole())
		if err != nil {
			t.Fatal(err)
		}
		second := part.Ranges[1]
		if got := job.cost(second.Lo, second.Hi) / job.cost(0, 256); cut == "equal" && math.Abs(got-want) > 0.01 {
			t.Errorf("%s gives the second device %.2f of the work, want %.2f", cut, got, want)
		}
		row, err := balanceOf(m, rt, job, true, nil)
		if err != nil {
			t.Fatal(err)
		}
		if row.Devices != 2 || row.Seconds <= 0 || row.Utilisation <= 0 {
			t.Errorf("%s: %+v", cut, row)
		}
		rt.Close()
	}
	low, high, mean, worst := deviation([]float64{1, 3})
	if low != 1 || high != 3 || mean != 2 || worst != 0.5 {
		t.Errorf("deviation: %v %v %v %v", low, high, mean, worst)
	}
	// A wrong row is found.
	job := newTriangle(8, 3)
	if err := job.Check(); err == nil {
		t.Error("a triangle nobody computed passed")
	}
	if p := job.Items(); p.Cost(2, 5) != 2+3+4 {
		t.Errorf("rows 2 to 4 cost %v", p.Cost(2, 5))
	}
}

func TestBenchCollective(t *testing.T) {
	got := rows[collectiveRow](t, "collective", "--sizes", "4KiB,100KiB", "--split", "1,2", "--repeat", "1", "--peers=false", "--explain")
	if len(got) != 4 {
		t.Fatalf("%d rows, want two sizes on two numbers of devices", len(got))
	}
	for i, r := range got {
		n := 1 + i/2
		if r.Op != "allreduce" || r.Algorithm != []string{"inline", "direct"}[i%2] || r.Devices != n || r.Bytes != []int64{4 << 10, 100 << 10}[i%2] || r.Why == "" {
			t.Errorf("%+v", r)
		}
		if bus := 2 * float64(n-1) / float64(n) * float64(r.Bytes) / r.Seconds / 1e9; math.Abs(r.BusGBPS-bus) > 1e-9*bus {
			t.Errorf("bus bandwidth %v, want %v", r.BusGBPS, bus)
		}
	}
	ring := rows[collectiveRow](t, "collective", "--sizes", "4KiB", "--devices", "cpu/2", "--repeat", "1", "--peers=false", "--algorithm", "ring")
	if len(ring) != 1 || ring[0].Algorithm != "ring" {
		t.Errorf("%+v", ring)
	}
	for _, args := range [][]string{{"--algorithm", "star"}, {"--sizes", "3"}, {"--split", "0"}} {
		refused(t, args[1], append([]string{"collective"}, args...)...)
	}
}

func TestBenchP2P(t *testing.T) {
	got := rows[p2pRow](t, "p2p", "--devices", "cpu/2", "--size", "1MiB", "--repeat", "1")
	if len(got) != 2 {
		t.Fatalf("%d rows, want one each way", len(got))
	}
	for _, r := range got {
		if r.From == r.To || r.Link != "memory" || !r.Direct || r.Bytes != 1<<20 || r.BPS <= 0 || r.LatencyUS <= 0 {
			t.Errorf("%+v", r)
		}
	}
	refused(t, "--size 1", "p2p", "--size", "1")
}

func TestBenchPipeline(t *testing.T) {
	defer func(n int) { pipelineItems = n }(pipelineItems)
	pipelineItems = 6
	got := rows[pipelineRow](t, "pipeline", "--repeat", "1", "--devices", "cpu/2")
	var where []string
	for _, r := range got {
		where = append(where, r.Where)
		if r.Rate <= 0 || r.Bound <= 0 || math.Abs(r.OfBound-r.Rate/r.Bound) > 1e-9 || r.Stages != 4 || len(r.StageMS) != 4 {
			t.Errorf("%+v", r)
		}
		if r.Bubble < 0 || r.Bubble >= 1 || r.Least <= 0 {
			t.Errorf("%s: bubble %v, at least %v", r.Case, r.Bubble, r.Least)
		}
	}
	if want := []string{"cores", "cores", "cores", "devices", "fake devices"}; !slices.Equal(where, want) {
		t.Errorf("rows for %v, want %v", where, want)
	}
}

func TestBenchReplica(t *testing.T) {
	defer func(n int) { replicaBatches = n }(replicaBatches)
	replicaBatches = 6
	got := rows[replicaRow](t, "replica", "--devices", "cpu/2")
	if len(got) != 6 || got[0].Strategy != "eager" || got[5].Strategy != "none" {
		t.Fatalf("%+v", got)
	}
	eager, adaptive, none := got[0], got[2], got[5]
	if eager.Merges != 6 || eager.Off != 0 || eager.Bytes != 6*2*3*4*500 {
		t.Errorf("eager: %+v", eager)
	}
	if none.Merges != 0 || none.Bytes != 0 || none.Off <= 0 {
		t.Errorf("none: %+v", none)
	}
	if adaptive.Bytes >= eager.Bytes || adaptive.Off >= none.Off || adaptive.MostOff >= none.MostOff || adaptive.Merges == 0 {
		t.Errorf("adaptive: %+v", adaptive)
	}
}

// The median of an even count is the mean of the two in the middle.
func TestMedian(t *testing.T) {
	for _, c := range []struct {
		of   []float64
		want float64
	}{{[]float64{3}, 3}, {[]float64{4, 1}, 2.5}, {[]float64{9, 1, 2}, 2}, {[]float64{1, 9, 4, 2}, 3}} {
		if got := median(c.of); got != c.want {
			t.Errorf("the median of %v is %v, want %v", c.of, got, c.want)
		}
	}
}
