package fusion_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weft-run/weft/experimental/pipeline"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/fusion"
)

// Records come out the same on one to eight devices in every mode, and right.
func TestJobOnDevices(t *testing.T) {
	for _, c := range []fusion.Config{
		{Records: 2000},
		{Records: 2000, Mode: pipeline.DataParallel, Seed: 1},
		{Records: 2000, Mode: pipeline.PipelineParallel, Micro: 100, Seed: 2},
		{Records: 1999, Mode: pipeline.Hybrid, Micro: 70, Seed: 3},
		{Records: 2001, Bind: true, Seed: 4},
		{Records: 2000, Mode: pipeline.PipelineParallel, Micro: 90, Bind: true, Seed: 5},
	} {
		workloadtest.Invariant(t, fusion.Funcs(),
			func() (*fusion.Job, error) { return fusion.New(c) },
			func(j *fusion.Job) []byte { return workloadtest.Bytes(j.Result()) })
	}
}

// The mode does not show in the result.
func TestModesAgree(t *testing.T) {
	var want []float32
	for _, mode := range []pipeline.Mode{"", pipeline.DataParallel, pipeline.PipelineParallel, pipeline.Hybrid} {
		j := workloadtest.New[*fusion.Job](t)(fusion.New(fusion.Config{Records: 500, Mode: mode, Seed: 7}))
		workloadtest.Run(t, workloadtest.Open(t, 3, fusion.Funcs()), j)
		if want == nil {
			want = append(want, j.Result()...)
		}
		for i, x := range j.Result() {
			if math.Float32bits(x) != math.Float32bits(want[i]) {
				t.Fatalf("mode %q: number %d is %v, want %v", mode, i, x, want[i])
			}
		}
	}
}

// A pipeline keeps each stage on its own device.
func TestPipelineParallel(t *testing.T) {
	rt := workloadtest.Open(t, 3, fusion.Funcs())
	j := workloadtest.New[*fusion.Job](t)(fusion.New(fusion.Config{Records: 64 * 64, Mode: pipeline.PipelineParallel}))
	res := workloadtest.Run(t, rt, j)
	if res.Tasks != 3*64 {
		t.Errorf("%d tasks, want three for each of 64 micro-batches", res.Tasks)
	}
	for i, d := range res.Report.Devices {
		if d.Tasks != 64 {
			t.Errorf("device %d ran %d tasks, want one stage of 64 micro-batches", i, d.Tasks)
		}
	}
}

// Binding is not symmetric in multivectors, and one is neutral: tropical zero,
// dual one and the scalar one.
func TestBind(t *testing.T) {
	var one, a, b, ab, ba, same [fusion.Floats]float32
	for i := range 8 {
		one[8+i] = 1
	}
	one[24] = 1
	for i := range a {
		a[i], b[i] = float32(i%5)-2, float32(i%7)-3
	}
	fusion.Bind(ab[:], a[:], b[:])
	fusion.Bind(ba[:], b[:], a[:])
	fusion.Bind(same[:], one[:], a[:])
	if same != a {
		t.Errorf("bound with one, %v is %v", a, same)
	}
	for i := range ab {
		if i < 24 && ab[i] != ba[i] {
			t.Errorf("number %d is %v or %v by order", i, ab[i], ba[i])
		}
	}
	var x, y [8]float64
	for i := range x {
		x[i], y[i] = float64(a[24+i]), float64(b[24+i])
	}
	for i, want := range fusion.Product(x, y) {
		if float64(ab[24+i]) != want {
			t.Errorf("coefficient %d is %v, want %v", i, ab[24+i], want)
		}
	}
	if [8]float32(ab[24:]) == [8]float32(ba[24:]) {
		t.Error("multivectors commute")
	}
}

// Every number that is off by more than rounding is found, in any record of many, as is
// a number that is none and a record of another place.
func TestCheckFinds(t *testing.T) {
	rt := workloadtest.Open(t, 2, fusion.Funcs())
	for _, bind := range []bool{false, true} {
		const records = 20_000
		j := workloadtest.New[*fusion.Job](t)(fusion.New(fusion.Config{Records: records, Bind: bind}))
		workloadtest.Run(t, rt, j)
		if err := j.Check(); err != nil {
			t.Fatal(err)
		}
		out, good := j.Result(), slices.Clone(j.Result())
		r := rand.New(rand.NewPCG(1, 2))
		errs := 60
		if testing.Short() {
			errs = 12
		}
		for i := range errs {
			at := r.IntN(len(out))
			switch i % 4 {
			case 0, 1:
				out[at] += 3e-5
			case 2:
				out[at] = float32(math.NaN())
			case 3:
				at -= at % fusion.Floats
				copy(out[at:at+fusion.Floats], good[len(out)-1-at-at%fusion.Floats:])
			}
			if err := j.Check(); !errors.Is(err, fusion.ErrWrong) {
				t.Fatalf("number %d of record %d is wrong: the check says %v", at%fusion.Floats, at/fusion.Floats, err)
			}
			copy(out, good)
		}
	}
}

// Records pass whatever numbers they have.
func TestCheckNeverCriesWolf(t *testing.T) {
	rt := workloadtest.Open(t, 1, fusion.Funcs())
	for _, bind := range []bool{false, true} {
		for name, number := range map[string]func(x float32, i int) float32{
			"small": func(x float32, _ int) float32 { return 1e-30 * x },
			"large": func(x float32, _ int) float32 { return 1e10 * x },
			"tiny":  func(x float32, _ int) float32 { return 1e-42 * x },
			"NaN": func(x float32, i int) float32 {
				if i%97 == 5 {
					return float32(math.NaN())
				}
				return x
			},
		} {
			j := workloadtest.New[*fusion.Job](t)(fusion.New(fusion.Config{Records: 3000, Bind: bind}))
			for i, x := range j.Records() {
				j.Records()[i] = number(x, i)
			}
			workloadtest.Run(t, rt, j)
			if err := j.Check(); err != nil {
				t.Errorf("%s numbers, bound is %v: %v", name, bind, err)
			}
		}
	}
}

// The product has the signs of the table, row by row.
func TestProduct(t *testing.T) {
	indices := [8]string{"01234567", "10452376", "24061735", "35607124", "42170653", "53716042", "67325401", "76543210"}
	signs := [8]string{"++++++++", "++++++++", "+-++--+-", "+--++--+", "+-++--+-", "+--++--+", "++-+-+--", "++-+-+--"}
	for i := range 8 {
		for j := range 8 {
			var a, b, want [8]float64
			a[i], b[j] = 1, 1
			want[indices[i][j]-'0'] = map[byte]float64{'+': 1, '-': -1}[signs[i][j]]
			if got := fusion.Product(a, b); got != want {
				t.Errorf("blade %d times blade %d is %v, want %v", i, j, got, want)
			}
		}
	}
}

// A quarter turn in the plane of e1 and e2 takes e1 to e2.
func TestRotor(t *testing.T) {
	r := fusion.Rotor(math.Pi/2, [3]float64{1, 0, 0})
	back := fusion.Rotor(-math.Pi/2, [3]float64{1, 0, 0})
	got := fusion.Product(fusion.Product(r, [8]float64{1: 1}), back)
	for i, x := range got {
		if want := map[int]float64{2: 1}[i]; math.Abs(x-want) > 1e-15 {
			t.Errorf("e1 turns to %v", got)
			break
		}
	}
}

func TestRejects(t *testing.T) {
	for _, c := range []fusion.Config{
		{}, {Records: -1}, {Records: 1<<26 + 1}, {Records: 1, Micro: -1}, {Records: 1, Mode: "sideways"},
		{Records: 1, Copies: 2}, {Records: 1, Mode: pipeline.Hybrid, Copies: -1},
	} {
		if _, err := fusion.New(c); !errors.Is(err, workload.ErrConfig) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
