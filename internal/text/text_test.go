package text

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestQuantities(t *testing.T) {
	for _, c := range []struct {
		text  string
		units []Unit
		want  float64
	}{
		{"8GB", Bytes, 8e9},
		{"8gb", Bytes, 8e9},
		{"8GiB", Bytes, 8 << 30},
		{"0.5 TB", Bytes, 5e11},
		{"1e3kB", Bytes, 1e6},
		{"3350GB/s", BytesPerSecond, 3.35e12},
		{"15.11TFLOP/s", OperationsPerSecond, 15.11e12},
		{"7.55TOP/s", OperationsPerSecond, 7.55e12},
		{"10us", Nanoseconds, 1e4},
		{"2.5µs", Nanoseconds, 2500},
		{"1s", Nanoseconds, 1e9},
	} {
		if got, err := ParseQuantity(c.text, c.units); err != nil || got != c.want {
			t.Errorf("ParseQuantity(%q) = %v, %v; want %v", c.text, got, err, c.want)
		}
	}
	for _, s := range []string{"", "GB", "8", "8 apples", "1eGB", "1e1e1GB", "--1GB", "1e999GB", "0x1GB"} {
		if x, err := ParseQuantity(s, Bytes); err == nil {
			t.Errorf("ParseQuantity(%q) = %v", s, x)
		}
	}
	for _, c := range []struct {
		x     float64
		units []Unit
		want  string
	}{
		{15.11e12, OperationsPerSecond, "15.11TFLOP/s"},
		{7e9, IntegersPerSecond, "7GOP/s"},
		{448e9, BytesPerSecond, "448GB/s"},
		{10e3, Nanoseconds, "10us"},
	} {
		if got, ok := FormatQuantity(c.x, c.units); !ok || got != c.want {
			t.Errorf("FormatQuantity(%v) = %q, %v; want %q", c.x, got, ok, c.want)
		}
	}
	for _, x := range []float64{1.0 / 3, 1234567890.5} {
		if s, ok := FormatQuantity(x, BytesPerSecond); ok {
			t.Errorf("FormatQuantity(%v) = %q, which is not exactly that", x, s)
		}
	}
}

func TestSizes(t *testing.T) {
	for s, want := range map[string]int64{
		"0": 0, "4096": 4096, "1e6": 1e6, "1.5e3": 1500, "64KB": 64000, "64kB": 64000, "64kb": 64000, "64KiB": 64 << 10, "64kib": 64 << 10,
		"1.5 GiB": 3 << 29, "0.1GB": 1e8, "1.3KiB": 1331, "9007199254740992": 1 << 53, "2PB": 2e15, "1B": 1,
	} {
		if got, err := ParseSize(s); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %v, %v; want %d", s, got, err, want)
		}
	}
	for s, want := range map[string]string{
		"": "write one such as", "MB": "write one such as", "8 apples": "write one such as", "-1": "from 0 to", "-2GB": "from 0 to",
		"0.3B": "whole number", "0.3": "whole number", "9007199254740993": "from 0 to", "99EB": "write one such as", "99999PB": "from 0 to",
	} {
		if got, err := ParseSize(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseSize(%q) = %v, %v; want %q", s, got, err, want)
		}
	}
	for n, want := range map[int64]string{0: "0B", 8e9: "8GB", 8 << 30: "8GiB", 1001: "1001", 1 << 53: "8PiB", 1536: "1536"} {
		if got := FormatSize(n); got != want {
			t.Errorf("FormatSize(%d) = %q, want %q", n, got, want)
		}
	}
}

// Numbers are decimal digits that mean the same to every program; nothing is cut off.
func TestNumbers(t *testing.T) {
	for s, want := range map[string]int64{"0": 0, "-0": 0, "7": 7, "+7": 7, "-12": -12, "9223372036854775807": math.MaxInt64} {
		if n, err := ParseWhole(s); err != nil || n != want {
			t.Errorf("%q: %d, %v", s, n, err)
		}
		if x, err := ParseNumber(s); err != nil || x != float64(want) {
			t.Errorf("%q: %g, %v", s, x, err)
		}
	}
	for s, want := range map[string]float64{"0.5": 0.5, ".5": 0.5, "2.": 2, "1e3": 1000, "-1.5E-3": -0.0015} {
		if x, err := ParseNumber(s); err != nil || x != want {
			t.Errorf("%q: %g, %v", s, x, err)
		}
		if n, err := ParseWhole(s); err == nil || !strings.Contains(err.Error(), s) {
			t.Errorf("%q: %d, %v", s, n, err)
		}
	}
	for _, s := range []string{"", "-", "010", "-010", "00", "0x10", "0b1", "0o7", "1_0", "inf", "nan", "true", " 1", "1 ", "1,0", "1e", "٣", "99999999999999999999e999"} {
		if n, err := ParseWhole(s); err == nil {
			t.Errorf("%q: %d", s, n)
		}
		if x, err := ParseNumber(s); err == nil {
			t.Errorf("%q: %g", s, x)
		}
	}
	if _, err := ParseWhole("9223372036854775808"); !errors.Is(err, strconv.ErrRange) {
		t.Error(err)
	}
	for _, s := range []string{"010", "010MiB", "0.0001KiB", "1e-4kB"} {
		if n, err := ParseSize(s); err == nil {
			t.Errorf("%q is %d bytes", s, n)
		}
	}
}

func TestDurations(t *testing.T) {
	if d, err := ParseDuration("1.5s"); err != nil || d != 1500*time.Millisecond {
		t.Error(d, err)
	}
	for _, s := range []string{"", "5", "-1s", "1 s", "1e3s"} {
		if d, err := ParseDuration(s); err == nil {
			t.Errorf("ParseDuration(%q) = %v", s, d)
		}
	}
}

func TestLines(t *testing.T) {
	v, _, err := ParseJSON([]byte("{\n \"a\":\n  [1,\n true, null],\n \"a\": {\"b\": \"x\"}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	f := v.V.([]Field)
	list := f[0].Value.V.([]Value)
	got := fmt.Sprintln(v.Line, f[0].Line, f[0].Value.Line, list[0].Line, list[1].Line, f[1].Line, len(f), list[0].V, list[1], list[2], v, f[0].Value, f[1].Value.V)
	if want := "1 2 3 3 4 5 2 1 true null an object a list [{b 5 \"x\"}]\n"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for src, want := range map[string]string{
		"": "1: not JSON", "{\n\"a\":\n": "2: not JSON", "{\n\"a\" 1}": "2: not JSON", "{}\n{}": "2: not JSON", "[1,\n\n2": "3: not JSON",
	} {
		_, line, err := ParseJSON([]byte(src))
		if got := fmt.Sprintf("%d: %v", line, err); !strings.HasPrefix(got, want) {
			t.Errorf("%q: %s, want %s", src, got, want)
		}
	}
}

func TestUnknown(t *testing.T) {
	names := []string{"gemm", "merkle", "tropical"}
	for name, want := range map[string]string{
		"gem": "did you mean gemm?", "GEMM": "did you mean gemm?", "mrekle": "did you mean merkle?", "xyz": "there are gemm, merkle, tropical",
	} {
		if got := Unknown("workload", name, names).Error(); !strings.Contains(got, want) {
			t.Errorf("%q: %s", name, got)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"gemm", "conv", "landscape", "roundrobin"}
	for written, want := range map[string]string{
		"gem": "gemm", "GEMM": "gemm", "gmem": "gemm", "landsacpe": "landscape", "round-robin": "roundrobin",
		"xyz": "", "co": "", "convolution": "",
	} {
		if got, _ := Nearest(written, names); got != want {
			t.Errorf("nearest to %q is %q, want %q", written, got, want)
		}
	}
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"ab", "ba", 1}, {"ca", "abc", 3}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("distance of %q and %q is %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// FuzzText holds what is read against what is written back, and the tree against
// encoding/json's own.
func FuzzText(f *testing.F) {
	for _, s := range []string{"64KB", "1.5 GiB", "1e6", "15.11TFLOP/s", "2s", `{"a": [1, {"b": null}], "a": "x"}`, "\n\n[", "1e-400B", "µs"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := ParseSize(s); err == nil {
			if m, err := ParseSize(FormatSize(n)); n < 0 || err != nil || m != n {
				t.Errorf("%q is %d, which is written %q and read as %d, %v", s, n, FormatSize(n), m, err)
			}
		}
		for _, units := range [][]Unit{Bytes, BytesPerSecond, OperationsPerSecond, Nanoseconds, Watts} {
			x, err := ParseQuantity(s, units)
			if err != nil || math.IsInf(x, 0) {
				continue
			}
			if w, ok := FormatQuantity(x, units); ok {
				if y, err := ParseQuantity(w, units); err != nil || y != x {
					t.Errorf("%q is %v, which is written %q and read as %v, %v", s, x, w, y, err)
				}
			}
		}
		if d, err := ParseDuration(s); err == nil && d < 0 {
			t.Errorf("%q is %v", s, d)
		}
		v, line, err := ParseJSON([]byte(s))
		if (err == nil) != json.Valid([]byte(s)) || err != nil && (line < 1 || line > 1+strings.Count(s, "\n")) {
			t.Errorf("%q: line %d: %v", s, line, err)
		}
		if err == nil && v.String() == "" {
			t.Errorf("%q is nothing", s)
		}
		if near, ok := Nearest(s, []string{"gemm", "merkle"}); ok != (near != "") {
			t.Errorf("%q: %q, %v", s, near, ok)
		}
	})
}

func TestCount(t *testing.T) {
	for want, got := range map[string]string{
		"1 task": Count(1, "task"), "0 tasks": Count(0, "task"), "2 tasks": Count(int64(2), "task"),
		"1 copy": Count(1, "copy"), "3 copies": Count(3, "copy"), "2 rays": Count(2, "ray"), "2 bodies": Count(2, "body"), "-1 tasks": Count(-1, "task"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestRate(t *testing.T) {
	for want, got := range map[string]string{"0": Rate(0), "0.125": Rate(0.125), "99.5": Rate(99.5), "100": Rate(100), "12346": Rate(12345.6), "1000000": Rate(1e6)} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
