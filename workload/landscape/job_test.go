package landscape_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/landscape"
	"github.com/weft-run/weft/workload/protein"
)

// run runs and checks a job.
func run(t *testing.T, rt *weft.Runtime, c landscape.Config) *landscape.Job {
	t.Helper()
	j := workloadtest.New[*landscape.Job](t)(landscape.New(c))
	workloadtest.Run(t, rt, j)
	if err := j.Check(); err != nil {
		t.Fatalf("%s: %v", j.Name(), err)
	}
	return j
}

// Rows are bitwise the same on any number of devices (class R), and right. The
// smallest chain there is has two rows, fewer than there are devices, but ten parts.
func TestJobOnDevices(t *testing.T) {
	configs := []landscape.Config{{Residues: 4}, {Residues: 10}, {}, {Residues: 61}}
	if testing.Short() { // longer chains differ in how long they take
		configs = configs[:2]
	}
	for _, c := range configs {
		workloadtest.Invariant(t, landscape.Funcs(),
			func() (*landscape.Job, error) { return landscape.New(c) },
			func(j *landscape.Job) []byte { return workloadtest.Bytes(j.Result()) })
	}
}

// Rows are also the same where they are not cut, as beside devices that are no CPUs.
func TestJobInRows(t *testing.T) {
	rt := workloadtest.Open(t, 3, landscape.Funcs())
	parts := run(t, rt, landscape.Config{Residues: 61})
	rows := workloadtest.New[*landscape.Job](t)(landscape.New(landscape.Config{Residues: 61}))
	res := workloadtest.Run(t, rt, struct{ workload.Job }{rows}) // is not Hosted
	if end := res.Partition.Ranges[2].Hi; end != 59 {
		t.Errorf("%d pieces, want 59 rows", end)
	}
	if !bytes.Equal(workloadtest.Bytes(rows.Result()), workloadtest.Bytes(parts.Result())) {
		t.Error("whole rows have other bits than their parts")
	}
}

// Crambin has 89 contacts worth -1 each, and a little repulsion.
func TestJobCrambin(t *testing.T) {
	rt := workloadtest.Open(t, 2, landscape.Funcs())
	j := run(t, rt, landscape.Config{})
	if rest := j.Native() + 89; rest <= 0 || rest > 0.02 {
		t.Errorf("native energy is %v beyond that of the contacts", rest)
	}
	if len(j.Result()) != 44*landscape.Angles {
		t.Errorf("%d entries, want 44 rows", len(j.Result()))
	}
	again := run(t, rt, landscape.Config{Structure: "../protein/testdata/1crn.pdb", Select: protein.Select{Chain: "A"}})
	if !slices.Equal(again.Result(), j.Result()) {
		t.Error("the file has another landscape than the structure that is shipped")
	}
	if want := "landscape 1crn.pdb chain A, 46 residues"; again.Name() != want {
		t.Errorf("name %q, want %q", again.Name(), want)
	}
}

// The helix has the contacts of one.
func TestJobHelix(t *testing.T) {
	rt := workloadtest.Open(t, 1, landscape.Funcs())
	j := run(t, rt, landscape.Config{Residues: 20})
	// Residues four apart are 6.2 angstrom away, five apart 8.6: 16 contacts.
	if rest := j.Native() + 16; rest <= 0 || rest > 0.1 {
		t.Errorf("native energy is %v beyond that of the contacts", rest)
	}
}

// Devices get ranges of equal cost, not of equal length: the rows at the ends
// are cheap. On 16 devices a row may be a tenth of a range, and the parts of rows
// make the ranges equal.
func TestJobBalances(t *testing.T) {
	for _, c := range []struct {
		devices, residues int
		hosted            bool
	}{{4, 200, false}, {4, 200, true}, {16, 255, true}} {
		rt, err := weft.Open(t.Context(), weft.Options{
			NoCalibrate: true, CacheDir: "off", Devices: fmt.Sprintf("cpu/%d", c.devices), Partitioner: "proportional", Funcs: landscape.Funcs(),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer rt.Close()
		rows := workloadtest.New[*landscape.Job](t)(landscape.New(landscape.Config{Residues: c.residues}))
		var j workload.Job = rows
		if c.hosted {
			j = rows.Hosted()
		}
		part, err := rt.Split(j.Items(), j.Whole())
		if err != nil {
			t.Fatal(err)
		}
		items := j.Items()
		mean := items.Cost(0, items.Extent) / float64(c.devices)
		for d, r := range part.Ranges {
			if cost := items.Cost(r.Lo, r.Hi); math.Abs(cost-mean) > 0.03*mean {
				t.Errorf("%+v: device %d has a cost of %v, more than 3 %% from the mean %v", c, d, cost, mean)
			}
		}
		if middle := part.Ranges[c.devices/2]; part.Ranges[0].Len() < 3*middle.Len()/2 {
			t.Errorf("%+v: ranges %v: the first should be much longer than that in the middle", c, part.Ranges)
		}
	}
}

// Check notices a wrong energy anywhere in a landscape of the default size, one that is
// not a number, and parts of rows that were never computed. (Row 0 is flat: nothing lies
// off its axis before bead 2.)
func TestJobChecks(t *testing.T) {
	rt := workloadtest.Open(t, 2, landscape.Funcs())
	j := run(t, rt, landscape.Config{})
	if m := j.Misses(); m[0].Chance != 0 || m[1].Chance != 0 {
		t.Errorf("%v may be missed", m)
	}
	good := slices.Clone(j.Result())
	r := rand.New(rand.NewPCG(1, 2))
	faults := 24
	if testing.Short() { // one of each kind
		faults = 4
	}
	for n := range faults {
		i := landscape.Angles + r.IntN(len(good)-landscape.Angles)
		switch n % 4 {
		case 0:
			j.Result()[i] = math.NaN()
		case 1:
			j.Result()[i] += 1e-7 * (1 + math.Abs(good[i]))
		case 2:
			i -= i % 200
			clear(j.Result()[max(i, landscape.Angles) : i+200])
		case 3: // a row that was not turned
			i -= i % landscape.Angles
			for k := range landscape.Angles {
				j.Result()[i+k] = j.Native()
			}
		}
		if err := j.Check(); !errors.Is(err, landscape.ErrWrong) {
			t.Errorf("fault %d in row %d, angle %d: the check says %v", n%4, i/landscape.Angles, i%landscape.Angles, err)
		}
		copy(j.Result(), good)
	}
}

func TestJobRejects(t *testing.T) {
	short := filepath.Join(t.TempDir(), "short.pdb")
	if err := os.WriteFile(short, []byte("ATOM      5  CA  GLY B   1       1.500  -2.500   3.500\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		config landscape.Config
		want   error
	}{
		{landscape.Config{Residues: 3}, workload.ErrConfig},
		{landscape.Config{Residues: -1}, workload.ErrConfig},
		{landscape.Config{Residues: 20_001}, workload.ErrConfig},
		{landscape.Config{Residues: 100, Structure: short}, workload.ErrConfig},
		{landscape.Config{Residues: 100, Select: protein.Select{Chain: "A"}}, workload.ErrConfig},
		{landscape.Config{Select: protein.Select{Chain: "B"}}, protein.ErrStructure},
		{landscape.Config{Structure: "no such file"}, fs.ErrNotExist},
		{landscape.Config{Structure: "job_test.go"}, protein.ErrStructure},
		{landscape.Config{Structure: short}, protein.ErrStructure},
	} {
		if _, err := landscape.New(c.config); !errors.Is(err, c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: error %v, want %v", c.config, err, c.want)
		}
	}
}
