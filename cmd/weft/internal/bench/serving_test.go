package bench

import (
	"bytes"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/serve"
	"github.com/weft-run/weft/serve/load"
	"github.com/weft-run/weft/serve/simulate"
	"github.com/weft-run/weft/workload/reservoir"
)

// reservoirOf100 is made once: its spectral radius takes a while.
var reservoirOf100 = sync.OnceValues(func() (*reservoir.Model, error) { return servedModel(100) })

// served simulates a profile on a machine.
func served(t *testing.T, profile, on string, m *reservoir.Model, p load.Pace) servingRow {
	t.Helper()
	c, err := serve.LoadConfig("", profile)
	if err != nil {
		t.Fatal(err)
	}
	described, ok := machine.Named(on)
	if !ok {
		t.Fatal(on)
	}
	row, err := simulateServing(c, described, m, p)
	if err != nil {
		t.Fatal(err)
	}
	if row.Arrived != row.Answered+row.Refused+row.Expired+row.Failed || row.Kind != "simulated" {
		t.Errorf("not every request has one answer: %+v", row)
	}
	if row.Utilisation < 0 || row.Utilisation > 1 || row.P50 > row.P95 || row.P95 > row.P99 || row.P99 > row.Most || row.Most > row.GoalMS {
		t.Errorf("figures that cannot be: %+v", row)
	}
	return row
}

// Requests that meet nobody take as long as a batch of one is predicted to, and devices are busy for
// the part of the time that they compute.
func TestServingAlone(t *testing.T) {
	m, err := reservoirOf100()
	if err != nil {
		t.Fatal(err)
	}
	described, _ := machine.Named("4x5070-ring")
	cost, err := simulate.Batch(described, 0, m, 1)
	if err != nil {
		t.Fatal(err)
	}
	r := served(t, "hft", "4x5070-ring", m, load.Pace{Rate: 100, Duration: 10 * time.Second})
	if whole := cost.Whole.Seconds() * 1e3; r.Answered != r.Arrived || math.Abs(r.P50-whole) > 0.02*whole || math.Abs(r.Most-whole) > 0.02*whole {
		t.Errorf("a batch takes %v, and %+v", cost.Whole, r)
	}
	if want := 100 * cost.Busy.Seconds() / 4; math.Abs(r.Utilisation-want) > 0.01*want || r.Batch != 1 {
		t.Errorf("utilisation %v in batches of %v, want %v", r.Utilisation, r.Batch, want)
	}
	// The predictor computes every width in one task: a batch takes no less for more inputs.
	more, err := simulate.Batch(described, 0, m, 64)
	if err != nil || more.Whole < cost.Whole || more.Whole > 64*cost.Whole {
		t.Errorf("a batch of 64 takes %v, one of 1 %v, %v", more.Whole, cost.Whole, err)
	}
}

// Both profiles on every machine: the same seed gives the same figures, more than devices can do is
// refused and what is answered is in time.
func TestServingProfiles(t *testing.T) {
	m, err := reservoirOf100()
	if err != nil {
		t.Fatal(err)
	}
	pace := load.Pace{Arrivals: load.Poisson, WarmUp: 20 * time.Millisecond, Duration: 50 * time.Millisecond, Seed: 3}
	for _, profile := range serve.ProfileNames() {
		for _, on := range []string{"3x5070", "4x5070-ring", "8x5070-hier"} {
			pace.Rate = servingRates[profile]
			r := served(t, profile, on, m, pace)
			if again := served(t, profile, on, m, pace); again != r {
				t.Errorf("%+v and then %+v", r, again)
			}
			if r.Refused+r.Expired > 0 || r.Devices > r.Made {
				t.Errorf("at the rate of the profile: %+v", r)
			}
			if profile == "analytics" && (r.Batch < 2 || r.Utilisation > 0.75) {
				t.Errorf("batches are not filled: %+v", r)
			}
			// Twice what the devices can do with the largest batches.
			described, _ := machine.Named(on)
			size := map[string]int{"hft": 4, "analytics": 64}[profile]
			cost, err := simulate.Batch(described, 0, m, size)
			if err != nil {
				t.Fatal(err)
			}
			pace.Rate = 2 * float64(r.Devices*size) / cost.Busy.Seconds()
			r = served(t, profile, on, m, pace)
			if r.Refused == 0 || r.Answered == 0 || r.Utilisation < 0.5 {
				t.Errorf("with too many requests: %+v", r)
			}
		}
	}
}

// The first word says whether figures are simulated.
func TestServingText(t *testing.T) {
	var b bytes.Buffer
	writeServing(&b, []servingRow{{Kind: "simulated", Profile: "hft", On: "3x5070", Arrived: 10, Refused: 1}, {Kind: "measured", Profile: "hft", On: "cpu:0", Bottleneck: true}})
	text := b.String()
	if !strings.HasPrefix(text, "simulated: ") || !strings.Contains(text, "\nmeasured: ") || !strings.Contains(text, "10 %") || !strings.Contains(text, "late by itself") {
		t.Error(text)
	}
}
