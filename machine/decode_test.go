package machine

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/weft-run/weft/graph"
)

const goodFile = `{
  "name": "w",
  "note": "ignored",
  "host": {"memory": "32GB", "bandwidth": "40 GB/s", "power": "150W"}, "power_budget": "1.2kW", "storage": [{"name": "nvme", "model": "D", "size": "2TB", "rate": "7GB/s"}], "network": [{"name": "eth", "model": "N", "rate": "125MB/s"}],
  "resources": [
    {"name": "up", "rate": "25GB/s"},
    {"name": "port", "count": 2}
  ],
  "devices": [
    {"name": "cuda", "count": 2, "model": "X", "kind": "discrete", "backend": "cuda", "arch": "sm_90", "dialects": ["ptx", "other"], "rounding": "x", "cluster": 16, "loop_rounds": 9,
     "memory": "8GiB", "cores": 128, "power": "250W", "numa": -1,
     "rates": {
       "fp32": "15.11TFLOP/s", "int32": "1.5GOP/s",
       "memory": 448e9,
       "launch": "2.5us", "reply": "30us"
     },
     "resources": ["up"]},
    {"name": "cpu", "kind": "cpu", "host_memory": true, "simd_lanes": 16, "lanes": 2, "memory": 1000, "uuid": "u"}
  ],
  "links": [
    {"a": "cuda", "b": "host", "rate": "13GB/s", "latency": "10us", "resources": ["up", "port:{a}"]},
    {"a": "cuda:0-1", "b": "cuda", "kind": "nvlink", "rate": "50GB/s", "latency": 700, "resources": ["port:{a}", "port:{b}"]}
  ]
}
`

func TestDecode(t *testing.T) {
	got, err := Decode([]byte(goodFile))
	if err != nil {
		t.Fatal(err)
	}
	gpu := Device{
		Model: "X", Kind: Discrete, Backend: "cuda", Arch: "sm_90", Dialects: []graph.Dialect{graph.PTX, "other"}, Rounding: "x", Cluster: 16, LoopRounds: 9, MemBytes: 8 << 30, ComputeUnits: 128,
		NUMA: -1, PowerWatts: 250, Resources: []string{"up"},
		Rates: Rates{Ops: [5]float64{15.11e12, 0, 0, 0, 1.5e9}, MemoryBPS: 448e9, LaunchNS: 2500, ReplyNS: 30e3},
	}
	gpu0, gpu1 := gpu, gpu
	gpu0.Name, gpu1.Name = "cuda:0", "cuda:1"
	want := &Machine{
		Name: "w", HostBytes: 32e9, HostBPS: 40e9, HostWatts: 150, BudgetWatts: 1200,
		Storage:   []Storage{{"nvme", "D", 2e12, 7e9}},
		Network:   []Adapter{{"eth", "N", 125e6}},
		Resources: []Resource{{Name: "up", BPS: 25e9}, {Name: "port:0"}, {Name: "port:1"}},
		Devices: []Device{
			gpu0, gpu1,
			{Name: "cpu", Kind: CPU, HostMemory: true, SIMDLanes: 16, Lanes: 2, MemBytes: 1000, UUID: "u"},
		},
		Links: []Link{
			{A: 0, B: Host, Kind: PCIe, BPS: 13e9, LatencyNS: 10000, Resources: []string{"up", "port:0"}},
			{A: 1, B: Host, Kind: PCIe, BPS: 13e9, LatencyNS: 10000, Resources: []string{"up", "port:1"}},
			{A: 0, B: 1, Kind: NVLink, BPS: 50e9, LatencyNS: 700, Resources: []string{"port:0", "port:1"}},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("decoded\n%s\nwant\n%s", Encode(got), Encode(want))
	}
}

// Every case changes one thing in the good file and names the line the error
// must carry.
func TestDecodeErrors(t *testing.T) {
	for _, c := range []struct {
		name, old, new string
		line           int
		reason         string
	}{
		{"missing comma", `"name": "w",`, `"name": "w"`, 3, "not JSON"},
		{"number for a name", `"name": "w"`, `"name": 7`, 2, "name: expected text in quotes"},
		{"cut off", "\n  ]\n}\n", "\n\n\n", 22, "not JSON: unexpected end"},
		{"trailing text", "\n  ]\n}\n", "\n  ]\n}\n}\n", 25, "not JSON"},
		{"not an object", goodFile, "[]", 1, "object"},
		{"empty", goodFile, "", 1, "not JSON"},
		{"no devices", goodFile, "\n{}", 2, "no devices"},
		{"unknown field", `"note"`, `"nota"`, 3, `unknown field of a machine "nota"; did you mean note?`},
		{"unknown device field", `"cores"`, `"core"`, 11, `unknown field of a device "core"; did you mean cores?`},
		{"cluster below zero", `"cluster": 16`, `"cluster": -1`, 10, "cluster: expected a whole number from 0"},
		{"loop rounds as text", `"loop_rounds": 9`, `"loop_rounds": "9"`, 10, "loop_rounds: expected a whole number from 0"},
		{"dialect as a number", `"other"]`, `7]`, 10, "dialects: expected text in quotes"},
		{"too many lanes", `"lanes": 2`, `"lanes": 256`, 18, "expected a whole number from 0 to 255"},
		{"unknown rate", `"int32"`, `"int8"`, 13, `unknown field of rates "int8"; there are fp16`},
		{"unknown storage field", `"size": "2TB"`, `"memory": "2TB"`, 4, `unknown field of storage "memory"`},
		{"unknown adapter field", `"rate": "125MB/s"`, `"speed": "125MB/s"`, 4, `unknown field of an adapter "speed"`},
		{"storage without a name", `"name": "nvme", `, ``, 4, "bad storage name"},
		{"adapter without a name", `"name": "eth", `, ``, 4, "bad network name"},
		{"power as rate", `"150W"`, `"150GB/s"`, 4, "bad quantity"},
		{"negative budget", `"1.2kW"`, `-5`, 4, "power_budget: -5 must be a number of 0 or more"},
		{"storage as text", `[{"name": "nvme", "model": "D", "size": "2TB", "rate": "7GB/s"}]`, `"nvme"`, 4, "storage: expected a list"},
		{"field twice", `"note": "ignored"`, `"name": "again"`, 3, "twice"},
		{"bad size", `"32GB"`, `"32gigs"`, 4, "bad size"},
		{"size below zero", `"8GiB"`, `"-8GiB"`, 11, "from 0 to 8PiB"},
		{"broken bytes", `"8GiB"`, `"1.5B"`, 11, "whole number of bytes"},
		{"size too large", `"8GiB"`, `"99999999PB"`, 11, "from 0 to 8PiB"},
		{"negative rate", `448e9`, `-448e9`, 14, "0 or more"},
		{"rate as size", `"13GB/s"`, `"13GB"`, 21, "bad quantity"},
		{"rate as truth", `"13GB/s"`, `true`, 21, "expected a number"},
		{"no rate", `"rate": "13GB/s", `, ``, 21, "above 0"},
		{"latency", `"10us"`, `"10 minutes"`, 21, "bad quantity"},
		{"unknown kind", `"discrete"`, `"gpu"`, 10, "unknown device kind"},
		{"no kind", `"kind": "cpu", `, ``, 18, "has no kind"},
		{"unknown link kind", `"nvlink"`, `"rope"`, 22, "unknown link kind"},
		{"same name", `"cpu", "kind"`, `"cuda:1", "kind"`, 18, `"cuda:1" is there twice`},
		{"reserved name", `"cpu", "kind"`, `"host", "kind"`, 18, "bad device name"},
		{"count 0", `"count": 2, "model"`, `"count": 0, "model"`, 10, "whole number from 1"},
		{"one uuid for two", `"model": "X"`, `"uuid": "X"`, 10, "uuid"},
		{"too many", `"count": 2, "model"`, `"count": 99999, "model"`, 10, "whole number from 1"},
		{"unknown device in link", `"a": "cuda",`, `"a": "cuda:2",`, 21, `unknown device "cuda:2"`},
		{"range too long", `cuda:0-1`, `cuda:0-2`, 22, `unknown device "cuda:0-2"`},
		{"range backwards", `cuda:0-1`, `cuda:1-0`, 22, "unknown device"},
		{"link to itself", `"a": "cuda", "b": "host"`, `"a": "host", "b": "host"`, 21, "itself"},
		{"link with one end", `"b": "host", `, ``, 21, "needs the ends"},
		{"unknown resource of a link", `["up", "port:{a}"]`, `["down"]`, 21, `unknown resource "down"`},
		{"unknown resource of a device", `["up"]`, `["down"]`, 17, `unknown resource "down"`},
		{"host has no number", `["up", "port:{a}"]`, `["port:{b}"]`, 21, "the host is none"},
		{"resource twice", `{"name": "up", "rate": "25GB/s"}`, `{"name": "up"}, {"name": "up"}`, 6, `"up" is there twice`},
		{"resource name", `{"name": "up", "rate": "25GB/s"}`, `{"name": "up"}, {"name": "{a}"}`, 6, "bad resource name"},
		{"list expected", `["up"]`, `"up"`, 17, "resources: expected a list"},
		{"text expected", `"sm_90"`, `90`, 10, "arch: expected text in quotes"},
		{"truth expected", `"host_memory": true`, `"host_memory": 1`, 18, "host_memory: expected true or false"},
		{"whole number expected", `"cores": 128`, `"cores": 12.8`, 11, "cores: expected a whole number"},
	} {
		src := strings.Replace(goodFile, c.old, c.new, 1)
		if src == goodFile {
			t.Errorf("%s: the case changes nothing", c.name)
			continue
		}
		m, err := Decode([]byte(src))
		var syntax *graph.SyntaxError
		if !errors.As(err, &syntax) {
			t.Errorf("%s: Decode = %v, %v; want a *graph.SyntaxError", c.name, m, err)
			continue
		}
		if syntax.Line != c.line || !strings.Contains(syntax.Reason, c.reason) {
			t.Errorf("%s: %v; want line %d: …%s…", c.name, err, c.line, c.reason)
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: the error has several lines: %q", c.name, err)
		}
	}
}

func TestMachineInsideADocument(t *testing.T) {
	in := struct{ Machine *Machine }{pair()}
	src, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out struct{ Machine *Machine }
	if err := json.Unmarshal(src, &out); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(in, out) {
		t.Errorf("got back\n%s", Encode(out.Machine))
	}
}

func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob("machines/*.json")
	if err != nil || len(files) == 0 {
		f.Fatalf("no machine files: %v", err)
	}
	for _, name := range files {
		src, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	f.Add([]byte(goodFile))
	f.Add([]byte(`{"devices":[{"name":"a","kind":"cpu","memory":1e3,"rates":{"launch":1e-300,"memory":3.3e99}}]}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		m, err := Decode(src)
		if err != nil {
			var syntax *graph.SyntaxError
			if !errors.As(err, &syntax) || syntax.Line < 1 || strings.Contains(err.Error(), "\n") {
				t.Fatalf("bad error %q", err)
			}
			return
		}
		if err := m.Validate(); err != nil {
			t.Fatalf("decoded a machine that is not valid: %v", err)
		}
		again, err := Decode(Encode(m))
		if err != nil {
			t.Fatalf("cannot read back: %v\n%s", err, Encode(m))
		}
		if !reflect.DeepEqual(m, again) {
			t.Fatalf("read back\n%s\nwant\n%s", Encode(again), Encode(m))
		}
	})
}
