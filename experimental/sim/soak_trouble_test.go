package sim

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
)

// soakSeeds is how many different rounds TestSoakTrouble has. They come again and
// again, so that what they need at most is needed early.
const soakSeeds = 10

// round has a loop go through the jobs and faults of a trial, from its present time
// on, and mends what the faults did. run checks that nothing of it is kept.
func (l *loop) round(tr *trial) error {
	now := l.hw.now
	clear(l.hw.runs) // which it keeps for as long as they could be computed again
	clear(l.hw.resident)
	l.runs, l.byID, l.refs = nil, make(map[engine.RunID]int), nil
	l.fetched, l.freed, l.idle, l.steps = false, false, 0, 0
	for _, d := range tr.Resident {
		ref := l.engine.NewData(d.Name, d.Bytes, d.Durability)
		l.refs = append(l.refs, ref)
		l.hw.BeginData(ref, d)
	}
	for _, j := range inOrder(tr.Jobs) {
		j.At += now
		l.jobs = append(l.jobs, j)
	}
	for _, f := range tr.Faults {
		f.At += now
		l.faults = append(l.faults, f)
	}
	if err := l.run(); err != nil {
		return err
	}
	// What has not happened yet is left out, what has is undone.
	l.faults = nil
	now = l.hw.now + time.Second
	for i := range l.c.Machine.Devices {
		dev := machine.DeviceID(i)
		for _, f := range []Fault{{Kind: Back}, {Kind: Slow, Factor: 1}, {Kind: Shrink, Bytes: l.c.Machine.Devices[i].MemBytes}, {Kind: Undrain}} {
			if f.Kind != Shrink || f.Bytes > 0 {
				f.At, f.Device = now, dev
				l.faults = append(l.faults, f)
			}
		}
	}
	l.stepNow = true
	return l.run()
}

// TestSoakTrouble has one engine go through rounds of runs with losses, failures and
// cancels. After each of them nothing of it may be kept, and after some, memory must
// not grow any more.
func TestSoakTrouble(t *testing.T) {
	const warm, rounds = 6 * soakSeeds, 12 * soakSeeds
	m := randomMachine(rand.New(rand.NewPCG(3, 1)))
	var l *loop
	round := func(i int) {
		seed := uint64(i % soakSeeds)
		r := rand.New(rand.NewPCG(seed, 2))
		tr := trial{traits: cancelled | held | heldUnsafe | ganged | selective}
		tr.Config = Config{
			Machine: m, Policy: "finish", Seed: 1, Noise: 0.1,
			TaskTimeout: 500 * time.Millisecond, Retries: 100,
		}
		tr.drawJobs(r)
		tr.Faults = randomFaults(r, m, 10*time.Millisecond)
		for k := range len(tr.Jobs) {
			if r.IntN(3) == 0 {
				tr.Faults = append(tr.Faults, Fault{Kind: Cancel, Times: k + 1, At: time.Duration(r.IntN(5e6))})
			}
		}
		tr.Faults.sort()
		if l == nil {
			var err error
			c := tr.Config
			c.Resident, c.Faults = nil, Faults{{Kind: Break}} // links may break
			if l, err = newLoop(c); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.round(&tr); err != nil {
			t.Fatalf("round %d: %v\nfaults:\n%s", i, err, tr.Faults.Text(m))
		}
	}
	heap := func() int64 {
		runtime.GC()
		runtime.GC() // the first may leave what finalizers hold
		var ms runtime.MemStats
		runtime.ReadMemStats(&ms)
		return int64(ms.HeapAlloc)
	}
	base := int64(0)
	for i := range rounds {
		if round(i); i+1 == warm {
			base = heap()
		}
	}
	if grown := heap() - base; grown > 64<<10 {
		t.Errorf("memory grew by %d bytes over %d rounds", grown, rounds-warm)
	}
	runtime.KeepAlive(l)
}
