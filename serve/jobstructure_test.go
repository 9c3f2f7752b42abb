package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/internal/test/poll"
	"github.com/weft-run/weft/workload/protein"
)

// helixText is the text of a helix in the PDB format, with a line that each of its bytes may be in.
func helixText(residues int, remark string) string {
	b := bytes.NewBufferString(remark)
	for i, r := range protein.Helix(residues).Residues {
		fmt.Fprintf(b, "ATOM  %5d  CA  ALA %c%4d    %8.3f%8.3f%8.3f  1.00  0.00           C\n", (i+1)%100_000, 'A'+i/5000, i%5000+1, r.X+float64(100*(i/5000)), r.Y, r.Z-float64(7500*(i/5000)))
	}
	return b.String()
}

// withStructure is the request for a job.
func withStructure(workload, parameters, text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"workload":%q,"parameters":{%s},"structure_text":%s}`, workload, parameters, b.String())
}

// ended waits for the end of a job that was submitted, and returns it with its result.
func ended(t *testing.T, h http.Handler, body string, code int) (j api.Job, r api.JobResult) {
	t.Helper()
	w := ask(h, "POST", "/v1/jobs", body)
	if w.Code != code {
		t.Fatalf("%.300s: status %d: %.300s", body, w.Code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &j); err != nil {
		t.Fatal(err)
	}
	id := j.ID
	poll.True(t, "the job has ended", func() bool {
		if err := json.Unmarshal(ask(h, "GET", "/v1/jobs/"+id, "").Body.Bytes(), &j); err != nil {
			t.Fatal(err)
		}
		return j.Over()
	})
	if w := ask(h, "GET", "/v1/jobs/"+j.ID+"/result", ""); w.Code == 200 {
		if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
	}
	return j, r
}

// A job is of a structure that comes with weft, by its name, or of one whose text comes with the request, with the same
// result. Nobody is shown the text.
func TestJobStructure(t *testing.T) {
	rt, log := devices(t, "cpu"), &bytes.Buffer{}
	h, _, s := handlerOf(t, func(o *parts) { o.Runtime, o.Log = rt, slog.New(slog.NewTextHandler(log, nil)) })
	file, err := os.ReadFile("../workload/protein/testdata/1crn.pdb")
	if err != nil {
		t.Fatal(err)
	}
	text := "REMARK zebra\n" + string(file)
	for _, workload := range []string{"landscape", "elastic", "phase"} {
		_, named := ended(t, h, fmt.Sprintf(`{"workload":%q,"parameters":{"structure":"1crn"}}`, workload), 201)
		j, sent := ended(t, h, withStructure(workload, `"chain":"A"`, text), 201)
		if !named.Checked || !sent.Checked || !strings.Contains(named.Job, "1CRN") || !strings.Contains(sent.Job, "structure") || !strings.Contains(sent.Job, "46 residues") {
			t.Errorf("%s: %+v and %+v of %+v", workload, named, sent, j)
		}
		if named.Result != sent.Result || named.Tasks != sent.Tasks {
			t.Errorf("%s: %q in %d tasks of the name, %q in %d of the text", workload, named.Result, named.Tasks, sent.Result, sent.Tasks)
		}
		if j.StructureBytes != len(text) {
			t.Errorf("%s: %d bytes, of %d", workload, j.StructureBytes, len(text))
		}
	}
	shown := ask(h, "GET", "/v1/jobs", "").Body.String() + log.String()
	for _, e := range s.hub.kept {
		shown += string(e.data)
	}
	for _, word := range []string{"zebra", "ATOM", "structure_text"} {
		if strings.Contains(shown, word) {
			t.Errorf("%q is shown", word)
		}
	}
	if n := s.bodies.Load(); n != 0 {
		t.Errorf("%d bytes of memory count still", n)
	}
	if _, r := ended(t, h, `{"workload":"network","parameters":{"graph":"karate"}}`, 201); !r.Checked {
		t.Errorf("%+v", r)
	}
}

// No name of a file is one that a job may have, whether there is such a file or not.
func TestJobStructureNames(t *testing.T) {
	rt := devices(t, "cpu")
	h, _, _ := handlerOf(t, func(o *parts) { o.Runtime = rt })
	own := filepath.Join(t.TempDir(), "own.pdb")
	if err := os.WriteFile(own, []byte(helixText(20, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		own, "/etc/hosts", "/proc/self/environ", "/dev/stdin", "-", ".", "..", "../workload/protein/testdata/1crn.pdb", "./1CRN", "1CRN/", "1CRN.pdb", "testdata/1crn.pdb",
		"file://" + own, "http://127.0.0.1/1crn.pdb", "1CRN,BPTI", "1CRN," + own, "1CRN\x00", " 1CRN", "~/.ssh/id_rsa", `\\host\share`, "1ub\u0131", "$HOME", "karate.mtx",
	} {
		for _, of := range [][2]string{{"landscape", "structure"}, {"elastic", "structure"}, {"phase", "structure"}, {"network", "graph"}} {
			quoted, err := json.Marshal(name)
			if err != nil {
				t.Fatal(err)
			}
			w := ask(h, "POST", "/v1/jobs", fmt.Sprintf(`{"workload":%q,"parameters":{%q:%s}}`, of[0], of[1], quoted))
			if e := saidError(t, w); w.Code != 400 || !strings.Contains(e, "parameter "+of[1]+": unknown "+of[1]) {
				t.Errorf("%s %q: status %d: %s", of[0], name, w.Code, e)
			}
		}
	}
}

// A text that is no structure is refused when the job is submitted, in the words of the reader, and so is a structure that
// the workload does not take.
func TestJobStructureRefused(t *testing.T) {
	rt := devices(t, "cpu")
	h, _, s := handlerOf(t, func(o *parts) { o.Runtime = rt })
	atom := strings.SplitAfter(helixText(1, ""), "\n")[0]
	for _, text := range []string{
		" ", "no structure", "HEADER    A\n" + helixText(9, ""), atom + atom, strings.Repeat("x", 1<<17), "MODEL     1\n" + atom, "data_1\nloop_\n_atom_site.id\n", "\x1f\u008b",
		strings.Replace(helixText(9, ""), "   1.", "   q.", 1),
	} {
		_, want := protein.Read(strings.NewReader(text), protein.Select{})
		w := ask(h, "POST", "/v1/jobs", withStructure("phase", "", text))
		if e := saidError(t, w); want == nil || w.Code != 400 || e != want.Error() {
			t.Errorf("%.40q: status %d: %s, and the reader says %v", text, w.Code, e, want)
		}
	}
	huge := &strings.Builder{}
	huge.WriteString("data_1\nloop_\n_atom_site.label_atom_id\n_atom_site.label_comp_id\n_atom_site.label_asym_id\n_atom_site.label_seq_id\n_atom_site.Cartn_x\n_atom_site.Cartn_y\n_atom_site.Cartn_z\n")
	for i := range 100_001 {
		fmt.Fprintf(huge, "CA A A %d %d %d 0\n", i+1, 9*(i%1000), 9*(i/1000))
	}
	dense := &strings.Builder{}
	for i := range 1000 {
		fmt.Fprintf(dense, "ATOM  %5d  CA  ALA A%4d    %8.3f%8.3f%8.3f\n", i+1, i+1, 0.3*float64(i%10), 0.3*float64(i/10%10), 0.3*float64(i/100))
	}
	long := helixText(21_000, "")
	twoChains := helixText(9, "")
	for i, r := range protein.Helix(9).Residues {
		twoChains += fmt.Sprintf("ATOM  %5d  CA  ALA B%4d    %8.3f%8.3f%8.3f\n", i+10, i+1, r.X+30, r.Y, r.Z)
	}
	for _, c := range []struct{ workload, parameters, text, want string }{
		{"phase", "", dense.String(), "as no chain has"},
		{"fold", "", huge.String(), "it has 100001 residues, and 100000 are the most"},
		{"phase", `"chain":"B"`, helixText(9, ""), "chain"},
		{"phase", `"model":2`, helixText(9, ""), "model"},
		{"phase", `"structure":"1CRN"`, helixText(9, ""), "send one of them"},
		{"phase", `"residues":9`, helixText(9, ""), "name one of the two"},
		{"phase", "", helixText(1, ""), "phase: structure has 1 residues: not valid: there must be 2 to 20000"},
		{"phase", `"chain":"all"`, long, "there must be 2 to 20000"},
		{"elastic", "", helixText(3, ""), "it has 3 residues; there must be 4 to 20000"},
		{"elastic", `"chain":"all"`, long, "there must be 4 to 20000"},
		{"landscape", "", helixText(3, ""), "four or more beads"},
		{"landscape", `"chain":"all"`, twoChains, "2 chains"},
		{"gemm", "", helixText(9, ""), "a job of gemm is of no structure"},
		{"network", `"graph":"karate"`, helixText(9, ""), "a job of network is of no structure"},
		{"phase", "", strings.Repeat(" ", structureBytes+1), "structure_text has more than 8388608 bytes"},
	} {
		w := ask(h, "POST", "/v1/jobs", withStructure(c.workload, c.parameters, c.text))
		if e := saidError(t, w); w.Code != 400 || !strings.Contains(e, c.want) {
			t.Errorf("%s %s %.60q: status %d: %s", c.workload, c.parameters, c.text, w.Code, e)
		}
	}
	for body, want := range map[string]int{
		`{"workload":"phase","structure_text":7}`:                             400,
		`{"workload":"phase","structure_text":"` + strings.Repeat("x", 1<<24): 413,
	} {
		if w := ask(h, "POST", "/v1/jobs", body); w.Code != want {
			t.Errorf("%.60s: status %d: %s", body, w.Code, w.Body)
		}
	}
	if n := s.bodies.Load(); n != 0 {
		t.Errorf("%d bytes of memory count still", n)
	}
}

// The file of a job has room for the longest structure, of any bytes.
func TestJobStructureFile(t *testing.T) {
	id := strings.Repeat("a", 26)
	j := &job{structure: strings.Repeat("\xff\n<", structureBytes/3)}
	j.Job = api.Job{ID: id, State: api.JobQueued, JobRequest: api.JobRequest{Workload: "phase", Repeat: 1}, StructureBytes: len(j.structure)}
	file, err := encodeJob(j)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := decodeJob(id, file); err != nil || again.structure != j.structure || again.StructureBytes != len(j.structure) {
		t.Errorf("%v", err)
	}
	j.StructureBytes--
	if file, err = encodeJob(j); err != nil {
		t.Fatal(err)
	}
	if _, err := decodeJob(id, file); err == nil {
		t.Error("the file of a job whose structure has another size is taken")
	}
}

// The memory of a structure counts as that of bodies until its job has ended, also after a restart, and a structure
// of any bytes is there then.
func TestJobStructureKept(t *testing.T) {
	rt, dir := devices(t, "cpu"), filepath.Join(t.TempDir(), "state")
	open := func() (http.Handler, *Server) {
		h, _, s := handlerOf(t, func(o *parts) { o.Runtime, o.Config.State, o.Config.Listen = rt, dir, "127.0.0.1:0" })
		if err := s.jobs.restore(dir, s.plan); err != nil {
			t.Fatal(err)
		}
		s.countStructures()
		return h, s
	}
	h, s := open() // its jobs wait until resume is called
	s.jobs.closed, s.jobs.limits.Concurrent, s.jobs.running = false, 1, 1
	text := helixText(30, "REMARK \u0001<>&é\n")
	text += strings.Repeat("REMARK <<<<\n", 1<<16) // which takes more in JSON as Go writes it
	w := ask(h, "POST", "/v1/jobs", withStructure("elastic", "", text), "Idempotency-Key", "k")
	var j api.Job
	if err := json.Unmarshal(w.Body.Bytes(), &j); err != nil || w.Code != 201 {
		t.Fatalf("status %d, %v: %.300s", w.Code, err, w.Body)
	}
	if n := s.bodies.Load(); n < int64(len(text)) {
		t.Errorf("%d bytes count of %d", n, len(text))
	}
	if w := ask(h, "POST", "/v1/jobs", withStructure("elastic", "", text), "Idempotency-Key", "k"); w.Code != 200 {
		t.Errorf("the same again: status %d: %.300s", w.Code, w.Body)
	}
	if w := ask(h, "POST", "/v1/jobs", withStructure("elastic", "", text+"REMARK\n"), "Idempotency-Key", "k"); w.Code != 409 {
		t.Errorf("another: status %d: %.300s", w.Code, w.Body)
	}
	before := s.bodies.Load()
	if err := s.jobs.release(); err != nil {
		t.Fatal(err)
	}
	h, s = open()
	if n := s.bodies.Load(); n != before {
		t.Errorf("%d bytes count after a restart, and before it %d", n, before)
	}
	if len(s.jobs.queue) != 1 || s.jobs.queue[0].structure != text {
		t.Fatalf("%d jobs wait", len(s.jobs.queue))
	}
	s.jobs.resume()
	poll.True(t, "the job has ended", func() bool { now, err := s.jobs.get(j.ID); return err == nil && now.Over() })
	if w := ask(h, "GET", "/v1/jobs/"+j.ID+"/result", ""); w.Code != 200 || !strings.Contains(w.Body.String(), "30 residues") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	if n := s.bodies.Load(); n != 0 {
		t.Errorf("%d bytes count after the end", n)
	}
	if info, err := os.Stat(filepath.Join(dir, fileOf(j.ID))); err != nil || info.Size() > 1<<14 {
		t.Errorf("the structure is kept after the end: %v, %v", info.Size(), err)
	}
	if err := s.jobs.release(); err != nil {
		t.Error(err)
	}
}
