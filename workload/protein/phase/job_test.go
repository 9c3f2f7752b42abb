package phase_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/cmplx"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/protein"
	"github.com/weft-run/weft/workload/protein/phase"
)

// run runs and checks a job.
func run(t *testing.T, rt *weft.Runtime, c phase.Config) *phase.Job {
	t.Helper()
	j := workloadtest.New[*phase.Job](t)(phase.New(c))
	workloadtest.Run(t, rt, j)
	if err := j.Check(); err != nil {
		t.Fatalf("%s: %v", j.Name(), err)
	}
	return j
}

// parts returns the parts of complex numbers.
func parts(of []complex128) (out []float64) {
	for _, z := range of {
		out = append(out, real(z), imag(z))
	}
	return out
}

// States are bitwise the same on any number of devices (class R), and right.
func TestJobOnDevices(t *testing.T) {
	for _, c := range []phase.Config{{Structure: "1CRN", Time: 0.3}, {Residues: 9}} {
		workloadtest.Invariant(t, phase.Funcs(),
			func() (*phase.Job, error) { return phase.New(c) },
			func(j *phase.Job) []byte { return workloadtest.Bytes(parts(j.Result())) })
	}
}

// line is four alanines in a line.
func line() *protein.Structure {
	s := &protein.Structure{Name: "AAAA"}
	for i := range 4 {
		s.Residues = append(s.Residues, protein.Residue{Name: "ALA", Chain: "A", Number: i + 1, X: 3.8 * float64(i)})
	}
	return s
}

// States are those that an independent program computed.
func TestVectors(t *testing.T) {
	rt := workloadtest.Open(t, 2, phase.Funcs())
	states, err := phase.Of(t.Context(), rt, line(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := states[3], complex(0.5268014313, 0.5722589029); cmplx.Abs(got-want) > 1e-10 {
		t.Errorf("state 0, 3 of AAAA is %v, want %v", got, want)
	}
	for _, c := range []struct {
		time float64
		sum  complex128
		norm float64
	}{
		{0, complex(33.9396328606, 2.5151761862), 6.853830579},
		{0.3, complex(57.972707064093, 3.013344431164), 6.853976707414},
	} {
		j := run(t, rt, phase.Config{Structure: "1CRN", Time: c.time})
		var sum complex128
		squares := 0.0
		for _, z := range j.Result() {
			sum += z
			squares += real(z)*real(z) + imag(z)*imag(z)
		}
		if cmplx.Abs(sum-c.sum) > 1e-9 || math.Abs(math.Sqrt(squares)-c.norm) > 1e-9 {
			t.Errorf("1CRN at %v ps: sum %v, norm %v; want %v and %v", c.time, sum, math.Sqrt(squares), c.sum, c.norm)
		}
	}
}

// States are right with every kind of residue, where samples are taken, and where waves are so
// small that their squares would vanish.
func TestJobRight(t *testing.T) {
	rt := workloadtest.Open(t, 3, phase.Funcs())
	for _, c := range []phase.Config{{Structure: "1UBI", Time: 2}, {Structure: "BPTI", Time: 100}, {Residues: 2}, {Residues: 410, Time: 0.1}, {Residues: 1000}} {
		if c.Residues > 400 && testing.Short() {
			continue
		}
		run(t, rt, c)
	}
}

// chain writes a file with residues in a line, some angstrom apart, and returns its name.
func chain(t *testing.T, residues int, apart float64) string {
	t.Helper()
	text := "data_chain\nloop_\n_atom_site.label_atom_id\n_atom_site.label_comp_id\n_atom_site.auth_asym_id\n_atom_site.auth_seq_id\n_atom_site.Cartn_x\n_atom_site.Cartn_y\n_atom_site.Cartn_z\n"
	for i := range residues {
		text += fmt.Sprintf("CA ALA A %d %.3f %d 0\n", i+1, apart*float64(i), i%3)
	}
	name := filepath.Join(t.TempDir(), "chain.cif")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// States of residues are right however far they are apart: where waves end, where products do,
// and where nothing is left.
func TestFar(t *testing.T) {
	rt := workloadtest.Open(t, 2, phase.Funcs())
	for _, apart := range []float64{20, 29, 55, 90, 3000} {
		run(t, rt, phase.Config{Structure: chain(t, 100, apart), Time: 0.1})
	}
}

// States of a chain that has every pair of kinds of residues are right.
func TestAllResidues(t *testing.T) {
	s := &protein.Structure{Name: "all"}
	names := strings.Fields("ALA ARG ASN ASP CYS GLN GLU GLY HIS ILE LEU LYS MET PHE PRO SER THR TRP TYR VAL MSE")
	for i, r := range protein.Helix(2 * len(names)).Residues {
		r.Name = names[i%len(names)]
		s.Residues = append(s.Residues, r)
	}
	name := filepath.Join(t.TempDir(), "all.pdb")
	var text strings.Builder
	for i, r := range s.Residues {
		fmt.Fprintf(&text, "ATOM  %5d  CA  %3s A%4d    %8.3f%8.3f%8.3f  1.00  0.00           C\n", i+1, r.Name, i+1, r.X, r.Y, r.Z)
	}
	if err := os.WriteFile(name, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, workloadtest.Open(t, 2, phase.Funcs()), phase.Config{Structure: name, Time: 0.2})
}

// Check notices a wrong state anywhere.
func TestJobChecks(t *testing.T) {
	rt := workloadtest.Open(t, 2, phase.Funcs())
	j := run(t, rt, phase.Config{Structure: "1CRN"})
	if m := j.Misses(); m[0].Chance != 0 || m[1].Chance != 0 {
		t.Errorf("%v may be missed", m)
	}
	good := slices.Clone(j.Result())
	for at := 1; at < len(good); at += 97 {
		for n, wrong := range []complex128{cmplx.NaN(), good[at] * complex(1+1e-8, 0), good[at] * complex(1, 1e-8), cmplx.Conj(good[at]) + complex(0, 1e-9), 0} {
			if wrong == good[at] {
				continue
			}
			j.Result()[at] = wrong
			if err := j.Check(); !errors.Is(err, phase.ErrWrong) {
				t.Errorf("fault %d in state %d, %v: the check says %v", n, at, good[at], err)
			}
			j.Result()[at] = good[at]
		}
	}
}

func TestJobRejects(t *testing.T) {
	for _, c := range []struct {
		config phase.Config
		want   error
	}{
		{phase.Config{}, workload.ErrConfig},
		{phase.Config{Structure: "1CRN", Residues: 5}, workload.ErrConfig},
		{phase.Config{Residues: 1}, workload.ErrConfig},
		{phase.Config{Residues: 20_001}, workload.ErrConfig},
		{phase.Config{Residues: 5, Time: -1}, workload.ErrConfig},
		{phase.Config{Residues: 5, Time: math.NaN()}, workload.ErrConfig},
		{phase.Config{Residues: 5, Time: 1001}, workload.ErrConfig},
		{phase.Config{Structure: "no such file"}, fs.ErrNotExist},
		{phase.Config{Structure: "job_test.go"}, protein.ErrStructure},
	} {
		if _, err := phase.New(c.config); !errors.Is(err, c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: error %v, want %v", c.config, err, c.want)
		}
	}
	rt := workloadtest.Open(t, 1, phase.Funcs())
	far, same, one := line(), line(), line()
	far.Residues[2].Y, same.Residues[2], one.Residues = math.Inf(1), same.Residues[1], one.Residues[:1]
	for name, s := range map[string]*protein.Structure{"not finite": far, "two in one place": same, "one residue": one} {
		if _, err := phase.Of(t.Context(), rt, s, 0); !errors.Is(err, workload.ErrConfig) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
