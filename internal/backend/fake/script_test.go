package fake_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/fake"
)

func TestParse(t *testing.T) {
	got, err := fake.Parse(`
		devices 2; memory 65536; lanes 3   # what there is
		peer
		take 5ms kernel saxpy
		on 1 fail op 7; hang launches times 1
		lose kernel "a b;c"; lose; release
		limit 4096; set temp 90.5
		revive standby fails times 2; on 0 revive reopen kept;;
	`)
	if err != nil {
		t.Fatal(err)
	}
	every := fake.AllDevices
	want := fake.Options{Devices: 2, MemBytes: 65536, Lanes: 3, Peer: true, Script: fake.Script{
		{Device: every, Do: fake.Take, For: 5 * time.Millisecond, At: fake.Match{Kind: fake.OfKernel, Kernel: "saxpy"}},
		{Device: 1, Do: fake.Fail, At: fake.Match{Kind: fake.NthOp, N: 7}},
		{Device: every, Do: fake.Hang, At: fake.Match{Kind: fake.Launches}, Times: 1},
		{Device: every, Do: fake.Lose, At: fake.Match{Kind: fake.OfKernel, Kernel: "a b;c"}},
		{Device: every, Do: fake.Lose},
		{Device: every, Do: fake.Release},
		{Device: every, Do: fake.Limit, Bytes: 4096},
		{Device: every, Do: fake.Set, Name: "temp", Value: 90.5},
		{Device: every, Do: fake.Revive, Rung: driver.Standby, End: fake.Fails, Times: 2},
		{Device: 0, Do: fake.Revive, Rung: driver.Reopen, End: fake.Kept},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"devices":                `statement 1, "devices": "" where a number from 1 to 64 is expected`,
		"peer; devices 0":        `statement 2, "devices 0": "0" where a number`,
		"devices 65":             `"65" where a number from 1 to 64`,
		"peer now":               `"now" is too much`,
		"explode op 1":           `unknown statement "explode"; use one of take, fail`,
		"on":                     `"" where a number from 0`,
		"on 1":                   `unknown statement ""`,
		"fail":                   `"" where op N (from 1), kernel NAME, copies or launches is expected`,
		"fail op 0":              `"0" where a number from 1`,
		"fail kernel":            "kernel needs a name",
		`fail kernel "x`:         "a quoted name does not end",
		"fail op 3 times 2":      "fail does not use all that is set",
		"take op 3":              `"op" where a duration such as 5ms`,
		"take 0s op 3":           "use more than 0",
		"take 9h op 3":           "at most 1h0m0s",
		"set colour 3":           `unknown gauge "colour"; use one of util`,
		"set temp hot":           `"hot" where a number`,
		"set temp nan":           "use a number",
		"revive":                 `unknown rung ""; use one of standby`,
		"revive restart maybe":   `unknown outcome "maybe"; use one of empty, kept, fails`,
		"hang copies times none": `"none" where a number from 1`,
		"release op 1":           `"op" is too much`,
	} {
		_, err := fake.Parse(text)
		if !errors.Is(err, fake.ErrScript) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: got %v; want one line with %s", text, err, want)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, o := range []fake.Options{
		{Devices: -1}, {Devices: 65}, {Lanes: -1}, {MemBytes: -1}, {MemBytes: 1 << 50},
		{Script: fake.Script{{Device: 1, Do: fake.Release}}},
		{Script: fake.Script{{Device: -2, Do: fake.Release}}},
		{Script: fake.Script{{Do: 99}}},
		{Script: fake.Script{{Do: fake.Fail}}},
		{Script: fake.Script{{Do: fake.Fail, At: fake.Match{Kind: 99}}}},
		{Script: fake.Script{{Do: fake.Release, Bytes: 3}}},
		{Script: fake.Script{{Do: fake.Revive, Rung: 99}}},
		{Script: fake.Script{{Do: fake.Set, Name: "colour"}}},
		{Script: fake.Script{{Do: fake.Release, Times: -1}}},
	} {
		if _, err := fake.New(o); !errors.Is(err, fake.ErrScript) {
			t.Errorf("%v: got %v", o, err)
		}
	}
}

// What is accepted can be written down and read again, and is valid but for
// devices that are not there.
func FuzzParse(f *testing.F) {
	f.Add(`devices 2; memory 65536; lanes 2; peer; on 1 take 1.5ms kernel "a\nb" times 3`)
	f.Add("fail op 7\nhang launches # never\nlose; release; limit 0; set util 0.5; revive standby fails times 2")
	f.Add(`lose kernel "\xff"; on 63 revive reopen kept; set power -1e-300`)
	f.Fuzz(func(t *testing.T, text string) {
		o, err := fake.Parse(text)
		if err != nil {
			if !errors.Is(err, fake.ErrScript) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("error %q", err)
			}
			return
		}
		again, err := fake.Parse(o.String())
		if err != nil || !reflect.DeepEqual(o, again) {
			t.Fatalf("%q: read as %v, written as %q and read as %v: %v", text, o, o.String(), again, err)
		}
		o.Devices = 64
		if err := o.Validate(); err != nil {
			t.Fatal(err)
		}
	})
}
