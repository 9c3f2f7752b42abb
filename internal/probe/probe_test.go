package probe_test

import (
	"bytes"
	"testing"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/probe"
)

// checked runs a check with a Go function and returns its input and output.
func checked(t *testing.T, seed uint64, fn driver.Func) (in, out []byte) {
	t.Helper()
	g, err := probe.Graph("cpu:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	s := g.Task(0).Steps[0]
	in, out = make([]byte, probe.Bytes), make([]byte, probe.Bytes)
	probe.Fill(in, seed)
	c := driver.NewCall(nil, nil)
	c.Args, c.Params, c.Launch = [][]byte{in, out}, s.Params, s.Launch
	fn(c, 0, int(s.Launch.Grid[0]))
	if err := c.Err(); err != nil {
		t.Fatal(err)
	}
	return in, out
}

// Whatever its input, a check passes on cores, whose float32 arithmetic is compared with integers; and
// it fails if one bit of the output, or of what it was made from, is another.
func TestCheck(t *testing.T) {
	fn := cpu.Probes()["weft.probe.check"]
	for seed := range uint64(200) {
		in, out := checked(t, seed, fn)
		if err := probe.Check(in, out); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		at := int(seed*2654435761) % probe.Bytes
		for _, b := range [][]byte{in, out} {
			b[at] ^= 1 << (seed % 8)
			if probe.Check(in, out) == nil {
				t.Errorf("seed %d: a wrong bit of byte %d is not found", seed, at)
			}
			b[at] ^= 1 << (seed % 8)
		}
	}
}

// A device that only copies is found out, and so is one that gives what it gave before.
func TestCheckComputes(t *testing.T) {
	in, before := checked(t, 1, cpu.Probes()["weft.probe.stream"])
	if !bytes.Equal(in, before) || probe.Check(in, before) == nil {
		t.Error("a copy passes")
	}
	_, before = checked(t, 1, cpu.Probes()["weft.probe.check"])
	in, _ = checked(t, 2, cpu.Probes()["weft.probe.check"])
	if probe.Check(in, before) == nil {
		t.Error("the result of another input passes")
	}
}

// The check has code for every kind of device.
func TestCheckDialects(t *testing.T) {
	g, err := probe.Graph("cpu:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[graph.Dialect]bool)
	for _, impl := range g.Task(0).Steps[0].Kernel.Impls {
		found[impl.Dialect] = impl.Entry != "" && (impl.Dialect == graph.Go || len(impl.Source) > 0)
		if impl.Dialect == graph.PTX && !bytes.Contains(impl.Source, []byte(".entry "+impl.Entry+"(")) {
			t.Errorf("the PTX has no %s", impl.Entry)
		}
	}
	if !found[graph.Go] || !found[graph.PTX] || !found[graph.SPIRV] {
		t.Errorf("found code for %v", found)
	}
}
