package bytevm_test

import (
	"encoding/binary"
	"flag"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/test/bytevm"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/automata"
	"github.com/weft-run/weft/workload/gemm"
	"github.com/weft-run/weft/workload/merkle"
	"github.com/weft-run/weft/workload/tropical"
)

var workSeeds = flag.Uint64("work-seeds", 30, "how many seeds TestWork runs for each workload")

// works are small jobs with their kernels. gemm is of class R: of one kernel, the same bytes.
var works = map[string]struct {
	job   func() (workload.Job, error)
	funcs func() map[string]driver.Func
}{
	"merkle":   {func() (workload.Job, error) { return merkle.New(merkle.Config{N: 200, Mode: merkle.RFC6962}) }, merkle.Funcs},
	"tropical": {func() (workload.Job, error) { return tropical.New(tropical.Config{M: 40, K: 7, N: 11}) }, tropical.Funcs},
	"automata": {func() (workload.Job, error) {
		return automata.New(automata.Config{Rows: 24, Cols: 64, Steps: 12, K: 2})
	}, automata.Funcs},
	"gemm": {func() (workload.Job, error) { return gemm.New(gemm.Config{M: 40, K: 7, N: 11}) }, gemm.Funcs},
}

// workOf cuts a job into ranges. Its inputs are drawn: numbers between 1 and 2, where they are
// numbers.
func workOf(t *testing.T, name string, ranges int) *bytevm.Work {
	t.Helper()
	j, err := works[name].job()
	if err != nil {
		t.Fatal(err)
	}
	shares := make([]sched.Share, ranges)
	for i := range shares {
		shares[i] = sched.Share{Rate: 1, FreeBytes: math.MaxInt64 / 2}
	}
	p, err := sched.Equal(j.Items(), shares)
	if err != nil {
		t.Fatal(err)
	}
	var some []sched.Range
	for _, r := range p.Ranges {
		if r.Len() > 0 {
			some = append(some, r)
		}
	}
	g, err := j.Graph(some)
	if err != nil {
		t.Fatal(err)
	}
	w := &bytevm.Work{Graph: g, Inputs: make([][]byte, g.NumData()), Funcs: works[name].funcs()}
	r := rand.New(rand.NewPCG(9, uint64(ranges)))
	for i := range w.Inputs {
		d := g.Data(graph.DataID(i))
		if !d.Input {
			continue
		}
		w.Inputs[i] = make([]byte, d.Bytes)
		for k := 0; k+4 <= len(w.Inputs[i]); k += 4 {
			binary.LittleEndian.PutUint32(w.Inputs[i][k:], math.Float32bits(1)|r.Uint32()>>9)
		}
	}
	return w
}

// TestWork runs workloads with their kernels on machines and in storms drawn from seeds. Every
// run has to end well, with the bytes of its tasks one after another.
//
//	go test ./internal/test/bytevm -run '^TestWork$' -work-seeds 1000
func TestWork(t *testing.T) {
	var sum bytevm.Summary
	for name := range works {
		var cut []*bytevm.Work
		for _, n := range []int{3, 8, 17} {
			cut = append(cut, workOf(t, name, n))
		}
		for seed := range *workSeeds {
			drawn, one, err := bytevm.RunWork(seed+1, bytevm.WorkTraits, cut[seed%3])
			if err != nil {
				t.Errorf("%s, seed %d, %v:\n%v", name, seed+1, drawn, err)
			} else if one.Failed > 0 {
				t.Errorf("%s, seed %d, %v: %d of %d runs failed", name, seed+1, drawn, one.Failed, one.Runs)
			}
			sum.Add(one)
		}
	}
	t.Logf("%+v", sum)
	for what, n := range map[string]int{"losses": sum.Losses, "retries": sum.Retries, "replays": sum.Replays, "copies": sum.Copies, "failed operations": sum.FailedOps, "failed copies": sum.FailedCopies} {
		if n == 0 {
			t.Errorf("no trial counts any %s", what)
		}
	}
}
