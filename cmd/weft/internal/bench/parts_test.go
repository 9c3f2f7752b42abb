package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
)

// A benchmark that ends early keeps its rows, and says why; only one that fails fails the
// suite.
func TestParts(t *testing.T) {
	wrong := errors.New("the result is wrong")
	for name, c := range map[string]struct {
		measure func(m *meter) ([]int, error)
		timeout time.Duration
		rows    int
		why     string
		failed  bool
	}{
		"well":       {func(*meter) ([]int, error) { return []int{1, 2}, nil }, time.Hour, 2, "", false},
		"too long":   {func(m *meter) ([]int, error) { <-m.ctx.Done(); return []int{1}, m.ctx.Err() }, time.Millisecond, 1, "ended after 1ms (--timeout)", false},
		"no device":  {func(*meter) ([]int, error) { return nil, fmt.Errorf("open: %w", weft.ErrNoDevices) }, 0, 0, "cannot run here: open: ", false},
		"one device": {func(*meter) ([]int, error) { return nil, terminal.Usagef("several are needed") }, 0, 0, "cannot run here: several are needed", false},
		"wrong":      {func(*meter) ([]int, error) { return []int{1}, wrong }, 0, 1, "failed: the result is wrong", true},
	} {
		var rows []int
		p := rowsPart(name, name, &rows, c.measure, nil)
		row, _ := p.run(&meter{ctx: t.Context()}, c.timeout)
		if row.Part != name || row.Rows != c.rows || !strings.HasPrefix(row.Why, c.why) || c.why == "" && row.Why != "" || row.Failed != c.failed {
			t.Errorf("%s: %+v", name, row)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var rows []int
	p := rowsPart("interrupted", "", &rows, func(m *meter) ([]int, error) { return nil, m.ctx.Err() }, nil)
	if row, err := p.run(&meter{ctx: ctx}, time.Hour); row.Why != "" || !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %+v, %v", row, err)
	}
}

// The report has a section for each benchmark, with the load that spoils it, and names
// those that were not measured.
func TestSuiteTells(t *testing.T) {
	r := sampleReport()
	r.Collective = []collectiveRow{{Op: "send", Devices: 2, Bytes: 64, Seconds: 1}}
	r.Parts = []partRow{
		{Part: "memory", Rows: 2, Others: 1000},
		{Part: "balance", Rows: 1, Others: 0.001},
		{Part: "collective", Rows: 1, Why: "ended after 1s (--timeout)"},
		{Part: "faults", Why: "cannot run here: no GPU"},
	}
	var b bytes.Buffer
	r.text(&b)
	var page bytes.Buffer
	if err := writePage(&page, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"other programs used 1000.0 of ", "ended after 1s (--timeout)", "faults: cannot run here: no GPU", "send"} {
		if n := strings.Count(strings.Join(strings.Fields(b.String()), " "), want); n != 1 {
			t.Errorf("the report says %q %d times:\n%s", want, n, b.String())
		}
		if n := strings.Count(page.String(), want); n != 1 {
			t.Errorf("the page says %q %d times", want, n)
		}
	}
	names := make(map[string]bool)
	for _, p := range (&suite{}).parts(r) {
		names[p.name] = true
	}
	for _, c := range Commands(Setup{}) {
		name := c.Name()
		// What takes minutes, a server or processes of its own is measured by itself, and the help of
		// the suite says so.
		alone := slices.Contains([]string{"checkpoint", "domains", "migrate", "predict", "serve", "verify", "zk"}, name)
		if names[name] == alone && !slices.Contains([]string{"scaling", "suite", "compare"}, name) {
			t.Errorf("benchmark %s is in the suite: %v", name, names[name])
		}
		if c := newSuite(Setup{}); alone && !strings.Contains(c.Long, name) {
			t.Errorf("the help of the suite does not say that %s is left out:\n%s", name, c.Long)
		}
	}
}
