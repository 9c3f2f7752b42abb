package plan

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weft-run/weft/machine"
)

// Whatever comes and goes, no limit is broken, and a job is refused only if each device
// breaks one with it.
func TestReserveLimits(t *testing.T) {
	taken, refused := 0, 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 9))
		m := &machine.Machine{Name: "m", HostWatts: 50}
		for i := range 1 + r.IntN(4) {
			m.Devices = append(m.Devices, machine.Device{Name: fmt.Sprint("gpu:", i), MemBytes: int64(50 + r.IntN(100)), PowerWatts: float64(100 * (1 + r.IntN(3)))})
		}
		for i := range r.IntN(3) { // they share the host's memory
			m.Devices = append(m.Devices, machine.Device{Name: fmt.Sprint("cpu:", i), HostMemory: true, PowerWatts: 50})
			m.HostBytes = int64(50 + r.IntN(100))
		}
		l := Limits{Utilisation: 0.5 + r.Float64()/2, Margin: r.Float64() / 3, Celsius: 80, Watts: 100 + 600*r.Float64()}
		res, err := NewReservations(m, l)
		if err != nil {
			t.Fatal(err)
		}
		// breaks says whether a limit is broken by what is held and one more on a device.
		breaks := func(d Demand, on machine.DeviceID) bool {
			watts, bytes, part := m.HostWatts+m.Devices[on].PowerWatts*d.Utilisation, d.Bytes, d.Utilisation
			for _, x := range res.Held() {
				watts += m.Devices[x.Device].PowerWatts * x.Part
				if x.Device == on {
					part += x.Part
				}
				if x.Device == on || m.Devices[on].HostMemory && m.Devices[x.Device].HostMemory {
					bytes += x.Bytes
				}
			}
			room := m.Devices[on].MemBytes
			if m.Devices[on].HostMemory {
				room = m.HostBytes
			}
			return watts > l.Watts+1e-6 || part > l.Utilisation+1e-6 || bytes > int64(float64(room)*(1-l.Margin))
		}
		for now := range 40 {
			if held := res.Held(); len(held) > 0 && r.IntN(3) == 0 {
				if id := held[r.IntN(len(held))].ID; !res.Release(id) || res.Release(id) {
					t.Fatal("a reservation is not released once")
				}
			}
			d := Demand{Name: "job", Bytes: int64(r.IntN(80)), Utilisation: 0.1 + 0.5*r.Float64()}
			var c []Condition
			for range m.Devices {
				d.Seconds = append(d.Seconds, float64(r.IntN(5)))
				c = append(c, Condition{Celsius: 60 + 30*r.Float64(), Down: r.IntN(6) == 0})
			}
			can := false
			for i := range m.Devices {
				can = can || !c[i].Down && c[i].Celsius < 80 && d.Seconds[i] > 0 && !breaks(d, machine.DeviceID(i))
			}
			x, err := res.Reserve(d, float64(now), c)
			if (err == nil) != can {
				t.Fatalf("seed %d: %v, and a device can: %v", seed, err, can)
			}
			if err != nil {
				refused++
				if !errors.Is(err, ErrNoDevice) || !strings.Contains(err.Error(), m.Devices[0].Name) {
					t.Fatal(err)
				}
				continue
			}
			taken++
			none := Demand{}
			if on := x.Device; c[on].Down || c[on].Celsius >= 80 || breaks(none, on) {
				t.Fatalf("seed %d: %+v breaks a limit", seed, x)
			}
		}
	}
	if taken < 1000 || refused < 1000 {
		t.Errorf("%d taken and %d refused: this tests little", taken, refused)
	}
}

// The device that is done first gets the job, and others on it count.
func TestReserveFastest(t *testing.T) {
	m := &machine.Machine{Devices: []machine.Device{{Name: "a", MemBytes: 100}, {Name: "b", MemBytes: 100}}}
	r, err := NewReservations(m, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	d := Demand{Name: "x", Bytes: 10, Utilisation: 0.5, Seconds: []float64{10, 12}}
	c := make([]Condition, 2)
	for i, want := range []machine.DeviceID{0, 1, 0, 1} {
		if x, err := r.Reserve(d, 0, c); err != nil || x.Device != want {
			t.Fatalf("job %d: %+v, %v; want %d", i, x, err, want)
		}
	}
	if _, err := r.Reserve(d, 0, c); !errors.Is(err, ErrNoDevice) {
		t.Error(err)
	}
}

func TestReserveErrors(t *testing.T) {
	m := &machine.Machine{Devices: []machine.Device{{Name: "a", MemBytes: 100}}}
	for _, l := range []Limits{{Utilisation: 2}, {Margin: 1}, {Celsius: -1}, {Watts: -1}} {
		if _, err := NewReservations(m, l); err == nil {
			t.Errorf("%+v is taken", l)
		}
	}
	r, err := NewReservations(m, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reserve(Demand{Name: "x", Utilisation: 1}, 0, nil); err == nil || errors.Is(err, ErrNoDevice) {
		t.Error(err)
	}
}

// The largest batch in time is one that is in time while one more is not.
func TestLargestBatch(t *testing.T) {
	rec := synthetic("a", 1, 1)
	m := Learn([]*Recording{rec}, nil)
	need := func(items int) Need {
		return Need{Name: "x", Workload: "w0", Flops: 1e7 * float64(items), Bytes: 1e8 * float64(items), Launches: 10, PeakBytes: int64(items) * 1e6}
	}
	within := func(items int, latency float64) bool { return m.OnMachine(need(items), rec.Machine).High <= latency }
	b, ok := m.LargestBatch(need, rec.Machine, 1<<20, 0.5, 0.95)
	if !ok || b.Items < 2 || !within(b.Items, 0.5*1.001) || within(b.Items+2, 0.5*0.999) || !(b.Rate > 0) {
		t.Errorf("%+v, %v", b, ok)
	}
	if b, ok = m.LargestBatch(need, rec.Machine, 7, 1e6, 0.95); !ok || b.Items != 7 {
		t.Errorf("%+v, %v", b, ok)
	}
	if b, ok = m.LargestBatch(need, rec.Machine, 7, 1e-9, 0.95); ok || b.Items != 1 {
		t.Errorf("%+v, %v", b, ok)
	}
	// A batch that does not fit is too large, however much time there is.
	if b, ok = m.LargestBatch(need, rec.Machine, 1<<20, 1e9, 0.95); !ok || b.Items != (1<<34)/1_000_000 {
		t.Errorf("%+v, %v", b, ok)
	}
}

func TestDemandOf(t *testing.T) {
	m, _ := machine.Named("rtx4060")
	d := Learn(nil, nil).DemandOf(Need{Name: "x", Flops: 1e12, PeakBytes: 20e9}, m)
	if d.Seconds[0] != 0 || !(d.Seconds[1] > 0) || d.Bytes != 20e9 || !(d.Utilisation > 0.9 && d.Utilisation <= 1) {
		t.Errorf("%+v", d)
	}
}
