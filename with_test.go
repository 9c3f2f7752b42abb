package weft_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
)

// Options of a prepared graph add to those it has, and the later of two wins.
func TestWithAdds(t *testing.T) {
	var began atomic.Int64
	rt := open(t, weft.Options{Devices: "cpu", Checksums: true, Funcs: map[string]weft.Func{
		"fail": func(c *weft.Call, _, _ int) { began.Add(1); c.Fail(errors.New("as ever")) },
	}})
	p, err := rt.Prepare(of(t, graph.GoKernel("fail")))
	if err != nil {
		t.Fatal(err)
	}
	with := func(p *weft.Prepared, o weft.RunOptions) *weft.Prepared {
		t.Helper()
		p, err := p.With(o)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	begins := func(p *weft.Prepared) int64 {
		t.Helper()
		began.Store(0)
		if _, err := p.Run(t.Context(), weft.Bind("x", make([]byte, 128)), weft.Bind("y", make([]byte, 128))); err == nil {
			t.Fatal("the run ended well")
		}
		return began.Load()
	}
	usual := begins(p)
	if usual < 2 {
		t.Fatalf("a task was begun %d times: this tests nothing", usual)
	}
	once := with(p, weft.RunOptions{Retries: -1})
	for what, c := range map[string]struct {
		p    *weft.Prepared
		want int64
	}{
		"one":             {once, 1},
		"and another":     {with(once, weft.RunOptions{Weight: 2, Concurrent: 1}), 1},
		"the later wins":  {with(once, weft.RunOptions{Retries: 1}), begins(with(p, weft.RunOptions{Retries: 1}))},
		"and none before": {p, usual},
	} {
		if got := begins(c.p); got != c.want {
			t.Errorf("%s: begun %d times, want %d", what, got, c.want)
		}
	}
}
