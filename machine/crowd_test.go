package machine

import (
	"reflect"
	"testing"
	"time"
)

// crowded has four cores as two devices, a driver on all of them, and a GPU.
func crowded() *Machine {
	cores := []string{"memory", HostCores}
	return &Machine{
		Resources: []Resource{{Name: "memory", BPS: 1e9}, {Name: HostCores, Cores: 4}},
		Devices: []Device{
			{Name: "cpu:0", ComputeUnits: 2, Resources: cores}, {Name: "cuda:0", Kind: Discrete, ComputeUnits: 1000},
			{Name: "cpu:1", ComputeUnits: 2, Resources: cores}, {Name: "vulkan:0", ComputeUnits: 4, Resources: cores},
		},
	}
}

func TestCrowds(t *testing.T) {
	m := crowded()
	want := []Crowd{{Cores: 4, Devices: []DeviceID{0, 2, 3}, Takes: []int{2, 2, 4}}}
	got := m.Crowds()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("crowds are %+v, want %+v", got, want)
	}
	for _, c := range []struct {
		of   []DeviceID
		want float64
	}{{nil, 1}, {[]DeviceID{0}, 1}, {[]DeviceID{0, 2}, 1}, {[]DeviceID{0, 3}, 4. / 6}, {[]DeviceID{0, 2, 3}, 0.5}} {
		if s := got[0].Speed(c.of...); s != c.want {
			t.Errorf("devices %v run at %v of their speed, want %v", c.of, s, c.want)
		}
	}
	if a, b := got[0].Share(0), got[0].Share(3); a != 0.5 || b != 1 {
		t.Errorf("devices take %v and %v of the cores, want 0.5 and 1", a, b)
	}
	m.Devices = m.Devices[:3] // the cores alone have enough of them
	if got := m.Crowds(); len(got) != 0 {
		t.Errorf("cores that suffice are a crowd: %+v", got)
	}
	if c := NewContention(m); c != nil || c.Alone(0, 5, 9) != 4 {
		t.Error("devices disturb one another although cores suffice")
	}
}

func TestContention(t *testing.T) {
	const ms = time.Millisecond
	c := NewContention(crowded())
	check := func(what string, d DeviceID, start, end, want time.Duration) {
		t.Helper()
		if got := c.Alone(d, start*ms, end*ms); got != want*ms {
			t.Errorf("%s: %v alone, want %v", what, got, want*ms)
		}
	}
	check("nobody else", 3, 0, 100, 100)
	// The driver was given work at 40 and has not ended it; the cores have four.
	c.Began(3, 40*ms)
	c.Began(3, 70*ms) // which goes behind what it has
	check("beside what has not ended", 0, 10, 100, 30+40)
	check("a device with cores of its own", 1, 10, 100, 90)
	c.Ran(0, 10*ms, 100*ms, false)
	c.Ran(2, 60*ms, 80*ms, false)
	// It turns out to have computed from 50 on: at 4 of 6 beside one, half beside both.
	c.Ran(3, 50*ms, 110*ms, true)
	check("what ended", 0, 10, 100, 40+20+10) // 10–50 alone, 30 at 2/3, 20 at 1/2
	check("beside both, and then alone", 3, 50, 110, 20+10+10)
	// It has more to do, from 110 on.
	check("beside what is left", 2, 120, 150, 20)
	c.Ran(3, 110*ms, 120*ms, false)
	check("when all is done", 2, 120, 150, 30)
}

// However much is forgotten, an execution counts for something and for no more
// than it took.
func TestContentionForgets(t *testing.T) {
	const ms = time.Millisecond
	c := NewContention(crowded())
	for i := range time.Duration(1000) {
		c.Ran(0, 2*i*ms, (2*i+1)*ms, false)
	}
	if n := len(c.spans[0]); n != maxSpans {
		t.Errorf("%d spans are kept, want %d", n, maxSpans)
	}
	// The last 128 ms are known exactly: half of them beside two cores of four.
	if got, want := c.Alone(3, 1900*ms, 2000*ms), time.Duration(50*ms+50*ms*2/3); got < want-ms || got > want+ms {
		t.Errorf("%v alone, want %v", got, want)
	}
	if got := c.Alone(3, 0, 2000*ms); got < 1333*ms || got > 2000*ms {
		t.Errorf("%v alone of 2 s", got)
	}
}
