package relativity_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/relativity"
)

// Light that passes far away is deflected by 4/b, and at the limb of the sun by 1.75″.
func TestDeflection(t *testing.T) {
	rt := workloadtest.Open(t, 2, relativity.Funcs())
	impacts := []float64{1e3, 1e4, 1e5, 695_700 / 1.476625}
	rays, err := relativity.Bend(t.Context(), rt, impacts, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range impacts {
		exact, err := relativity.Deflection(b)
		series := 4/b + 15*math.Pi/4/(b*b) + 128/(3*b*b*b)
		if err != nil || math.Abs(exact-series) > 1e-14+4e3/(b*b*b*b) {
			t.Errorf("b %v: deflection %v by integrals, want %v: %v", b, exact, series, err)
		}
		if r := rays[i]; math.Abs(r.Deflection-exact) > 1e-12 || !r.Escaped || r.Captured || r.Drift > 1e-12 || math.Abs(r.Closest-(b-1)) > 3/b {
			t.Errorf("b %v: %+v, want %v", b, r, exact)
		}
	}
	if arc := rays[3].Deflection * 180 / math.Pi * 3600; math.Abs(arc-1.7512) > 1e-4 {
		t.Errorf("the sun deflects light by %.4f″", arc)
	}
}

// Light circles at radius 3 where its impact parameter is 3√3: a little above it light escapes
// after turns whose number grows with the logarithm, and a little below it is captured.
func TestPhotonSphere(t *testing.T) {
	rt := workloadtest.Open(t, 1, relativity.Funcs())
	if c := 3 * math.Sqrt(3); math.Abs(relativity.Critical-c) > 1e-15 {
		t.Errorf("Critical is %v, want %v", relativity.Critical, c)
	}
	for _, off := range []float64{1e-3, 1e-5, 1e-7, 1e-9} {
		above, below := relativity.Critical*(1+off), relativity.Critical*(1-off)
		rays, err := relativity.Bend(t.Context(), rt, []float64{above, below}, 2048)
		if err != nil {
			t.Fatal(err)
		}
		strong := -math.Log(off) + math.Log(216*(7-4*math.Sqrt(3))) - math.Pi
		exact, err := relativity.Deflection(above)
		if err != nil || math.Abs(exact-strong) > 3*off*-math.Log(off)+1e-15/off {
			t.Errorf("%v above: deflection %v, want %v: %v", off, exact, strong, err)
		}
		if r := rays[0]; !r.Escaped || r.Captured || math.Abs(r.Deflection-exact) > 1e-12/off || math.Abs(r.Closest-3) > 3*math.Sqrt(off) {
			t.Errorf("%v above: %+v, want %v", off, r, exact)
		}
		if r := rays[1]; r.Escaped || !r.Captured || !(r.Closest > 2 && r.Closest < 2.1) || math.Abs(r.Deflection+math.Log(off)+1.7185) > 0.02 {
			t.Errorf("%v below: %+v", off, r)
		}
	}
	if _, err := relativity.Deflection(relativity.Critical); !errors.Is(err, workload.ErrConfig) {
		t.Errorf("light that is captured: %v", err)
	}
}

// Light that comes straight at the black hole falls straight in.
func TestCaptured(t *testing.T) {
	rt := workloadtest.Open(t, 1, relativity.Funcs())
	rays, err := relativity.Bend(t.Context(), rt, []float64{0.1, 5}, 0)
	if err != nil {
		t.Fatal(err)
	}
	// With a small b, u″ is 3u²/b: near to the centre u is b sin φ and more.
	if angle := rays[0].Deflection + math.Pi; !rays[0].Captured || !(angle > 0.045 && angle < 0.051) {
		t.Errorf("%+v", rays[0])
	}
	if !rays[1].Captured || rays[1].Escaped {
		t.Errorf("%+v", rays[1])
	}
}

// gaussian adds up a smooth function from 0 to an end, by Gauss's rule of three points in many parts.
func gaussian(end float64, f func(x float64) float64) (sum float64) {
	const parts = 4000
	half := end / parts / 2
	for i := range parts {
		middle := half * float64(2*i+1)
		off := half * math.Sqrt(0.6)
		sum += half / 9 * (5*f(middle-off) + 8*f(middle) + 5*f(middle+off))
	}
	return sum
}

// The deflection has digits relative to itself, however far away the light passes: those of an integral over the
// angle of which nothing is subtracted.
func TestDeflectionRelative(t *testing.T) {
	for at := 3.3; at < 1e300; at *= 1.37 { // the closest radius
		m := 1 / at
		impact := at / math.Sqrt(1-2*m)
		// With r₀/r = sin θ the angle is 2∫ dθ ÷ √(1−y), y = 2(1 + s + s²) ÷ (1+s) ÷ r₀.
		want := 2 * gaussian(math.Pi/2, func(angle float64) float64 {
			s := math.Sin(angle)
			y := 2 * m * (1 + s + s*s) / (1 + s)
			root := math.Sqrt(1 - y)
			return y / (root * (1 + root))
		})
		got, err := relativity.Deflection(impact)
		if err != nil || math.Abs(got/want-1) > 4e-14 {
			t.Fatalf("impact parameter %v: %v, want %v, off by %.2g: %v", impact, got, want, got/want-1, err)
		}
	}
}

// Light whose impact parameter is small, down to the smallest number, falls in: it is followed to near the horizon,
// and its angle is that of the integral over the inverse radius.
func TestHeadOn(t *testing.T) {
	rt := workloadtest.Open(t, 1, relativity.Funcs())
	impacts := []float64{5e-324, 1e-310, 1e-300, 1e-155, 1e-30, 1e-6, 1e-3, 0.01, 0.5, 0.999999, 1, 1.5, 5}
	for _, steps := range []int{256, 1024, 2048} {
		rays, err := relativity.Bend(t.Context(), rt, impacts, steps)
		if err != nil {
			t.Fatal(err)
		}
		for i, b := range impacts {
			r := rays[i]
			want := gaussian(1/r.Closest, func(u float64) float64 { return b / math.Sqrt(1-b*u*b*u*(1-2*u)) })
			if !r.Captured || r.Escaped || !(r.Closest > 2 && r.Closest < 2.1) || !(math.Abs(r.Deflection+math.Pi-want) <= 1e-8) || !(r.Drift < 1e-8) || r.Steps > 2*steps {
				t.Errorf("impact parameter %v in %d steps: %+v, want the angle %v", b, steps, r, want)
			}
		}
	}
}

// Every number of a ray that is off is found.
func TestLightCheckFinds(t *testing.T) {
	rt := workloadtest.Open(t, 2, relativity.Funcs())
	for _, steps := range []int{16, 64, 256, 2048} {
		j := workloadtest.New[workload.Job](t)(relativity.New(relativity.Config{Problem: relativity.Light, Count: 64, Steps: steps}))
		workloadtest.Run(t, rt, j)
		if err := j.Check(); err != nil {
			t.Error(err)
		}
		if steps < 256 {
			continue
		}
		rays := j.(*relativity.LightJob).Result()
		for ray := range 20 {
			for k := range 5 { // steps are only counted
				x := &rays[6*ray+k]
				was := *x
				for _, bad := range []float64{was + 1e-2, math.NaN()} {
					if *x = bad; k >= 3 {
						*x = 1 - was
					}
					if err := j.Check(); !errors.Is(err, relativity.ErrWrong) {
						t.Errorf("number %d of ray %d is %v and not %v: the check says %v", k, ray, *x, was, err)
					}
				}
				*x = was
			}
			// Within the error of the method: no drift, half of it, twice of it, and steps that were not taken.
			for _, bad := range []struct {
				number int
				by     func(float64) float64
			}{
				{2, func(float64) float64 { return 0 }}, {2, func(v float64) float64 { return v / 2 }}, {2, func(v float64) float64 { return 2 * v }},
				{5, func(v float64) float64 { return v + 2 }}, {5, func(v float64) float64 { return v - 2 }},
			} {
				x := &rays[6*ray+bad.number]
				was := *x
				if bad.number == 2 && was < 1e-13 {
					continue // as large as rounding
				}
				if *x = bad.by(was); !errors.Is(j.Check(), relativity.ErrWrong) {
					t.Errorf("steps %d: number %d of ray %d is %v and not %v, and the check does not say so", steps, bad.number, ray, *x, was)
				}
				*x = was
			}
		}
		for i := range len(rays) / 6 {
			rays[6*i+2] = 0
		}
		if err := j.Check(); !errors.Is(err, relativity.ErrWrong) {
			t.Errorf("steps %d, no ray drifts: the check says %v", steps, err)
		}
	}
}

func TestLightRejects(t *testing.T) {
	for want, c := range map[string]relativity.Config{
		"0 rays":      {Count: 0},
		"16 to 2048":  {Count: 1, Steps: 2049},
		"15 steps":    {Count: 1, Steps: 15},
		"-1 steps":    {Count: 1, Steps: -1},
		"only orbits": {Count: 1, Turns: 1},
	} {
		c.Problem = relativity.Light
		if _, err := relativity.New(c); !errors.Is(err, workload.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
	rt := workloadtest.Open(t, 1, relativity.Funcs())
	for _, b := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if _, err := relativity.Bend(t.Context(), rt, []float64{9, b}, 0); !errors.Is(err, workload.ErrConfig) || !strings.Contains(err.Error(), "parameter 1") {
			t.Errorf("%v: %v", b, err)
		}
	}
	if _, err := relativity.Bend(t.Context(), rt, nil, 0); !errors.Is(err, workload.ErrConfig) {
		t.Errorf("no ray: %v", err)
	}
}
