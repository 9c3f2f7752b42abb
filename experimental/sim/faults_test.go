package sim

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

const everyFault = `# a script with every line there is
at 2ms lose cuda:1
at 2ms lose cuda:1 keep   # its memory survives
at 9ms back cuda:1
at 1ms slow cuda:1 3x
at 1ms slow 1 1.5 silent
at 1ms shrink cuda:0 2KB
at 3ms break cuda:0 cuda:1
at 4ms mend host cuda:1
at 1ms fail next cuda:0
at 1ms fail copy cuda:0
at 1ms refuse cuda:1
at 1ms exhaust cuda:0
fail task combine the sum 2 times
at 1ms hang cpu
at 1ms telemetry cuda:0 temp=90 util=0.5 mem=0.97 power=400 ecc=1 unresponsive
at 5ms swap cuda:0 cuda:1
at 1ms drain cuda:0
at 2ms undrain cuda:0
at 3ms cancel 2
`

func TestParseFaults(t *testing.T) {
	got, err := ParseFaults([]byte(everyFault), testMachine())
	if err != nil {
		t.Fatal(err)
	}
	const ms = time.Millisecond
	want := Faults{
		{Kind: FailTask, Task: "combine the sum", Times: 2},
		{At: ms, Kind: Slow, Device: 1, Factor: 3},
		{At: ms, Kind: Slow, Device: 1, Factor: 1.5, Silent: true},
		{At: ms, Kind: Shrink, Device: 0, Bytes: 2000},
		{At: ms, Kind: FailNext, Device: 0},
		{At: ms, Kind: FailCopy, Device: 0},
		{At: ms, Kind: Refuse, Device: 1},
		{At: ms, Kind: Exhaust, Device: 0},
		{At: ms, Kind: Hang, Device: 2},
		{At: ms, Kind: Sense, Device: 0, Sample: Sample{Util: 0.5, MemUsed: 0.97, TempC: 90, PowerW: 400, MemErrors: 1, Unresponsive: true}},
		{At: ms, Kind: Drain, Device: 0},
		{At: 2 * ms, Kind: Lose, Device: 1},
		{At: 2 * ms, Kind: Lose, Device: 1, Keep: true},
		{At: 2 * ms, Kind: Undrain, Device: 0},
		{At: 3 * ms, Kind: Break, Device: 0, Other: 1},
		{At: 3 * ms, Kind: Cancel, Times: 2},
		{At: 4 * ms, Kind: Mend, Device: machine.Host, Other: 1},
		{At: 5 * ms, Kind: Swap, Device: 0, Other: 1},
		{At: 9 * ms, Kind: Back, Device: 1},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got.Text(testMachine()), want.Text(testMachine()))
	}
}

func TestParseFaultsMistakes(t *testing.T) {
	cases := []struct{ line, want string }{
		{"lose", "missing a device"},
		{"lose cuda:7", `no device "cuda:7" on this machine; it has cuda:0, cuda:1, cpu`},
		{"lose host", `no device "host"`},
		{"lose 3", `no device "3"`},
		{"lose cuda:1 kept", `unexpected "kept" after lose`},
		{"explode cuda:1", `unknown fault "explode"`},
		{"fail cuda:1", `unknown fault "fail cuda:1"`},
		{"fail", `unknown fault "fail"`},
		{"at", "want at TIME"},
		{"at 2ms", "want at TIME"},
		{"at soon lose cuda:1", `bad duration "soon"`},
		{"at -2ms lose cuda:1", `bad duration "-2ms"`},
		{"slow cuda:1", "missing a factor"},
		{"slow cuda:1 0x", `bad number "0x"`},
		{"slow cuda:1 NaN", `bad number "NaN"`},
		{"shrink cuda:1 2XB", `bad size "2XB"`},
		{"shrink cuda:1 0", "at least 1 byte"},
		{"break cuda:1 cuda:1", "two different ends"},
		{"break cuda:1", "missing a device"},
		{"swap cuda:1 cuda:1", "its own place"},
		{"fail task x", "want fail task NAME N times"},
		{"fail task x none times", `bad count "none"`},
		{"telemetry cuda:1", "missing a reading"},
		{"telemetry cuda:1 hot", `unknown reading "hot"`},
		{"telemetry cuda:1 temp=warm", `bad number "temp=warm"`},
		{"cancel 0", `bad count "0"`},
	}
	for _, c := range cases {
		_, err := ParseFaults([]byte("# first\n\n"+c.line+"\nlose cuda:1\n"), testMachine())
		var syntax *graph.SyntaxError
		if !errors.As(err, &syntax) || syntax.Line != 3 || !strings.Contains(syntax.Reason, c.want) {
			t.Errorf("%q: got %v, want line 3: … %s", c.line, err, c.want)
		}
		if err != nil && (!strings.HasPrefix(err.Error(), "line 3: ") || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%q: %q is not one line with its number", c.line, err)
		}
	}
}

func TestRandomFaultsReadBack(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 5))
		m := randomMachine(r)
		if err := m.Validate(); err != nil {
			t.Fatal(err)
		}
		f := randomFaults(r, m, time.Second)
		back, err := ParseFaults([]byte(f.Text(m)), m)
		if err != nil || len(back) != len(f) || len(f) > 0 && !reflect.DeepEqual(back, f) {
			t.Fatalf("seed %d: %v\n%s\nreads back as\n%s", seed, err, f.Text(m), back.Text(m))
		}
		// Whatever is lost, a device of each backend never is.
		gone := make(map[machine.DeviceID]bool)
		for _, x := range f {
			if x.Kind == Lose || x.Kind == Hang {
				gone[x.Device] = true
			}
		}
		for _, b := range []string{"cpu", "cuda"} {
			left := 0
			for i := range m.Devices {
				if m.Devices[i].Backend == b && !gone[machine.DeviceID(i)] {
					left++
				}
			}
			if left == 0 {
				t.Fatalf("seed %d: no %s device is left\n%s", seed, b, f.Text(m))
			}
		}
	}
}

func FuzzParseFaults(f *testing.F) {
	f.Add(everyFault)
	f.Add("at 1h slow 0 1e9x")
	f.Add("fail task 3 times 3 times")
	m := testMachine()
	f.Fuzz(func(t *testing.T, src string) {
		got, err := ParseFaults([]byte(src), m)
		if err != nil {
			var syntax *graph.SyntaxError
			if !errors.As(err, &syntax) || syntax.Line < 1 {
				t.Fatalf("error %v has no line", err)
			}
			return
		}
		back, err := ParseFaults([]byte(got.Text(m)), m)
		if err != nil || len(back) != len(got) || len(got) > 0 && !reflect.DeepEqual(back, got) {
			t.Fatalf("%q reads back as %q: %v", got.Text(m), back.Text(m), err)
		}
	})
}
