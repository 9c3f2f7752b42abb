package elastic_test

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/protein/network"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/protein"
	"github.com/weft-run/weft/workload/protein/elastic"
)

// run runs and checks a job.
func run(t *testing.T, rt *weft.Runtime, c elastic.Config) *elastic.Job {
	t.Helper()
	j := workloadtest.New[*elastic.Job](t)(elastic.New(c))
	workloadtest.Run(t, rt, j)
	if err := j.Check(); err != nil {
		t.Fatalf("%s: %v", j.Name(), err)
	}
	return j
}

// Vectors are bitwise the same on any number of devices (class R), and right.
func TestJobOnDevices(t *testing.T) {
	for _, c := range []elastic.Config{
		{Structure: "1CRN", Network: elastic.Anisotropic, Steps: 30},
		{Residues: 130, Steps: 10},
	} {
		workloadtest.Invariant(t, elastic.Funcs(),
			func() (*elastic.Job, error) { return elastic.New(c) },
			func(j *elastic.Job) []byte {
				basis, squares, diagonal := j.Result()
				return workloadtest.Bytes(slices.Concat(basis, squares, diagonal))
			})
	}
}

// Modes are those that a loop on one core finds, and for ubiquitin ProDy's.
func TestJobModes(t *testing.T) {
	rt := workloadtest.Open(t, 2, elastic.Funcs())
	for _, c := range []struct {
		config elastic.Config
		first  float64 // by ProDy, zero where it was not asked
	}{
		{elastic.Config{Structure: "1UBI"}, 1.36924},
		{elastic.Config{Structure: "1UBI", Network: elastic.Anisotropic}, 0.033933},
		{elastic.Config{Structure: "1CRN", Modes: 1000}, 0},
		{elastic.Config{Structure: "BPTI", Modes: 3, Cutoff: 12, Seed: 7}, 0},
	} {
		j := run(t, rt, c.config)
		got, err := j.Modes()
		if err != nil {
			t.Fatal(err)
		}
		null := network.Uniform(j.Structure().Len())
		if c.config.Network == elastic.Anisotropic {
			if null, err = network.Rigid(j.Structure().Coordinates()); err != nil {
				t.Fatal(err)
			}
		}
		want, err := j.Matrix().Slowest(null, len(got.Values))
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range got.Values {
			along := 0.0
			for i, x := range got.Vectors[k] {
				along += x * want.Vectors[k][i]
			}
			if math.Abs(v-want.Values[k]) > 1e-9*v || math.Abs(math.Abs(along)-1) > 1e-7 {
				t.Errorf("%s: mode %d: eigenvalue %v, want %v; cosine %v", j.Name(), k, v, want.Values[k], along)
			}
		}
		if c.first != 0 && math.Abs(got.Values[0]-c.first) > 3e-5*c.first {
			t.Errorf("%s: the first eigenvalue is %v, ProDy's %v", j.Name(), got.Values[0], c.first)
		}
		t.Log(j.Summary())
	}
}

// All modes of equal eigenvalues are found, each from another vector: in a short helix every
// two residues are joined, and every eigenvalue is the number of residues.
func TestJobEqual(t *testing.T) {
	rt := workloadtest.Open(t, 2, elastic.Funcs())
	for _, n := range []int{4, 5, 7} {
		j := run(t, rt, elastic.Config{Residues: n})
		got, err := j.Modes()
		if err != nil || len(got.Values) != n-1 {
			t.Fatalf("%d residues: modes %v, error %v", n, got, err)
		}
		for k, v := range got.Values {
			if math.Abs(v-float64(n)) > 1e-12 {
				t.Errorf("%d residues: eigenvalue %d is %v", n, k, v)
			}
		}
	}
	// Too few steps find only some of six equal modes, and the check says that it cannot see the rest.
	few := run(t, rt, elastic.Config{Residues: 7, Steps: 4})
	if _, err := few.Modes(); !errors.Is(err, elastic.ErrUnfinished) {
		t.Errorf("seven residues in %s: error %v", few.Name(), err)
	}
	if missing := few.Misses()[1]; missing.Chance != 1 {
		t.Errorf("too few steps: %s has chance %v", missing.What, missing.Chance)
	}
	if missing := run(t, rt, elastic.Config{Residues: 7}).Misses()[1]; missing.Chance != 0 {
		t.Errorf("enough steps: %s has chance %v", missing.What, missing.Chance)
	}
	got, err := elastic.Of(t.Context(), rt, protein.Helix(7), elastic.Config{})
	if err != nil || len(got.Values) != 6 || math.Abs(got.Values[5]-7) > 1e-12 {
		t.Errorf("seven residues: modes %v, error %v", got, err)
	}
}

// A cutoff at which parts of a structure can move freely is an error of the caller, not a wrong
// result.
func TestJobLoose(t *testing.T) {
	rt := workloadtest.Open(t, 2, elastic.Funcs())
	j := run(t, rt, elastic.Config{Structure: "1CRN", Network: elastic.Anisotropic, Cutoff: 5})
	if err := j.Unfinished(); !errors.Is(err, workload.ErrConfig) || !strings.Contains(err.Error(), "raise the cutoff") {
		t.Error(err)
	}
}

// A run of too few steps says so, and what has converged is right.
func TestJobUnfinished(t *testing.T) {
	rt := workloadtest.Open(t, 2, elastic.Funcs())
	j := run(t, rt, elastic.Config{Structure: "1UBI", Network: elastic.Anisotropic, Steps: 20})
	got, err := j.Modes()
	if !errors.Is(err, elastic.ErrUnfinished) || got == nil {
		t.Errorf("modes %v, error %v", got, err)
	}
	if s := j.Summary(); !strings.Contains(s, "of 20 modes converged after 20; ") {
		t.Error(s)
	}
	if err := j.Unfinished(); !errors.Is(err, elastic.ErrUnfinished) {
		t.Errorf("unfinished is %v", err)
	}
	none := run(t, rt, elastic.Config{Structure: "1CRN", Steps: 3})
	const want = "elastic: too few steps: 0 of 20 modes converged after 3; 49 should do"
	if err := none.Unfinished(); err == nil || err.Error() != want || none.Summary() != want {
		t.Errorf("error %v, summary %q, want %q", err, none.Summary(), want)
	}
	if err := run(t, rt, elastic.Config{Structure: "1CRN", Steps: 49}).Unfinished(); err != nil {
		t.Errorf("with as many steps as should do: %v", err)
	}
}

// A runtime without the Go kernels is refused in the words of other calls, and so is no structure.
func TestOfRefuses(t *testing.T) {
	rt := workloadtest.Open(t, 1, nil)
	_, err := elastic.Of(t.Context(), rt, protein.Helix(8), elastic.Config{})
	if !errors.Is(err, weft.ErrNoFunc) || !strings.HasSuffix(err.Error(), "open the runtime with weft.Options{Funcs: elastic.Funcs()}") {
		t.Errorf("without kernels: error %v", err)
	}
	if _, err := elastic.Of(t.Context(), rt, nil, elastic.Config{}); !errors.Is(err, workload.ErrConfig) || !strings.Contains(err.Error(), "nil") {
		t.Errorf("without a structure: error %v", err)
	}
}

// Check notices a wrong number anywhere in a result.
func TestJobChecks(t *testing.T) {
	rt := workloadtest.Open(t, 2, elastic.Funcs())
	j := run(t, rt, elastic.Config{Structure: "1CRN"})
	if err := j.Check(); err != nil {
		t.Fatal(err)
	}
	basis, squares, diagonal := j.Result()
	for name, at := range map[string]*float64{
		"basis": &basis[len(basis)/2], "the last vector": &basis[16*46-16], "a rigid motion": &basis[3],
		"squares": &squares[10], "diagonal": &diagonal[3*44+2], "the first of the diagonal": &diagonal[0],
	} {
		for _, wrong := range []float64{math.NaN(), *at + 1e-6, -*at - 0.1} {
			good := *at
			*at = wrong
			if err := j.Check(); !errors.Is(err, elastic.ErrWrong) {
				t.Errorf("%s is %v for %v: the check says %v", name, wrong, good, err)
			}
			*at = good
		}
	}
}

func TestJobRejects(t *testing.T) {
	write := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	atoms := func(at ...string) (out string) {
		for i, xyz := range at {
			out += "ATOM  " + "    " + string(rune('1'+i)) + "  CA  ALA A   " + string(rune('1'+i)) + "    " + xyz + "\n"
		}
		return out
	}
	apart := write("apart.pdb", atoms("   0.000   0.000   0.000", "   3.800   0.000   0.000", "  50.000   0.000   0.000", "  53.800   0.000   0.000"))
	line := write("line.pdb", atoms("   0.000   0.000   0.000", "   3.800   0.000   0.000", "   7.600   0.000   0.000", "  11.400   0.000   0.000"))
	three := write("three.pdb", atoms("   0.000   0.000   0.000", "   3.800   0.000   0.000", "   7.600   1.000   0.000"))
	for _, c := range []struct {
		config elastic.Config
		want   error
	}{
		{elastic.Config{}, workload.ErrConfig},
		{elastic.Config{Structure: "1CRN", Residues: 10}, workload.ErrConfig},
		{elastic.Config{Residues: 3}, workload.ErrConfig},
		{elastic.Config{Residues: network.MaxBeads + 1}, workload.ErrConfig},
		{elastic.Config{Residues: 10, Network: "spring"}, workload.ErrConfig},
		{elastic.Config{Residues: 10, Cutoff: -1}, workload.ErrConfig},
		{elastic.Config{Residues: 10, Cutoff: math.NaN()}, workload.ErrConfig},
		{elastic.Config{Residues: 10, Modes: -1}, workload.ErrConfig},
		{elastic.Config{Residues: 10, Steps: -1}, workload.ErrConfig},
		{elastic.Config{Structure: "no such file"}, fs.ErrNotExist},
		{elastic.Config{Structure: "job_test.go"}, protein.ErrStructure},
		{elastic.Config{Structure: apart}, workload.ErrConfig},
		{elastic.Config{Structure: three}, workload.ErrConfig},
		{elastic.Config{Structure: line, Network: elastic.Anisotropic}, workload.ErrConfig},
	} {
		if _, err := elastic.New(c.config); !errors.Is(err, c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: error %v, want %v", c.config, err, c.want)
		}
	}
	// Two springs for each bead do not make a body of six.
	rt := workloadtest.Open(t, 1, elastic.Funcs())
	if _, err := elastic.Of(t.Context(), rt, protein.Helix(6), elastic.Config{Network: elastic.Anisotropic, Cutoff: 4}); !errors.Is(err, workload.ErrConfig) {
		t.Errorf("a network that is not rigid: error %v", err)
	}
}
