package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/text"
)

// failing is a driver whose devices do not open.
type failing struct{ err error }

func (failing) Name() string { return "cpu" }

func (f failing) Open(context.Context, *slog.Logger) ([]driver.Device, error) { return nil, f.err }

// It is a mistake of the user to ask for devices that are not here, not that devices which are fail to open.
func TestOpenStatus(t *testing.T) {
	for _, c := range []struct {
		err   error
		usage bool
	}{
		{errors.New("cpu: open: worker process 7: signal: killed"), false},
		{fmt.Errorf("cpu: %w", driver.ErrUnavailable), true},
	} {
		_, err := open(t.Context(), weft.Options{Devices: "cpu", Drivers: []driver.Driver{failing{c.err}}, CacheDir: "off"}, io.Discard)
		var usage text.Mistake
		if !errors.Is(err, c.err) || errors.As(err, &usage) != c.usage {
			t.Errorf("the error is %v, a mistake of the user's: %v", err, !c.usage)
		}
	}
}

// What is for isolated workers is refused where there are none, by the library, by flags and files of the command and by
// the service; of all combinations no other is.
func TestOnlyIsolated(t *testing.T) {
	refused := 0
	for draw := range 1 << 4 {
		o := weft.Options{Devices: "cpu", CacheDir: "off", NoCalibrate: true}
		keys := make(map[string]string)
		flags := []string{"run", "reduce", "--n", "1000", "--devices", "cpu"}
		var wrong []string
		for i, c := range []struct{ key, value string }{{"standby", "on"}, {"confine", "on"}, {"worker_bytes", "128MiB"}, {"memory_reserve", "1GiB"}} {
			if draw&(1<<i) == 0 {
				continue
			}
			wrong = append(wrong, c.key)
			keys[c.key] = c.value
			flags = append(flags, "--"+strings.ReplaceAll(c.key, "_", "-")+"="+c.value)
			if err := o.Set(c.key, c.value); err != nil {
				t.Fatal(err)
			}
		}
		isolated := o
		isolated.Isolate = true
		if err := isolated.Validate(); err != nil {
			t.Errorf("isolated, %v: %v", keys, err)
		}
		if err := o.Validate(); (err != nil) != (len(wrong) > 0) {
			t.Errorf("%v: %v", keys, err)
		}
		if len(wrong) == 0 {
			continue
		}
		refused++
		rt, err := weft.Open(t.Context(), o)
		if !errors.Is(err, weft.ErrOptions) {
			t.Errorf("%v: Open returned %v", keys, err)
			rt.Close()
			continue
		}
		var text, lines strings.Builder
		for k, v := range keys {
			fmt.Fprintf(&text, "  %s: %s\n", k, v)
			fmt.Fprintf(&lines, "%s = %s\n", k, v)
		}
		config := write(t, "weft.yaml", "devices: cpu\nruntime:\n"+text.String())
		for _, args := range [][]string{
			flags, append(flags, "--isolate=off"), {"run", "reduce", "--n", "1000", "--devices", "cpu", "--config", write(t, "weft.conf", lines.String())},
			{"serve", "--config", config}, {"serve", "--check-config", "--config", config},
		} {
			code, out, stderr := runWeft(args...)
			if code != exitUsage || out != "" || strings.Count(stderr, "add isolate") != len(wrong) {
				t.Errorf("weft %s: status %d, %q, %q", strings.Join(args, " "), code, out, stderr)
			}
			for _, key := range wrong {
				if !strings.Contains(stderr, key+": ") || !strings.Contains(err.Error(), key+": ") {
					t.Errorf("weft %s: nothing is said of %s: %q; Open: %v", strings.Join(args, " "), key, stderr, err)
				}
			}
			if len(wrong) == 1 && strings.Count(stderr, "\n") != 1 {
				t.Errorf("weft %s: more than a line: %q", strings.Join(args, " "), stderr)
			}
		}
	}
	if refused != 15 {
		t.Errorf("%d combinations were refused", refused)
	}
	for o, wrong := range map[*weft.Options]bool{
		{Devices: "cpu", WorkerCommand: "/bin/true"}:                true,
		{Devices: "cpu/2,cpu:0", WorkerCommand: "/bin/true"}:        true,
		{Devices: "cpu", WorkerCommand: "/bin/true", Isolate: true}: false,
		{Devices: "cpu,cuda", WorkerCommand: "/bin/true"}:           false,
		{Devices: "cpu,cuda", Standby: true}:                        false,
		{Standby: true}:                                             false,
		{Drivers: []driver.Driver{}, Devices: "cpu", Standby: true}: false,
	} {
		if err := o.Validate(); (err != nil && strings.Contains(err.Error(), "add isolate")) != wrong {
			t.Errorf("%+v: %v", o, err)
		}
	}
	// More than there is cannot be kept free.
	code, out, stderr := runWeft("run", "reduce", "--n", "1000", "--devices", "cpu", "--isolate", "--memory-reserve", "1000TiB")
	if code != exitUsage || out != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "memory_reserve: 1024000.0 GiB cannot stay free of the ") {
		t.Errorf("status %d, %q, %q", code, out, stderr)
	}
	// memory_reserve: off is accepted without isolate: it asks for nothing.
	if err := (&weft.Options{MemoryReserve: -1}).Validate(); err != nil {
		t.Error(err)
	}
}
