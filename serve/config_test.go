package serve

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/api"
)

const fullConfig = `# everything
listen: 127.0.0.1:9000
grpc: 127.0.0.1:9100
profile: analytics
models: models
tokens: secret/tokens
hosts: [weft.example.org]
origins: ["https://tools.example.org"]
devices: cpu
runtime:
  pin: on
  max_devices: 2
batch: {size: 16, wait: 500us, deadline: 20ms, depth: 3, queue: 100}
limits:
  body: 1MiB
  bodies: 10MiB
  header: 8KiB
  read_time: 5s
  write_time: 6s
  idle_time: 1m
  connections: 100
  concurrent: 10
  rate: 50
  streams: 4
  drain_time: 7s
  drain_delay: 1s
jobs: {concurrent: 2, queue: 3, keep: 4, keep_for: 5m, keep_bytes: 6KiB}
state: kept
pprof: true
`

func TestConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weft.yaml")
	if err := os.WriteFile(path, []byte(fullConfig), 0o666); err != nil {
		t.Fatal(err)
	}
	c, err := LoadConfig(path, "")
	if err != nil {
		t.Fatal(err)
	}
	o, err := c.Options()
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case c.Listen != "127.0.0.1:9000", c.Profile != "analytics", !c.Pprof, c.Limits.Rate != 50, c.Limits.Body != 1<<20,
		c.Batch != Batch{16, Duration(500 * time.Microsecond), Duration(20 * time.Millisecond), 3, 100},
		c.Jobs != Jobs{2, 3, 4, Duration(5 * time.Minute), 6 << 10}, c.Limits.DrainDelay != Duration(time.Second):
		t.Errorf("%+v", c)
	case c.Tokens != filepath.Join(filepath.Dir(path), "secret/tokens"), c.State != filepath.Join(filepath.Dir(path), "kept"), c.Models != filepath.Join(filepath.Dir(path), "models"):
		t.Errorf("files are at %s and %s", c.Tokens, c.Models)
	case !o.Pin, o.MaxDevices != 2, o.Policy != "hierarchical", o.Devices != "cpu": // the file, then the profile
		t.Errorf("%+v", o)
	}
	// What is written on the command line goes before the file.
	if c, err := LoadConfig(path, "hft"); err != nil || c.Profile != "hft" || c.Runtime["realtime"] != "on" || c.Batch.Size != 16 {
		t.Errorf("%+v, %v", c, err)
	}
	for _, src := range []string{"", "# nothing\n", "---\n", "{}"} {
		if c, err := parseConfig([]byte(src), ""); err != nil || c.Listen != "127.0.0.1:8000" || c.Limits != DefaultConfig().Limits {
			t.Errorf("%q: %+v, %v", src, c, err)
		}
	}
}

// The text in docs/SERVE.md is a configuration.
func TestConfigDocumented(t *testing.T) {
	doc, err := os.ReadFile("../docs/SERVE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(doc), "```yaml\n")
	src, _, end := strings.Cut(rest, "```")
	if !ok || !end {
		t.Fatal("docs/SERVE.md has no configuration")
	}
	got, err := parseConfig([]byte(src), "")
	if err != nil {
		t.Fatal(err)
	}
	// It shows the defaults, so that it cannot become stale.
	want := DefaultConfig()
	got.Hosts, got.Origins = want.Hosts, want.Origins
	a, _ := yaml.Marshal(got)
	b, _ := yaml.Marshal(want)
	if string(a) != string(b) {
		t.Errorf("docs/SERVE.md shows\n%s\nand the defaults are\n%s", a, b)
	}
	for _, key := range strings.Fields("listen grpc profile models state tls tokens hosts origins devices runtime batch limits jobs pprof drain_delay keep_for keep_bytes") {
		if !strings.Contains(src, key+":") {
			t.Errorf("docs/SERVE.md shows no key %s", key)
		}
	}
}

func TestConfigMistakes(t *testing.T) {
	for src, want := range map[string]string{
		"lisen: x":                                    "line 1: unknown key \"lisen\"; did you mean listen?",
		"listen: a:1\nlisten: b:1":                    "line 2",
		"\nlimits:\n  bdy: 1":                         "line 3: unknown key \"bdy\"; did you mean body? under limits",
		"limits: 3":                                   "line 1: expected keys and values",
		"limits: {body: lots}":                        "line 1: limits.body: bad size",
		"limits: {body: 3}":                           "limits.body",
		"limits: {bodies: 1MiB}":                      "limits.bodies",
		"limits: {rate: .nan}":                        "limits.rate",
		"limits: {read_time: 0s}":                     "limits.read_time",
		"batch: {wait: soon}":                         "line 1: batch.wait: bad duration",
		"batch: {size: -1}":                           "batch.size",
		"jobs: {concurrent: many}":                    "line 1",
		"listen: 127.0.0.1:99999":                     "listen: \"127.0.0.1:99999\": there is no port 99999; write one from 0 to 65535",
		"grpc: localhost:-1":                          "grpc: \"localhost:-1\": there is no port -1",
		"listen: nowhere":                             "listen: \"nowhere\" is no address",
		"listen: 'unix:'":                             "needs a path",
		"listen: 0.0.0.0:80":                          "tls",
		"listen: :8000":                               "tls",
		"listen: example.org:8000":                    "tls",
		"listen: '[::]:8000'\ntls: {cert: a, key: b}": "tokens",
		"tls: {cert: a}":                              "cert and key",
		"listen: unix:/x\ntls: {cert: a, key: b}":     "Unix socket",
		"grpc: somewhere":                             "grpc: \"somewhere\" is no address",
		"grpc: 'unix:'":                               "grpc: unix: needs a path",
		"grpc: 0.0.0.0:81":                            "grpc: 0.0.0.0:81 can be reached",
		"grpc: 0.0.0.0:81\ntls: {cert: a, key: b}":    "grpc: 0.0.0.0:81 can be reached from other machines, which needs tokens",
		"grpc: 127.0.0.1:8000":                        "grpc: 127.0.0.1:8000 is where listen is",
		"profile: fast":                               "unknown profile",
		"runtime: {polcy: x}":                         "did you mean policy?",
		"runtime: {policy: x}":                        "policy",
		"runtime: {devices: cpu}":                     "a key of its own",
		"devices: abacus":                             "abacus",
		"a: [":                                        "line 1",
		"- 1":                                         "line 1",
		"batch: &a {size: 1}\njobs: *a":               "anchors",
		"pprof: perhaps":                              "line 1",
		"shared_memory: true":                         "shared_memory",
		"shared_memory: true\nlisten: 0.0.0.0:1\ntls: {cert: a, key: b}\ntokens: a": "other machines",
		"jobs:": "line 1: jobs has no value; give it one or leave the key out",
		"listen: 127.0.0.1:1\ntls:\nprofile: hft":       "line 2: tls has no value",
		"prices:\ntraces: {sample: 1}":                  "line 1: prices has no value",
		"traces:  # none":                               "line 1: traces has no value",
		"jobs: null":                                    "line 1: jobs has no value",
		"batch: ~":                                      "line 1: batch has no value",
		"runtime:\n  pin: on\n  retries: 010":           "line 3: runtime: bad option: retries: \"010\" begins with 0",
		"runtime:\n  pin: on\n  a.b: 1":                 "line 3: runtime: bad option: unknown key",
		"runtime:\n  devices: cpu":                      "line 2: runtime: devices is a key of its own",
		"runtime:\n  confine: on\n  worker_bytes: 1GiB": "line 1: bad option: confine: it is for isolated workers, of which there are none; add isolate; bad option: worker_bytes: ",
		"pprof: true\nlisten: nowhere":                  "line 2: listen: \"nowhere\" is no address",
		"pprof: true\ngrpc: nowhere":                    "line 2: grpc: \"nowhere\" is no address",
		"pprof: true\nprofile: fast":                    "line 2: profile: unknown profile",
		"pprof: true\ndevices: abacus":                  "line 2: bad option: devices: ",
		"limits:\n  body: 2GiB":                         "line 1: limits.bodies: ",
		"traces:\n  collector: ftp://x":                 "line 2: traces: collector \"ftp://x\"",
		"traces:\n  collector: http://x\n  sample: 2":   "line 3: traces: sample 2",
		"origins:\n  - '*'":                             "line 1: origins: ",
	} {
		_, err := parseConfig([]byte(src), "")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), "line ") {
			t.Errorf("%q: %v; want a line with its number and %q", src, err, want)
		}
	}
	// A profile of the command line is in no line of the file.
	if _, err := parseConfig([]byte("profile: hft"), "fast"); err == nil || !strings.HasPrefix(err.Error(), "profile: unknown profile") {
		t.Errorf("%v", err)
	}
	if _, err := LoadConfig("testdata/none.yaml", ""); !errors.Is(err, ErrConfig) {
		t.Errorf("%v", err)
	}
}

// numberKeys are the keys of a configuration that take a number, a size or a time, as a mapping within which the
// value stands.
var numberKeys = func() (out []struct{ key, kind, form string }) {
	var walk func(t reflect.Type, key, before, after string)
	walk = func(t reflect.Type, key, before, after string) {
		for f := range t.Fields() {
			name := f.Tag.Get("yaml")
			switch kind := f.Type.String(); {
			case f.Type.Kind() == reflect.Struct:
				walk(f.Type, key+name+".", before+name+": {", "}"+after)
			case kind == "int" || kind == "float64" || kind == "bool" || kind == "serve.Duration" || kind == "serve.Size":
				out = append(out, struct{ key, kind, form string }{key + name, kind, before + name + ": %s" + after})
			}
		}
	}
	walk(reflect.TypeFor[Config](), "", "", "")
	return out
}()

// No key takes a value that would have to be cut, converted or guessed, and the error has the line, the key and the value.
func TestConfigNumbers(t *testing.T) {
	if len(numberKeys) < 30 {
		t.Fatalf("%d keys", len(numberKeys))
	}
	wrong := map[string][]string{
		"int":            {"0.5", "1.0", "1e3", "010", "-010", "0x10", "0o17", "0b1", "1_000", "99999999999999999999", "-9223372036854775809", "true", "no", "null", "~", "", "'3'", "\"3\"", "!!int 3", "[3]", "{a: 3}", ".inf", "3 # \n 4"},
		"float64":        {"010", "0x10", "0x1p4", "1_000", "1e999", "true", "null", "", "'0.3'", ".inf", ".nan", "inf", "NaN", "!!float 1", "[1]"},
		"bool":           {"1", "0", "yes", "on", "True", "null", "", "'true'", "!!bool yes", "[true]"},
		"serve.Duration": {"10", "1.5", "-1s", "null", "", "true", "'1s'", "1 s", "99999999999h", "[1s]", "1d"},
		"serve.Size":     {"0.5", "1.5B", "-1", "010", "010MiB", "0x10", "1_000", "9999999999999GiB", "null", "", "true", "'64MiB'", "0.0001KiB", "[1]"},
	}
	for _, k := range numberKeys {
		for _, value := range wrong[k.kind] {
			src := "\n" + fmt.Sprintf(k.form, value) // so that it is line 2
			_, err := parseConfig([]byte(src), "")
			if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "line ") {
				t.Errorf("%q: %v", src, err)
				continue
			}
			plain := strings.Trim(value, "'\"")
			if strings.ContainsAny(value, "[{!~# ") || value == "null" || value == "" {
				plain = ""
			}
			if !strings.Contains(value, "#") && !(strings.Contains(err.Error(), "line 2: "+k.key) && strings.Contains(err.Error(), plain)) {
				t.Errorf("%q: %v; want the line, the key %s and the value", src, err, k.key)
			}
		}
	}
	for _, src := range []string{"jobs: {concurrent: 2}\n---\njobs: {concurrent: 3}", "models:", "tokens: null", "runtime: {retries: }", "runtime: {retries: 0.5}", "runtime: {retries: 010}", "runtime: {retries: -1}", "runtime: {retries: true}", "runtime: {retries: 1, retries: 2}", "runtime: {task_timeout: 10}", "runtime: {max_temperature: 0x50}", "runtime: {retries: [1]}", "hosts: [null]", "hosts: a", "? [a]\n: b"} {
		if c, err := parseConfig([]byte(src), ""); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, %+v", src, err, c.Runtime)
		}
	}
}

// Whatever is written where a number belongs is refused, or read as what it says.
func FuzzConfigNumber(f *testing.F) {
	for i, s := range []string{"1", "0.5", "010", "1e3", "64MiB", "1.5GiB", "10s", "null", "'1'", "true", "+3", "-1", "1_0", "0x1p3"} {
		f.Add(uint(i), s)
	}
	f.Fuzz(func(t *testing.T, which uint, value string) {
		if strings.ContainsAny(value, "\n\r,}#\u0085\u2028\u2029") {
			return // it would be more than a value
		}
		k := numberKeys[which%uint(len(numberKeys))]
		root, err := readYAML(fmt.Appendf(nil, k.form, value))
		if err != nil || root == nil {
			return
		}
		c := DefaultConfig()
		if err := readInto(root, reflect.ValueOf(&c).Elem(), ""); err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q is more than a line", err)
			}
			return
		}
		got := reflect.ValueOf(c)
		for name := range strings.SplitSeq(k.key, ".") {
			got = got.FieldByNameFunc(func(field string) bool {
				f, _ := got.Type().FieldByName(field)
				return f.Tag.Get("yaml") == name
			})
		}
		value = strings.Trim(value, " \t")
		switch x := got.Interface().(type) {
		case int:
			if n, ok := new(big.Int).SetString(value, 10); !ok || !n.IsInt64() || n.Int64() != int64(x) {
				t.Errorf("%s: %q was read as %d", k.key, value, x)
			}
		case bool:
			if fmt.Sprint(x) != value {
				t.Errorf("%s: %q was read as %t", k.key, value, x)
			}
		case float64:
			if r, ok := new(big.Rat).SetString(value); ok {
				if y, _ := r.Float64(); y != x {
					t.Errorf("%s: %q was read as %g", k.key, value, x)
				}
			} else {
				t.Errorf("%s: %q was read as %g", k.key, value, x)
			}
		case Size:
			if n, ok := new(big.Int).SetString(value, 10); ok && n.Int64() != int64(x) || x == 0 && strings.ContainsAny(value, "123456789") && !strings.ContainsAny(value, "eE") {
				t.Errorf("%s: %q was read as %d", k.key, value, x)
			}
		case Duration:
			if !strings.ContainsAny(value, "hmsuµμn") && strings.Trim(value, "+-0") != "" {
				t.Errorf("%s: %q was read as %v without a unit", k.key, value, time.Duration(x))
			}
		}
	})
}

// Profiles hold on any machine, and say what it lacks.
func TestProfiles(t *testing.T) {
	for _, name := range ProfileNames() {
		c, err := parseConfig(nil, name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Options(); err != nil {
			t.Error(err)
		}
		n := profiles[name].devices
		if c.Shortfall(n) != "" || !strings.Contains(c.Shortfall(1), name) {
			t.Errorf("%s: %q, %q", name, c.Shortfall(n), c.Shortfall(1))
		}
	}
	c, err := parseConfig(nil, "hft")
	if err != nil || len(c.wishes()) != 1 || c.wishes()[0] != "realtime" || c.Batch.Deadline != Duration(2*time.Millisecond) {
		t.Errorf("%v, %v", c.wishes(), err)
	}
	none := DefaultConfig()
	if none.Shortfall(0) != "" || none.wishes() != nil {
		t.Error("no profile wants something")
	}
}

func TestUnixSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "w") // short enough for the name of a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	// One that nobody listens at any more is replaced.
	old, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	old.SetUnlinkOnClose(false)
	old.Close()
	s, _, address := start(t, func(o *parts) { o.Config.Listen = "unix:" + path })
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if _, err := listenUnix(path); err == nil {
		t.Error("two servers listen at one socket")
	}
	c, err := api.NewClient(address, api.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if m, err := c.Server(t.Context()); err != nil || m.Name != "weft" {
		t.Errorf("%+v, %v", m, err)
	}
	if err := s.drain(context.Background()); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listenUnix(path); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("a file: %v", err)
	}
	if _, err := listenUnix(filepath.Join(dir, strings.Repeat("x", 200))); err == nil {
		t.Error("a long name is taken")
	}
}

// Any text is a configuration or a mistake that is told in a line.
func FuzzConfig(f *testing.F) {
	f.Add([]byte(fullConfig))
	f.Add([]byte("limits: {body: 3"))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("? {listen: x}\n: y"))
	f.Fuzz(func(t *testing.T, src []byte) {
		c, err := parseConfig(src, "")
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n") {
				t.Errorf("%q is more than a line", err)
			}
			return
		}
		if err := c.Validate(); err != nil {
			t.Errorf("taken and not valid: %v", err)
		}
	})
}

// What a profile wishes for and the system does not permit is left out; another error stays.
func TestOpenWithoutWishes(t *testing.T) {
	refused := errors.New("not permitted")
	for _, permitted := range []bool{true, false} {
		c, err := LoadConfig("", "hft")
		if err != nil {
			t.Fatal(err)
		}
		calls := 0
		_, note, err := c.Open(t.Context(), func(_ context.Context, o weft.Options) (*weft.Runtime, error) {
			if calls++; o.Realtime || !permitted {
				return nil, refused
			}
			return &weft.Runtime{}, nil
		})
		_, wishes := c.Runtime["realtime"]
		if calls != 2 || wishes == permitted || (note == "Profile hft goes without realtime: not permitted.") != permitted || errors.Is(err, refused) == permitted {
			t.Errorf("permitted without: %v. After %d calls: %q, %v, %v", permitted, calls, note, err, c.Runtime)
		}
	}
}
