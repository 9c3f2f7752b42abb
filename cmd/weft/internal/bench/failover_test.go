package bench

import (
	"encoding/json"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/chaos"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/trace"
)

func TestFailover(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("worker processes need Linux")
	}
	for _, devices := range []string{"cpu/2", "fake/3"} {
		got := rows[failoverRow](t, "failover", "--kills", "5", "--hang", "1", "--hang-timeout", "1s", "--devices", devices)
		if len(got) != 2 || got[0].Case != "kill" || got[1].Case != "hang" {
			t.Fatalf("%s: rows %+v", devices, got)
		}
		for i, strikes := range []int{5, 1} {
			r := got[i]
			if r.Kills != strikes || r.DetectMS.N != strikes || r.BackMS.N != strikes || r.Requeued != r.FailoverMS.N || r.Requeued > strikes {
				t.Errorf("%s: counts of %+v", devices, r)
			}
			if r.Lost != 0 || r.Duplicated != 0 || r.Tasks < failoverQuiet+2*strikes {
				t.Errorf("%s: tasks of %+v", devices, r)
			}
			if r.DetectMS.P50 <= 0 || r.DetectMS.Max < r.DetectMS.P99 || r.DetectMS.P99 < r.DetectMS.P50 || r.BackMS.P50 <= 0 {
				t.Errorf("%s: times of %+v", devices, r)
			}
		}
	}
}

// What was measured before --timeout is told.
func TestFailoverTimeout(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("worker processes need Linux")
	}
	for limit := 2 * time.Second; ; limit *= 2 {
		out, err := run(t.Context(), "failover", "--kills", "1000000", "--devices", "fake/2", "--timeout", limit.String(), "--json")
		if err == nil || !strings.Contains(err.Error(), "(--timeout)") {
			t.Fatalf("a million kills within %v: %v", limit, err)
		}
		if strings.Contains(err.Error(), "with 0 rows") && limit < time.Minute {
			continue // the machine is busy
		}
		var got []failoverRow
		if err := json.Unmarshal([]byte(out), &got); err != nil || len(got) != 1 {
			t.Fatalf("%v: %s", err, out)
		}
		if r := got[0]; r.Kills < 1 || r.Kills >= 1000000 || r.DetectMS.N != r.Kills || r.Lost != 0 || r.Duplicated != 0 {
			t.Errorf("%+v", r)
		}
		return
	}
}

// A strike that costs no device, as one that hits a worker that stands by, is made up for by
// another.
func TestFailoverMisses(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("worker processes need Linux")
	}
	const strikes = 10
	p := terminal.StartProgress(io.Discard, true, "strike", strikes)
	defer p.Finish()
	trial := &failoverTrial{
		m: &meter{ctx: t.Context(), options: weft.Options{Devices: "fake/2", Standby: true}}, p: p,
		rnd: rand.New(rand.NewPCG(1, 2)), strike: chaos.Kill, count: strikes, miss: 200 * time.Millisecond,
	}
	if err := trial.run(); err != nil {
		t.Fatal(err)
	}
	if r := trial.row; r.Kills != strikes || r.DetectMS.N != strikes || r.Lost != 0 || r.Duplicated != 0 {
		t.Errorf("%+v", r)
	}
	for _, ms := range trial.detect {
		if ms <= 0 {
			t.Errorf("a loss was known %v ms before the strike", -ms)
		}
	}
}

func TestFailoverRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"--kills -1":                          "neither can be less than 0",
		"--kills 0":                           "nothing would be measured",
		"--kills 1 --devices cpu":             "two devices at least",
		"--kills 1 --devices cpu/2,rocm:0":    "no backend \"rocm\"",
		"--kills 1 --devices fake:3":          "write how many there are to be",
		"--kills 1 --devices cpu/2 --resi 10": "unknown flag",
	} {
		if runtime.GOOS != "linux" && strings.Contains(args, "devices cpu") {
			continue
		}
		if _, err := run(t.Context(), append([]string{"failover"}, strings.Fields(args)...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// Two tasks were on device 1 when it was lost for the second time; one of them started again
// 3 ms later, the other 7 ms later. Others do not count: of the loss before, of the other
// device, and one that had ended.
func TestRequeued(t *testing.T) {
	ms := time.Millisecond
	exec := func(failed bool, dev machine.DeviceID, run int32, start, end time.Duration) trace.Event {
		return trace.Event{Kind: trace.Exec, Failed: failed, Device: dev, Run: run, Start: start, End: end}
	}
	events := []trace.Event{
		exec(true, 1, 1, 10*ms, 10*ms),
		{Kind: trace.Lost, Device: 1, Start: 10 * ms},
		exec(false, 0, 1, 11*ms, 16*ms),
		exec(false, 1, 2, 92*ms, 97*ms),
		exec(true, 1, 3, 100*ms, 100*ms),
		exec(true, 1, 4, 100*ms, 100*ms),
		{Kind: trace.Lost, Device: 1, Start: 100 * ms},
		exec(false, 0, 5, 101*ms, 106*ms),
		exec(false, 0, 4, 107*ms, 112*ms),
		exec(false, 0, 3, 103*ms, 108*ms),
	}
	first, runs := requeued(events, 1)
	slices.Sort(runs)
	if first != 3*ms || !slices.Equal(runs, []int64{3, 4}) {
		t.Errorf("first after %v, runs %v", first, runs)
	}
	if _, runs := requeued(events, 0); len(runs) > 0 {
		t.Errorf("a device that was not lost: runs %v", runs)
	}
}
