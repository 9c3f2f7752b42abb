package fold

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/fake"
	"github.com/weft-run/weft/internal/simd"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/protein"
)

// small is a run with two groups, the second not full, and a last round that is shorter.
var small = Config{Steps: 110, Every: 20, Replicas: 13, Low: 0.6, High: 1.2, Seed: 5}

func newSmall(t testing.TB, c Config) *Run {
	t.Helper()
	r, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// result is all that a run has computed.
func (r *Run) result() []byte {
	return slices.Concat(workloadtest.Bytes(r.state), workloadtest.Bytes(r.seen), workloadtest.Bytes(r.rungs), workloadtest.Bytes(r.trace), workloadtest.Bytes(r.best), workloadtest.Bytes(r.asked))
}

func do(t testing.TB, rt *weft.Runtime, r *Run) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := r.Do(ctx, rt, nil); err != nil {
		t.Fatal(err)
	}
}

// The trajectories have the same bytes on any number of devices and with every kernel, and
// replicas that are there alone are those that were there among others.
func TestSameBytes(t *testing.T) {
	defer func() { use = simd.Best }()
	var want []byte
	for parts := 1; parts <= 4; parts++ {
		use = max(simd.Best-simd.Set(parts)+1, simd.Go)
		r := newSmall(t, small)
		do(t, workloadtest.Open(t, parts, Funcs()), r)
		if err := r.Check(); err != nil {
			t.Errorf("%d devices: %v", parts, err)
		}
		if got := r.result(); want == nil {
			want = got
		} else if !bytes.Equal(got, want) {
			t.Errorf("%d devices, kernel %v: other bytes than on one", parts, use)
		}
	}
	use = simd.Best
	c := small
	c.High = c.Low // so that replicas do not depend on each other
	many, few := newSmall(t, c), Config{}
	do(t, workloadtest.Open(t, 2, Funcs()), many)
	few = c
	few.Replicas = 3
	alone := newSmall(t, few)
	do(t, workloadtest.Open(t, 1, Funcs()), alone)
	for k := range few.Replicas {
		if !slices.Equal(alone.Positions(k), many.Positions(k)) {
			t.Errorf("replica %d of %d differs from that of %d", k, few.Replicas, c.Replicas)
		}
	}
}

// In each round a replica has the temperature of its rung, and its velocities are those of the
// rung before, scaled.
func TestLadder(t *testing.T) {
	r := newSmall(t, small)
	do(t, workloadtest.Open(t, 1, Funcs()), r)
	if r.took = time.Second; r.Rate() != 90*13 { // the first round is not counted
		t.Errorf("%v steps, want %v", r.Rate(), 90*13)
	}
	moved, last := 0, (r.Rounds()-1)*r.c.Replicas
	for k := range r.c.Replicas {
		now, before := r.temperatures[r.rungs[last+k]], r.temperatures[r.rungs[last-r.c.Replicas+k]]
		l := r.ladder[k/lanes]
		if l[rungTemperature][k%lanes] != now || math.Abs(l[rungScale][k%lanes]-math.Sqrt(now/before)) > 1e-12 || l[rungStep][k%lanes] != 100 {
			t.Errorf("replica %d at temperature %v, before %v: scale %v, step %v", k, now, before, l[rungScale][k%lanes], l[rungStep][k%lanes])
		}
		if now != before {
			moved++
		}
	}
	if asked, done := r.Exchanges(); moved == 0 || done == 0 || done > asked {
		t.Errorf("%d of %d exchanges, %d replicas moved in the last", done, asked, moved)
	}
}

// A run that was ended in any round and is resumed gives the bytes of one that was not.
func TestResume(t *testing.T) {
	for ends := range newSmall(t, small).Rounds() - 1 {
		testResume(t, small, ends)
	}
}

// testResume ends a run after a round.
func testResume(t *testing.T, c Config, ends int) {
	t.Helper()
	whole := newSmall(t, c)
	do(t, workloadtest.Open(t, 2, Funcs()), whole)
	dir := filepath.Join(t.TempDir(), "kept")
	open := func(parts int) *weft.Runtime {
		rt, err := weft.Open(t.Context(), weft.Options{
			NoCalibrate: true, CacheDir: "off", Devices: fmt.Sprintf("cpu/%d", parts), Funcs: Funcs(),
			Checkpoint: weft.Checkpoint{Dir: dir, Every: time.Nanosecond, ResumeIfAny: true},
		})
		if err != nil {
			t.Fatal(err)
		}
		return rt
	}
	rt := open(1)
	ctx, cancel := context.WithCancel(t.Context())
	err := newSmall(t, c).Do(ctx, rt, func(round int) {
		if round == ends {
			cancel()
		}
	})
	cancel()
	rt.Close()
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	rt = open(2)
	again, first := newSmall(t, c), -1
	if err := again.Do(t.Context(), rt, func(round int) {
		if first < 0 {
			first = round
		}
	}); err != nil {
		t.Fatal(err)
	}
	rt.Close()
	if first != ends+1 || !bytes.Equal(again.result(), whole.result()) {
		t.Errorf("ended after round %d, resumed at %d: same bytes %v", ends, first, bytes.Equal(again.result(), whole.result()))
	}
	if err := again.Check(); err != nil {
		t.Error(err)
	}
	// Another run does not resume it.
	other := c
	other.Seed++
	rt = open(1)
	if err := newSmall(t, other).Do(t.Context(), rt, nil); !errors.Is(err, weft.ErrOtherCheckpoint) {
		t.Errorf("another seed: %v", err)
	}
	rt.Close()
}

// What the check is for is found: a wrong position, energy or observable.
func TestCheckFinds(t *testing.T) {
	for what, spoil := range map[string]func(r *Run){
		"position": func(r *Run) { r.state[7][2] += 1e-9 },
		"velocity": func(r *Run) { r.state[3*46+7][2] += 1e-12 },
		"energy":   func(r *Run) { r.seen[(r.Rounds()-1)*r.c.Replicas*seenCount+seenEnergy] += 1e-5 },
		"RMSD":     func(r *Run) { r.seen[(r.Rounds()-1)*r.c.Replicas*seenCount+seenRMSD] += 1e-5 },
		"step":     func(r *Run) { r.last[5][1] += 1e-3 },
	} {
		c := small
		c.Replicas = 8 // one group, so that the check sees all
		r := newSmall(t, c)
		do(t, workloadtest.Open(t, 1, Funcs()), r)
		if err := r.Check(); err != nil {
			t.Fatal(err)
		}
		if spoil(r); !errors.Is(r.Check(), errWrong) {
			t.Errorf("a wrong %s: %v", what, r.Check())
		}
	}
}

// Of a long last round the check takes the last steps alone again, from the state before them.
func TestCheckTail(t *testing.T) {
	const head = 300
	c := Config{Steps: head + tailSteps, Every: head + tailSteps, Replicas: 8, Seed: 3}
	r := newSmall(t, c)
	do(t, workloadtest.Open(t, 2, Funcs()), r)
	if err := r.Check(); err != nil {
		t.Error(err)
	}
	c.Steps, c.Every = head, head
	first := newSmall(t, c)
	do(t, workloadtest.Open(t, 1, Funcs()), first)
	if r.ladder[0][rungStep][0] != head || !slices.Equal(r.last, first.state) {
		t.Errorf("the state that is kept is not that after %d steps", head)
	}
	if r.last[5][1] += 1e-3; !errors.Is(r.Check(), errWrong) {
		t.Error("a wrong step was not found")
	}
}

// Replicas begin straight, with bonds of about native length, and all differently.
func TestStart(t *testing.T) {
	r := newSmall(t, small)
	for k := range r.c.Replicas {
		x := r.Positions(k)
		if q, rg := r.model.Q(x), protein.Rg(x); q > 0.01 || rg < 45 {
			t.Errorf("replica %d begins with Q %v, Rg %v", k, q, rg)
		}
		if k > 0 && slices.Equal(x, r.Positions(k-1)) {
			t.Errorf("replicas %d and %d begin equal", k-1, k)
		}
	}
}

// Exchange is the same as asking by the definition, keeps rungs a permutation, and leaves
// velocities at the new temperatures.
func TestExchange(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	const n = 9
	temperature := Config{Replicas: n, Low: 0.5, High: 1.5}.temperatures()
	if math.Abs(temperature[0]-0.5) > 1e-12 || math.Abs(temperature[n-1]-1.5) > 1e-12 || math.Abs(temperature[1]/temperature[0]-temperature[5]/temperature[4]) > 1e-12 {
		t.Errorf("temperatures %v", temperature)
	}
	rung := make([]int32, n)
	for i := range rung {
		rung[i] = int32((i + 4) % n)
	}
	asked, done := 0, 0
	for round := range 4000 {
		energy, scale := make([]float64, n), make([]float64, n)
		before := slices.Clone(rung)
		for i := range energy {
			// The lower the temperature, the lower the energy.
			energy[i] = -30 + 20*temperature[rung[i]] + 3*r.NormFloat64()
		}
		a, d := exchange(rung, scale, energy, temperature, 3, round)
		asked, done = asked+a, done+d
		sorted := slices.Sorted(slices.Values(rung))
		for i := range sorted {
			if sorted[i] != int32(i) {
				t.Fatalf("rungs %v", rung)
			}
			if want := math.Sqrt(temperature[rung[i]] / temperature[before[i]]); math.Abs(scale[i]-want) > 1e-12 {
				t.Fatalf("scale %v, want %v", scale[i], want)
			}
			if step := rung[i] - before[i]; step < -1 || step > 1 {
				t.Fatalf("replica %d leaps from rung %d to %d", i, before[i], rung[i])
			}
		}
	}
	if asked != 4000*4 || done < asked/10 || done > asked*9/10 {
		t.Errorf("%d exchanges of %d", done, asked)
	}
	// One that lowers the energy of the colder always happens, one that is hopeless never.
	rung = []int32{0, 1}
	if _, d := exchange(rung, make([]float64, 2), []float64{5, -5}, []float64{0.5, 1}, 1, 0); d != 1 || rung[0] != 1 {
		t.Error("a certain exchange did not happen")
	}
	if _, d := exchange(rung, make([]float64, 2), []float64{500, -500}, []float64{0.5, 1}, 1, 2); d != 0 {
		t.Error("a hopeless exchange happened")
	}
}

// The heat capacity of a harmonic well is half its degrees of freedom at any temperature, and
// that of two states is largest where they weigh the same.
func TestHeat(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 7))
	temperatures := Config{Replicas: 8, Low: 0.6, High: 1.2}.temperatures()
	sample := func(draw func(t float64) float64) [][][]float64 {
		parts := make([][][]float64, fewBlocks)
		for p := range parts {
			for _, t := range temperatures {
				es := make([]float64, 1000)
				for i := range es {
					es[i] = draw(t)
				}
				parts[p] = append(parts[p], es)
			}
		}
		return parts
	}
	const freedom = 40
	well := func(t float64) float64 {
		e := 0.0
		for range freedom {
			g := r.NormFloat64()
			e += t / 2 * g * g
		}
		return e
	}
	h := heat(temperatures, sample(well))
	for i := 50; i < 350; i++ {
		if math.Abs(h.Capacity[i]-freedom/2) > 2 {
			t.Fatalf("a well at %v: capacity %v, want %v", h.Temperatures[i], h.Capacity[i], freedom/2)
		}
	}
	const gap, melting = 30, 0.9
	two := func(t float64) float64 {
		if folded := 1 / (1 + math.Exp(gap/melting-gap/t)); r.Float64() < folded {
			return well(t) - gap
		}
		return well(t)
	}
	h = heat(temperatures, sample(two))
	if math.Abs(h.Melting-melting) > 0.01 || h.Error > 0.01 || h.Edge {
		t.Errorf("two states melt at %v ± %v, want %v", h.Melting, h.Error, melting)
	}
	run := newSmall(t, Config{Steps: 40, Every: 20, Replicas: 4, Low: 0.6, High: 1})
	if _, err := run.Heat(); !errors.Is(err, ErrFew) {
		t.Errorf("few rounds: %v", err)
	}
	run = newSmall(t, Config{Steps: 4000, Every: 20, Replicas: 4})
	if _, err := run.Heat(); !errors.Is(err, ErrFew) {
		t.Errorf("one temperature: %v", err)
	}
}

// Trajectories are read back as they were: frames in the PDB format as models, and by a
// reader of the DCD format.
func TestWrite(t *testing.T) {
	r := newSmall(t, small)
	do(t, workloadtest.Open(t, 1, Funcs()), r)
	var text, dcd bytes.Buffer
	if err := errors.Join(r.Write(&text, "pdb"), r.Write(&dcd, "dcd")); err != nil {
		t.Fatal(err)
	}
	if err := r.Write(&text, "trr"); !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
	frames := readDCD(t, dcd.Bytes(), 46)
	if len(frames) != r.Rounds() {
		t.Fatalf("%d frames", len(frames))
	}
	for i, frame := range frames {
		s, err := protein.Read(bytes.NewReader(text.Bytes()), protein.Select{Model: i + 1})
		if err != nil {
			t.Fatal(err)
		}
		if s.Residues[9].String() != "ARG A 10A" || s.Residues[9].B != 3.38 {
			t.Errorf("residue %v", s.Residues[9])
		}
		for k, v := range s.Coordinates() {
			if math.Abs(v-float64(frame[k])) > 6e-4 {
				t.Fatalf("frame %d: coordinate %d is %v in one and %v in the other", i, k, v, frame[k])
			}
		}
		if d := protein.RMSD(s.Coordinates(), r.model.Native); math.Abs(d-r.Lowest(i).RMSD) > 1e-2 {
			t.Errorf("frame %d: RMSD %v, want %v", i, d, r.Lowest(i).RMSD)
		}
	}
	for path, want := range map[string]string{"a.pdb": "pdb", "b/c.DCD": "dcd", "x.xtc": "xtc", "y.trr": "", "noend": ""} {
		if got, err := Format(path); got != want || (want == "") != errors.Is(err, ErrFormat) {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	r.trace[3] = 2e6
	if err := r.Write(&text, "pdb"); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), ".dcd") {
		t.Errorf("a coordinate that does not fit: %v", err)
	}
}

// Chains and residues whose names and numbers have no place in the PDB format get others, so that
// each frame can be read; a run whose frames have none is refused before and after.
func TestWriteNames(t *testing.T) {
	chain := func(name string, first int, x float64) []protein.Residue {
		all := protein.Helix(12).Residues
		for i := range all {
			all[i].Chain, all[i].Number = name, first+i
			all[i].X += x
		}
		return all
	}
	of := func(c Config, chains ...[]protein.Residue) *Run {
		t.Helper()
		r, err := NewOf(c, &protein.Structure{Name: "made", Residues: slices.Concat(chains...)})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	c := Config{Steps: 20, Every: 10, Replicas: 1}
	long := chain("A", 1, 30)
	long[3].Insertion, long[4].B = "xy", -2e4
	r := of(c, chain("AA", 9995, 0), chain("B", -1005, 10), chain("_", 5, 20), long, chain("C-2", 7, 40))
	do(t, workloadtest.Open(t, 1, Funcs()), r)
	var text bytes.Buffer
	if err := errors.Join(r.Writable("pdb"), r.Write(&text, "pdb")); err != nil {
		t.Fatal(err)
	}
	for model := 1; model <= 2; model++ {
		s, err := protein.Read(bytes.NewReader(text.Bytes()), protein.Select{Model: model, Chain: "all"})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, i := range []int{0, 11, 12, 24, 39, 48, 59} {
			got = append(got, s.Residues[i].String())
		}
		if want := []string{"ALA C 1", "ALA C 12", "ALA B 1", "ALA _ 5", "ALA A 4", "ALA D 7", "ALA D 18"}; s.Len() != 60 || !slices.Equal(got, want) {
			t.Errorf("model %d: %d residues, %q, want %q", model, s.Len(), got, want)
		}
	}
	var many [][]protein.Residue
	for i := range 63 {
		many = append(many, chain(fmt.Sprintf("N%d", i), 1, 10*float64(i)))
	}
	for name, r := range map[string]*Run{
		"10000 frames": of(Config{Steps: 10_000, Every: 1, Replicas: 1}, chain("A", 1, 0)),
		"63 chains":    of(c, many...),
	} {
		for _, err := range []error{r.Writable("pdb"), r.Write(io.Discard, "pdb")} {
			if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := r.Writable("dcd"); err != nil {
			t.Error(err)
		}
	}
	for n, fits := range map[int]bool{500: true, 540: false} {
		r, err := NewOf(c, protein.Helix(n))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Writable("pdb"); (err == nil) != fits || !fits && !errors.Is(err, ErrFormat) {
			t.Errorf("a chain of %d residues: %v", n, err)
		}
	}
}

// readDCD reads the frames of a file in the DCD format, x, y and z bead by bead.
func readDCD(t *testing.T, b []byte, atoms int) [][]float32 {
	t.Helper()
	record := func() []byte {
		if len(b) < 8 {
			t.Fatal("the file ends within a record")
		}
		n := binary.LittleEndian.Uint32(b)
		body := b[4 : 4+n]
		if binary.LittleEndian.Uint32(b[4+n:]) != n {
			t.Fatal("a record ends with another length than it begins with")
		}
		b = b[8+n:]
		return body
	}
	header := record()
	if len(header) != 84 || string(header[:4]) != "CORD" {
		t.Fatalf("header %q", header)
	}
	frames := int(binary.LittleEndian.Uint32(header[4:]))
	if title := record(); len(title) != 84 {
		t.Errorf("title of %d bytes", len(title))
	}
	if n := int(binary.LittleEndian.Uint32(record())); n != atoms {
		t.Errorf("%d atoms", n)
	}
	var out [][]float32
	for range frames {
		frame := make([]float32, 3*atoms)
		for c := range 3 {
			axis := record()
			for k := range atoms {
				frame[3*k+c] = math.Float32frombits(binary.LittleEndian.Uint32(axis[4*k:]))
			}
		}
		out = append(out, frame)
	}
	if len(b) > 0 {
		t.Errorf("%d bytes behind the last frame", len(b))
	}
	return out
}

func TestValidate(t *testing.T) {
	for name, c := range map[string]Config{
		"steps": {Steps: -1}, "every": {Every: -1}, "more every than steps": {Steps: 10, Every: 20}, "frames": {Steps: maxFrames * 2, Every: 1},
		"replicas": {Replicas: -1}, "many replicas": {Replicas: maxReplicas + 1}, "cold": {Low: -1}, "hot": {Low: 1, High: 1000}, "falling": {Low: 1, High: 0.5},
		"one on a ladder": {Replicas: 1, Low: 0.5, High: 1}, "time": {TimeStep: 1}, "friction": {Friction: -1}, "NaN": {Low: math.NaN()}, "model": {Select: protein.Select{Model: -1}},
	} {
		if err := c.Validate(); !errors.Is(err, workload.ErrConfig) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := New(c); !errors.Is(err, workload.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (Config{}).Validate(); err != nil {
		t.Error(err)
	}
	if _, err := New(Config{Structure: "no such file"}); err == nil {
		t.Error("no error")
	}
	rt := workloadtest.Open(t, 1, nil)
	if err := newSmall(t, small).Do(t.Context(), rt, nil); !errors.Is(err, weft.ErrNoFunc) || !strings.Contains(err.Error(), "fold.Funcs()") {
		t.Errorf("without kernels: %v", err)
	}
	if err := newSmall(t, small).Do(t.Context(), nil, nil); err == nil {
		t.Error("no error without a runtime")
	}
}

// A bead without a place ends the run with an error that names it.
func TestRunNowhere(t *testing.T) {
	r := newSmall(t, small)
	r.state[3*20][3] = math.NaN()
	if err := r.Do(t.Context(), workloadtest.Open(t, 2, Funcs()), nil); err == nil || !strings.Contains(err.Error(), "at step 0 bead 20 of replica 3 is nowhere") {
		t.Error(err)
	}
}

// Tasks that fail and devices that are lost change no byte.
func TestLostDevice(t *testing.T) {
	whole := newSmall(t, small)
	do(t, workloadtest.Open(t, 1, Funcs()), whole)
	advance := Funcs()[foldOnDevices.Name]
	var drv *fake.Driver
	var calls atomic.Int64
	lost := make(chan error, 2)
	funcs := map[string]weft.Func{foldOnDevices.Name: func(c *weft.Call, lo, hi int) {
		advance(c, lo, hi)
		switch calls.Add(1) {
		case 2, 3:
			c.Fail(errors.New("for a test"))
		case 5:
			lost <- drv.Play("on 0 lose")
		case 8:
			lost <- drv.Play("on 1 lose")
		}
	}}
	var err error
	if drv, err = fake.New(fake.Options{Devices: 2, MemBytes: 1 << 20, Funcs: funcs}); err != nil {
		t.Fatal(err)
	}
	rt, err := weft.Open(t.Context(), weft.Options{Drivers: []driver.Driver{drv}, Partitioner: "equal", NoCalibrate: true, CacheDir: "off", Funcs: funcs})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	r := newSmall(t, small)
	do(t, rt, r)
	if err := errors.Join(<-lost, <-lost); err != nil {
		t.Fatal(err)
	}
	if rt.Metrics().Losses == 0 || !bytes.Equal(r.result(), whole.result()) {
		t.Errorf("after %d losses the bytes are the same: %v", rt.Metrics().Losses, bytes.Equal(r.result(), whole.result()))
	}
}
