package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/chaos"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/reduce"
)

func TestChaos(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("worker processes need Linux")
	}
	for _, devices := range []string{"cpu/2", "fake/2"} {
		var out, stderr bytes.Buffer
		args := []string{"chaos", "reduce", "--n", "262144", "--for", "2s", "--seed", "3", "--json", "--devices", devices}
		if code := run(t.Context(), args, &out, &stderr); code != exitOK {
			t.Fatalf("%s: status %d: %s", devices, code, &stderr)
		}
		var a chaos.Account
		if err := json.Unmarshal(out.Bytes(), &a); err != nil {
			t.Fatalf("%s: %v: %s", devices, err, &out)
		}
		if a.Right == 0 || a.Wrong > 0 || a.Left > 0 || a.Seed != 3 || a.Right+a.Errors != a.Rounds {
			t.Errorf("%s: %s", devices, &out)
		}
	}
}

// Simulated bouts are told as such, and the same command gives the same account.
func TestChaosSimulated(t *testing.T) {
	var accounts [2]chaos.Account
	for i := range accounts {
		var out, stderr bytes.Buffer
		if code := run(t.Context(), strings.Fields("chaos automata --rows 96 --cols 64 --steps 32 --simulate 40 --seed 3 --json --devices fake/3"), &out, &stderr); code != exitOK {
			t.Fatalf("status %d: %s", code, &stderr)
		}
		if err := json.Unmarshal(out.Bytes(), &accounts[i]); err != nil {
			t.Fatalf("%v: %s", err, &out)
		}
		accounts[i].Seconds = 0
	}
	if a := accounts[0]; !a.Simulated || a.Bouts != 40 || a.Right == 0 || a.Right != a.Rounds || a.Faults["kill"] == 0 || a.Faults["starve"] == 0 || a.Retries == 0 {
		t.Errorf("%+v", a)
	}
	if !reflect.DeepEqual(accounts[0], accounts[1]) {
		t.Errorf("%+v differs from %+v", accounts[0], accounts[1])
	}
	if out := works(t, strings.Fields("chaos reduce --n 65536 --simulate 5 --devices cpu/2")...); !strings.Contains(out, "5 bouts simulated in") || strings.Contains(out, "between bouts") {
		t.Errorf("%s", out)
	}
}

// The account ends with what came of the rounds.
func TestChaosVerdict(t *testing.T) {
	for want, a := range map[string]chaos.Account{
		"Every round had the right result; nothing was left after a bout.":                                               {Rounds: 7, Right: 7},
		"Every round had the right result.":                                                                              {Rounds: 7, Right: 7, Simulated: true},
		"5 of 7 rounds had the right result, 0 a wrong one, and 2 ended with an error; after 1 bout something was left.": {Rounds: 7, Right: 5, Errors: 2, Left: 1},
		"No round was ended.": {},
	} {
		if got := verdict(&a); got != want {
			t.Errorf("%+v: %q, not %q", a, got, want)
		}
	}
}

// Of many minutes the table has some, at equal distances, and a line has the growth.
func TestWriteUse(t *testing.T) {
	a := &chaos.Account{Bouts: 9, Before: chaos.Use{Own: 5000, Heap: 3000, Goroutines: 3, Descriptors: 10}, After: chaos.Use{Own: 6000, Heap: 1000, Goroutines: 3, Descriptors: 12}}
	for m := range 100 {
		a.Minutes = append(a.Minutes, chaos.Minute{Minute: m + 1, Rounds: 10 * m})
	}
	var b bytes.Buffer
	writeUse(&b, a)
	if out := b.String(); strings.Count(out, " min ") != 25 || !strings.Contains(out, "\n4 min ") || !strings.Contains(out, "\n100 min") ||
		!strings.Contains(out, "memory of its own +1 kB, heap -2 kB, goroutines +0, descriptors +2, processes +0.") {
		t.Errorf("%s", out)
	}
	b.Reset()
	writeUse(&b, &chaos.Account{Bouts: 1, Before: a.Before, After: a.Before})
	if out := b.String(); strings.Count(out, "bout 1") != 1 || strings.Contains(out, "From the first") {
		t.Errorf("after one bout: %s", out)
	}
}

// A device whose results are wrong spoils none while all are verified.
func TestChaosVerified(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("worker processes need Linux")
	}
	var out, stderr bytes.Buffer
	args := []string{"chaos", "merkle", "--leaves", "4096", "--for", "1s", "--faults", "lie", "--json", "--devices", "fake/3", "--verify", "1"}
	if code := run(t.Context(), args, &out, &stderr); code != exitOK {
		t.Fatalf("status %d: %s", code, &stderr)
	}
	var a chaos.Account
	if err := json.Unmarshal(out.Bytes(), &a); err != nil {
		t.Fatalf("%v: %s", err, &out)
	}
	if a.Right == 0 || a.Wrong > 0 || a.Errors > 0 || a.Verified == 0 || a.Replaced == 0 || a.Faults["lie"] != a.Bouts {
		t.Errorf("the account is %s", &out)
	}
}

// wrongJob is a job whose results do not pass.
type wrongJob struct{ workload.Job }

func (wrongJob) Check() error { return errors.New("planted") }

func TestChaosFails(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("worker processes need Linux")
	}
	c := &cobra.Command{}
	var out bytes.Buffer
	c.SetOut(&out)
	c.SetErr(&out)
	c.SetContext(t.Context())
	err := runChaos(c, &chaos.Trial{
		Job: func(context.Context) (workload.Job, error) {
			j, err := reduce.New(reduce.Config{Op: "sum", N: 1 << 16})
			return wrongJob{j}, err
		},
		Options: weft.Options{Devices: "cpu/2", HangTimeout: time.Minute}, For: 500 * time.Millisecond,
	}, 0, false)
	if err == nil || !strings.Contains(err.Error(), "wrong result") || !strings.Contains(out.String(), "First wrong result: round 1: planted") {
		t.Errorf("%v: %s", err, &out)
	}
}

func TestChaosRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"chaos": "chaos needs a workload",
		"chaos reduce --for 1s --faults lie --devices fake/3":                "add --verify 1",
		"chaos reduce --simulate 2 --faults fail":                            "to scripted devices only",
		"chaos reduce --simulate 2 --verify 1 --faults lie --devices fake/3": "simulated devices compute nothing",
		"chaos reduce --round-limit 0s":                                      "--round-limit 0s: it must be more than 0",
		"chaos nothing":                                                      "nothing",
		"chaos reduce --for 0s":                                              "more than 0",
		"chaos reduce --for 1s --faults x":                                   "unknown fault",
		"chaos reduce --for 1s --faults kill,fail":                           "scripted devices only",
		"chaos reduce --hang-timeout 1ms":                                    "200ms at least",
		"chaos reduce --devices rocm:0":                                      "no backend \"rocm\"",
		"chaos reduce --devices cpu/2,cuda --faults dawdle":                  "scripted devices only",
		"chaos reduce --calibrate off":                                       "unknown flag",
		"chaos reduce --simulate -1":                                         "number of bouts",
		"chaos reduce --simulate 1 --for 1s":                                 "leave one of them out",
		"chaos reduce --simulate 1 --devices cuda":                           "only cpu and fake devices",
		"chaos reduce --simulate 1 --ladder off":                             "--ladder",
		"chaos reduce --simulate 1 --policy x":                               "policy",
		"chaos reduce --seed -1":                                             "--seed",
		"chaos merkle --seed x --for 1s":                                     "--seed",
		"chaos merkle --seed -3 --for 1s":                                    "--seed",
		"chaos reduce --for 1s --devices z":                                  "no backend \"z\"",
	} {
		var out, stderr bytes.Buffer
		if code := run(t.Context(), strings.Fields(args), &out, &stderr); code != exitUsage || !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: status %d: %s, want %q", args, code, &stderr, want)
		}
	}
}
