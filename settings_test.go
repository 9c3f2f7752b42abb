package weft

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Every key is documented, has a default that is what the zero value says, and
// takes what it gives.
func TestKeys(t *testing.T) {
	fields := reflect.TypeFor[Options]().NumField() - 8 // Checkpoint, Funcs, Rungs, PlaceBy, CutBy, Drivers, Log, Explain
	if got := len(Keys()); got != fields {
		t.Errorf("%d keys for %d fields of Options", got, fields)
	}
	seen := make(map[string]bool)
	for _, k := range Keys() {
		if k.Name == "" || k.Doc == "" || seen[k.Name] {
			t.Errorf("key %+v: no name, no doc, or there twice", k)
		}
		seen[k.Name] = true
		var o Options
		if got := o.Get(k.Name); got != k.Default {
			t.Errorf("%s: the zero value says %q and the default is %q", k.Name, got, k.Default)
		}
		if err := o.Set(k.Name, k.Default); err != nil {
			t.Errorf("%s does not take its own default: %v", k.Name, err)
		}
		if got := o.Get(k.Name); got != k.Default {
			t.Errorf("%s: set to %q, says %q", k.Name, k.Default, got)
		}
	}
	var o Options
	if o.Get("no such key") != "" {
		t.Error("a key that does not exist has a value")
	}
}

// others is a value other than the default for every key, and the field it ends
// up in.
var others = []struct {
	key, value string
	field      func(o *Options) any
	want       any
}{
	{"devices", "cpu/2", func(o *Options) any { return o.Devices }, "cpu/2"},
	{"max_devices", "3", func(o *Options) any { return o.MaxDevices }, 3},
	{"policy", "steal", func(o *Options) any { return o.Policy }, "steal"},
	{"policy_between", "capacity", func(o *Options) any { return o.PolicyBetween }, "capacity"},
	{"policy_within", "roundrobin", func(o *Options) any { return o.PolicyWithin }, "roundrobin"},
	{"partitioner", "equal", func(o *Options) any { return o.Partitioner }, "equal"},
	{"concurrent", "7", func(o *Options) any { return o.Concurrent }, 7},
	{"streams", "2", func(o *Options) any { return o.Streams }, 2},
	{"task_timeout", "1m30s", func(o *Options) any { return o.TaskTimeout }, 90 * time.Second},
	{"hang_timeout", "3s", func(o *Options) any { return o.HangTimeout }, 3 * time.Second},
	{"sync_timeout", "2s", func(o *Options) any { return o.SyncTimeout }, 2 * time.Second},
	{"cancel_wait", "500ms", func(o *Options) any { return o.CancelWait }, 500 * time.Millisecond},
	{"close_wait", "0s", func(o *Options) any { return o.CloseWait }, time.Duration(-1)},
	{"retries", "0", func(o *Options) any { return o.Retries }, -1},
	{"pool_bytes", "0B", func(o *Options) any { return o.PoolBytes }, int64(-1)},
	{"host_bytes", "512MiB", func(o *Options) any { return o.HostBytes }, int64(512 << 20)},
	{"rebalance_threshold", "0.25", func(o *Options) any { return o.RebalanceThreshold }, 0.25},
	{"rebalance_interval", "50ms", func(o *Options) any { return o.RebalanceInterval }, 50 * time.Millisecond},
	{"health_interval", "0s", func(o *Options) any { return o.HealthInterval }, time.Duration(-1)},
	{"memory_margin", "0.2", func(o *Options) any { return o.MemoryMargin }, 0.2},
	{"max_temperature", "70.5", func(o *Options) any { return o.MaxTemperature }, 70.5},
	{"power_budget", "300", func(o *Options) any { return o.PowerBudget }, 300.0},
	{"total_power", "1500", func(o *Options) any { return o.TotalPower }, 1500.0},
	{"max_utilisation", "0.5", func(o *Options) any { return o.MaxUtilisation }, 0.5},
	{"max_failures", "0", func(o *Options) any { return o.MaxFailures }, -1},
	{"max_losses", "5", func(o *Options) any { return o.MaxLosses }, 5},
	{"ladder", "restart:2s, reopen", func(o *Options) any { return o.Ladder }, "restart:2s, reopen"},
	{"probe_interval", "250ms", func(o *Options) any { return o.ProbeInterval }, 250 * time.Millisecond},
	{"fault_tolerance", "off", func(o *Options) any { return o.NoFaultTolerance }, true},
	{"exact", "on", func(o *Options) any { return o.Exact }, true},
	{"validation", "on", func(o *Options) any { return o.Validation }, true},
	{"pin", "on", func(o *Options) any { return o.Pin }, true},
	{"realtime", "on", func(o *Options) any { return o.Realtime }, true},
	{"trace_events", "1000", func(o *Options) any { return o.Trace }, 1000},
	{"calibrate", "off", func(o *Options) any { return o.NoCalibrate }, true},
	{"cache_dir", "off", func(o *Options) any { return o.CacheDir }, "off"},
	{"standby", "on", func(o *Options) any { return o.Standby }, true},
	{"isolate", "on", func(o *Options) any { return o.Isolate }, true},
	{"confine", "on", func(o *Options) any { return o.Confine }, true},
	{"worker_bytes", "2GiB", func(o *Options) any { return o.WorkerBytes }, int64(2 << 30)},
	{"memory_reserve", "off", func(o *Options) any { return o.MemoryReserve }, int64(-1)},
	{"verify", "10", func(o *Options) any { return o.Verify }, 10},
	{"checksums", "on", func(o *Options) any { return o.Checksums }, true},
	{"spares", "cuda:1,cpu:0", func(o *Options) any { return o.Spares }, "cuda:1,cpu:0"},
	{"worker_command", "weft x", func(o *Options) any { return o.WorkerCommand }, "weft x"},
	{"socket", "on", func(o *Options) any { return o.Socket }, "on"},
}

func TestSet(t *testing.T) {
	if len(others) != len(Keys()) {
		t.Fatalf("%d keys tried of %d", len(others), len(Keys()))
	}
	for _, c := range others {
		var o Options
		if err := o.Set(c.key, c.value); err != nil {
			t.Error(err)
			continue
		}
		if got := c.field(&o); got != c.want {
			t.Errorf("%s = %s: the field holds %v, want %v", c.key, c.value, got, c.want)
		}
		if got := o.Get(c.key); got != c.value {
			t.Errorf("%s: set to %q, says %q", c.key, c.value, got)
		}
		o.Isolate = true // some keys need it
		if err := o.Validate(); err != nil {
			t.Error(err)
		}
	}
	var o Options
	for key, size := range map[string]int64{"1024": 1024, "1.5 GB": 1_500_000_000, "2GiB": 2 << 30, "1kB": 1000, "none": 0} {
		if err := o.Set("host_bytes", key); err != nil || o.HostBytes != size {
			t.Errorf("host_bytes = %s: %d, %v; want %d", key, o.HostBytes, err, size)
		}
	}
	for text, want := range map[string]time.Duration{"auto": 0, "0s": 0, "off": -1, "none": -1, "-1": -1, "3s": 3 * time.Second} {
		if err := o.Set("task_timeout", text); err != nil || o.TaskTimeout != want {
			t.Errorf("task_timeout = %s: %v, %v; want %v", text, o.TaskTimeout, err, want)
		}
	}
}

func TestSetWrong(t *testing.T) {
	for _, c := range []struct{ key, value, says string }{
		{"polcy", "finish", `unknown key "polcy"; did you mean policy?`},
		{"max-devices", "2", "did you mean max_devices?"},
		{"zzzzzzzz", "", "there are devices, max_devices"},
		{"policy", "best", "finish"},
		{"devices", "cpu/x", "as in cpu/4"},
		{"devices", ":1", "begin with a backend"},
		{"devices", "cpu/2,cpu:0/3", "cannot be divided in two ways"},
		{"streams", "256", "256 are too many; a device runs 255 kernels at a time at most"},
		{"streams", "1000000000", "a device runs 255 kernels at a time at most"},
		{"retries", "0.5", `"0.5" has a decimal point`},
		{"retries", "010", `"010" begins with 0, and some programs read that as octal; write it without that zero`},
		{"retries", "0x3", `"0x3" is not a whole number; write one in decimal digits, as 10`},
		{"verify", "010", "write it without that zero, or none"},
		{"verify", "99999999999999999999", "is too large a count; write 2147483647 at most, or none"},
		{"power_budget", "x", "is no number; write one from 1 to 1e+06, or none"},
		{"max_temperature", "0x50p0", `max_temperature`},
		{"memory_margin", "1e-400000000000000000000", `memory_margin`},
		{"pool_bytes", "010", `begins with 0`},
		{"max_devices", "-1", `"-1" is not a count; write a whole number from 0 on, or none`},
		{"retries", "x", "whole number"},
		{"task_timeout", "5", "such as 500ms or 2s"},
		{"task_timeout", "-1s", "such as 500ms or 2s, or auto, or off"},
		{"host_bytes", "1 lot", "such as 64KB"},
		{"host_bytes", "-1MB", "from 0 to 8PiB"},
		{"host_bytes", "99999999PB", "from 0 to 8PiB"},
		{"rebalance_threshold", "1.5", "up to 1"},
		{"rebalance_threshold", "NaN", "up to 1"},
		{"exact", "maybe", "neither on nor off"},
	} {
		o := Options{Devices: "cpu"}
		err := o.Set(c.key, c.value)
		if !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.key) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s = %s: got %v; want one line with the key that says %s", c.key, c.value, err, c.says)
		}
		if !reflect.DeepEqual(o, Options{Devices: "cpu"}) {
			t.Errorf("%s = %s: a mistake changed the options: %+v", c.key, c.value, o)
		}
	}
}

func TestValidateReportsAll(t *testing.T) {
	o := Options{Devices: "cpu/0", Policy: "x", Partitioner: "y", MaxDevices: -2, TaskTimeout: -time.Second, HostBytes: -5, RebalanceThreshold: 3, Streams: -1}
	err := o.Validate()
	if !errors.Is(err, ErrOptions) {
		t.Fatal(err)
	}
	for _, key := range []string{"devices", "policy", "partitioner", "max_devices", "task_timeout", "host_bytes", "rebalance_threshold", "streams"} {
		if !strings.Contains(err.Error(), "bad option: "+key+": ") {
			t.Errorf("%s is not named in:\n%v", key, err)
		}
	}
	if n := strings.Count(err.Error(), "\n") + 1; n != 8 {
		t.Errorf("%d lines for 8 mistakes:\n%v", n, err)
	}
	if err := (&Options{Devices: "abacus"}).Validate(); err == nil || !strings.Contains(err.Error(), `no backend "abacus"; there is cpu`) {
		t.Errorf("unknown backend: %v", err)
	}
	if err := (&Options{Funcs: map[string]Func{"square": nil}}).Validate(); !errors.Is(err, ErrOptions) || err.Error() != `bad option: Funcs: "square" is nil` {
		t.Errorf("a kernel that is nil: %v", err)
	}
	if err := (&Options{Streams: maxStreams}).Validate(); err != nil {
		t.Error(err)
	}
	if err := (&Options{Streams: maxStreams + 1}).Validate(); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), "255") {
		t.Errorf("more streams than there are: %v", err)
	}
	if err := (&Options{}).Validate(); err != nil {
		t.Errorf("the zero value: %v", err)
	}
}

func load(t *testing.T, text string) (Options, string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "weft.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := LoadOptions(path)
	return o, path, err
}

func TestLoadOptions(t *testing.T) {
	var lines, object strings.Builder
	object.WriteString("{")
	for i, c := range others {
		lines.WriteString("# a comment\n\n  " + c.key + " = " + c.value + "   # and another\n")
		if i > 0 {
			object.WriteString(",\n")
		}
		object.WriteString(`"` + c.key + `": "` + c.value + `"`)
	}
	object.WriteString("}\n")
	for _, text := range []string{lines.String(), object.String(), "\ufeff" + lines.String()} {
		o, _, err := load(t, text)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, c := range others {
			if got := c.field(&o); got != c.want {
				t.Errorf("%s: loaded %v, want %v", c.key, got, c.want)
			}
		}
	}
	o, _, err := load(t, `{"max_devices": 3, "pin": true, "fault_tolerance": false, "rebalance_threshold": 0.5}`)
	if err != nil || o.MaxDevices != 3 || !o.Pin || !o.NoFaultTolerance || o.RebalanceThreshold != 0.5 {
		t.Errorf("numbers and booleans: %+v, %v", o, err)
	}
	if o, _, err := load(t, `cache_dir = "/tmp/a # b" # c`); err != nil || o.CacheDir != "/tmp/a # b" {
		t.Errorf("quoted: %q, %v", o.CacheDir, err)
	}
	if o, _, err := load(t, ""); err != nil || !reflect.DeepEqual(o, Options{}) {
		t.Errorf("an empty file: %+v, %v", o, err)
	}
}

func TestLoadOptionsWrong(t *testing.T) {
	for text, says := range map[string]string{
		"devices = cpu\npolcy = finish\n":            `:2: unknown key "polcy"; did you mean policy?`,
		"\n\ntask_timeout = soon":                    `:3: task_timeout: bad duration "soon"`,
		"devices cpu":                                `:1: "devices cpu" is not of the form key = value`,
		"pin = on\npin = off":                        ":2: pin: set before, in line 1",
		"cache_dir = \"x":                            ":1: cache_dir: the quoted value does not end",
		"cache_dir = \"x\" y":                        `:1: cache_dir: "y" follows the quoted value`,
		"{\n\"pin\": \"on\",\n\"retries\": -1\n}":    `:3: retries: "-1" is not a count`,
		"{\n\"pin\": [1]}":                           `:2: "pin": the value must be a text`,
		"{\n\"pin\": null}":                          `:2: "pin": the value must be a text`,
		"{\n\"pin\": \"on\"":                         ":2: not JSON: unexpected end of JSON input",
		"{\"pin\": \"on\"}\nx":                       ":2: not JSON: invalid character 'x' after top-level value",
		"{\"pin\": \"on\" \"exact\": \"on\"}":        ":1: not JSON",
		"{\"pin\": \"on\",\n\n \"pin\": \"off\"}":    ":3: pin: set before, in line 1",
		"{\"health_interval\": 100}":                 `:1: health_interval: bad duration "100"`,
		"exact = yes please":                         `:1: exact: "yes please" is neither on nor off`,
		"max_devices = 2\n[section]\nconcurrent = 1": `:2: "[section]" is not of the form`,
	} {
		o, path, err := load(t, text)
		if !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), path+says) && !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v; want %s", text, err, says)
			continue
		}
		if strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: not one line with the file: %v", text, err)
		}
		if !reflect.DeepEqual(o, Options{}) {
			t.Errorf("%q: options came with the error: %+v", text, o)
		}
	}
	if _, err := LoadOptions(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) || !errors.Is(err, ErrOptions) {
		t.Errorf("no file: %v", err)
	}
}

func TestOptionsJSON(t *testing.T) {
	var o Options
	for _, c := range others {
		if err := o.Set(c.key, c.value); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var back Options
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if !reflect.DeepEqual(o, back) {
		t.Errorf("came back as %+v from %s", back, text)
	}
	if text, err := json.Marshal(&Options{}); err != nil || string(text) != "{}" {
		t.Errorf("the zero value is %s, %v", text, err)
	}
	if err := json.Unmarshal([]byte("null"), &back); err != nil || !reflect.DeepEqual(o, back) {
		t.Errorf("null changed the options: %v", err)
	}
	for _, bad := range []string{`[]`, `3`, `{"polcy":"x"}`, `{"pin":{}}`} {
		if err := json.Unmarshal([]byte(bad), &back); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// Whatever a configuration file says, it is refused in one line or means the
// same after a round through JSON.
func FuzzOptions(f *testing.F) {
	f.Add([]byte("devices = cpu/2 # all\npin = on\n"))
	f.Add([]byte(`{"policy": "steal", "host_bytes": 5, "exact": true}`))
	f.Add([]byte("cache_dir = \"a\\nb\"\npool_bytes=1.3GiB\nrebalance_interval = 0"))
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := parseOptions(text)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("more than a line: %q", err)
			}
			return
		}
		out, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		var back Options
		if err := json.Unmarshal(out, &back); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		for _, k := range Keys() {
			if a, b := o.Get(k.Name), back.Get(k.Name); a != b {
				t.Fatalf("%s was %q and came back as %q", k.Name, a, b)
			}
		}
	})
}

// A worker with less memory than its process needs is refused before it is started.
func TestLeastWorkerBytes(t *testing.T) {
	for n, good := range map[int64]bool{1: false, 16 << 20: false, 64 << 20: true, 0: true} {
		o := Options{Isolate: true, WorkerBytes: n}
		if err := o.Validate(); good != (err == nil) || !good && (!errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), "worker_bytes")) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}
