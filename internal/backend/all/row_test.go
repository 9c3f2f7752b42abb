package all_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/all"
	"github.com/weft-run/weft/machine"
)

func TestMain(m *testing.M) {
	all.Add(abacusName, newAbacus) // the row; in worker processes too
	weft.Worker()
	os.Exit(m.Run())
}

// A backend is a folder, a row of the list and a dialect. With these alone its devices are found by name,
// opened in worker processes, measured and checked, they run kernels in the dialect beside others, say why
// they cannot run a kernel, and are described in machine files.
func TestRow(t *testing.T) {
	rt, err := weft.Open(t.Context(), weft.Options{Devices: "cpu," + abacusName, CacheDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	}()
	const name = abacusName + ":0"
	devices := rt.Machine().Devices
	at := slices.IndexFunc(devices, func(d machine.Device) bool { return d.Name == name })
	if at < 0 {
		t.Fatalf("no %s among %v", name, devices)
	}
	if r := devices[at].Rates; r.Ops[graph.FP32] <= 0 || r.MemoryBPS <= 0 || r.LaunchNS <= 0 {
		t.Errorf("%s is not measured: %+v", name, r)
	}
	if _, err := rt.Probe(t.Context(), name); err != nil {
		t.Errorf("%s does not pass its check: %v", name, err)
	}

	kernel := &graph.Kernel{Name: "both", Impls: []graph.Impl{{Dialect: abacusDialect, Entry: abacusName, Source: []byte("* 3\n+ 4\n")}}}
	var b graph.Builder
	words := b.Data(graph.Data{Name: "words", Bytes: 4 * 1000, Input: true, Output: true})
	b.Add(graph.Task{
		Steps: []graph.Step{{Kernel: kernel, Launch: graph.Grid(1000)}},
		Uses:  []graph.Use{{Data: words, Access: graph.ReadWrite}},
	})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	memory := make([]uint32, 1000)
	for i := range memory {
		memory[i] = uint32(i)
	}
	if _, err := rt.Run(t.Context(), g, weft.Bind("words", memory)); err != nil {
		t.Fatal(err)
	}
	for i, got := range memory {
		if want := uint32(3*i + 4); got != want {
			t.Fatalf("word %d is %d, want %d", i, got, want)
		}
	}

	other := &graph.Kernel{Name: "other", Impls: []graph.Impl{{Dialect: graph.SPIRV}}}
	if why := rt.Machine().Unable(other); !strings.Contains(why, "abacus devices run abacus") {
		t.Errorf("why %q cannot run: %s", other.Name, why)
	}
	read, err := machine.Decode(machine.Encode(rt.Machine()))
	if err != nil {
		t.Fatal(err)
	}
	if d := &read.Devices[at]; !d.CanRun(kernel) || d.CanRun(other) {
		t.Errorf("%s of a machine file runs %v", d.Name, d.Dialects)
	}
}
