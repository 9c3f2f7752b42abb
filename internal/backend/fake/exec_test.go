package fake_test

import (
	"context"
	"errors"
	"testing"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/backend/fake"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/exec"
)

// What the devices are for: a run on them ends with the right bytes, whatever
// the script does to some of them.
func TestUnderExec(t *testing.T) {
	const n, parts, rounds = 6400, 16, 4
	for _, script := range []string{
		"devices 3; memory 1048576",
		"devices 3; memory 1048576; peer; lanes 2; fail op 3; on 2 fail kernel bump times 2",
		"devices 3; memory 1048576; on 1 lose op 5",
		"devices 2; memory 1048576; on 0 lose kernel bump times 1; on 1 take 1ms launches",
		"devices 2; memory 1048576; on 0 limit 2000",
	} {
		o, err := fake.Parse(script)
		if err != nil {
			t.Fatal(err)
		}
		o.Funcs = map[string]driver.Func{"bump": func(c *driver.Call, lo, hi int) {
			for i := lo; i < hi; i++ {
				c.Args[0][i]++
			}
		}}
		drv, err := fake.New(o)
		if err != nil {
			t.Fatal(err)
		}
		copier, err := cpu.New(cpu.Options{Cores: 1}).Open(context.Background(), nil)
		if err != nil {
			t.Fatal(err)
		}
		x, err := exec.Open(context.Background(), exec.Config{Drivers: []driver.Driver{drv}, Copier: copier[0]})
		if err != nil {
			t.Fatal(err)
		}
		var b graph.Builder
		d := b.Data(graph.Data{Name: "x", Bytes: n, Input: true, Output: true})
		k := &graph.Kernel{Name: "bump", Impls: []graph.Impl{{Dialect: graph.PTX, Entry: "bump"}}}
		for range rounds {
			for p := range int64(parts) {
				b.Add(graph.Task{
					Steps: []graph.Step{{Kernel: k, Launch: graph.Launch{Grid: [3]uint32{n / parts, 1, 1}}}},
					Uses:  []graph.Use{{Data: d, Offset: p * n / parts, Bytes: n / parts, Access: graph.ReadWrite}},
				})
			}
		}
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		mem := make([]byte, n)
		ctx, cancel := context.WithTimeoutCause(context.Background(), deadline, errors.New("the run does not end"))
		_, err = x.Run(ctx, g, engine.RunOptions{}, func(graph.DataID) []byte { return mem })
		cancel()
		if err != nil {
			t.Errorf("%s: %v", script, err)
		}
		for i, v := range mem {
			if v != rounds && err == nil {
				t.Errorf("%s: byte %d is %d, want %d", script, i, v, rounds)
				break
			}
		}
		if err := x.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}
