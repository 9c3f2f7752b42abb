package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weft-run/weft/workload/protein"
)

// foldPageOf runs a short folding and returns its page, what is drawn on it and the report.
func foldPageOf(t *testing.T, more ...string) (page string, data foldPage, rep foldReport) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fold.html")
	if err := json.Unmarshal([]byte(works(t, foldArgs(append(more, "--json", "--html", file)...)...)), &rep); err != nil {
		t.Fatal(err)
	}
	if len(rep.Files) != 1 || rep.Files[0] != file {
		t.Errorf("files %v", rep.Files)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	page = string(b)
	m := regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`).FindStringSubmatch(page)
	if m == nil {
		t.Fatal("no data in the page")
	}
	if err := json.Unmarshal([]byte(m[1]), &data); err != nil {
		t.Fatal(err)
	}
	return page, data, rep
}

// The page of a folding has every part, its data are those of the report, and it asks
// nothing of the network.
func TestFoldPage(t *testing.T) {
	page, d, rep := foldPageOf(t, "--temperature", "0.6-1.1", "--frame", "50")
	for _, part := range []string{"traces", "map", "profile", "heat", "rmsd", "q", "walk"} {
		if !strings.Contains(page, `<figure class="card" id="`+part+`">`) || !regexp.MustCompile(`(plot|canvas)\("`+part+`"`).MatchString(page) {
			t.Errorf("no figure %s", part)
		}
	}
	text := strings.ReplaceAll(page, `"http://www.w3.org/2000/svg"`, "")
	for _, no := range []string{"://", "src=", "href=", "@import", "url(", "fetch(", "XMLHttp"} {
		if strings.Contains(text, no) {
			t.Errorf("the page has %s", no)
		}
	}
	if !strings.Contains(page, rep.Job) || !strings.Contains(page, "it predicts none") || !strings.Contains(page, "default-src &#39;none&#39;") && !strings.Contains(page, "default-src 'none'") {
		t.Error("the page does not say what it shows, or may load things")
	}
	frames := 3000 / 50
	if d.Structure != "1CRN" || len(d.Residues) != 46 || len(d.Steps) != frames || d.Steps[frames-1] != 3000 || len(d.Replicas) != 10 || len(d.Temperatures) != 10 || d.Ends[0] != 46 {
		t.Errorf("%s, %d residues, %d frames, %d replicas", d.Structure, len(d.Residues), len(d.Steps), len(d.Replicas))
	}
	near := func(what string, got, want float64) {
		if !(math.Abs(got-want) < 1e-3) {
			t.Errorf("%s %v, want %v", what, got, want)
		}
	}
	for k, r := range d.Replicas {
		last, row := len(r.Q)-1, rep.Replicas[k]
		near("last Q", r.Q[last], row.Q)
		near("last RMSD", r.RMSD[last], row.RMSD)
		near("last temperature", r.Temperature[last], row.Temperature)
		near("first temperature", r.Temperature[0], d.Temperatures[k])
	}
	near("RMSD of the best trace", protein.RMSD(d.Best, d.Native), rep.Best.RMSD)
	near("RMSD of the best frame", d.BestFrame.RMSD, rep.Best.RMSD)
	s, err := protein.Open("1CRN", protein.Select{})
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range s.Coordinates() {
		near("native coordinate", d.Native[i], v)
	}
	native := 0
	for _, c := range d.Contacts {
		if c.Native {
			native++
		}
		if c.Share < 0 || c.Share > 1 || c.I >= c.J {
			t.Errorf("contact %+v", c)
		}
	}
	if native != 89 {
		t.Errorf("%d native contacts", native)
	}
	if d.Heat == nil || d.Heat.Melting != rep.Heat.Melting || d.Heat.Discarded != d.Discarded || len(d.Profiles) < 2 {
		t.Errorf("heat %v, %d profiles", d.Heat, len(d.Profiles))
	}
	if rep.Folded != 0 || d.Folded != 0 || len(d.Profiles) != 2 || strings.Contains(page, "temperature where the chain melts") {
		t.Errorf("%d replicas folded, %d on the page, and it says where the chain melts", rep.Folded, d.Folded)
	}
	for _, p := range d.Profiles {
		if len(p.Q) == 0 || len(p.Q) != len(p.Free) {
			t.Errorf("profile %+v", p)
		}
	}
}

// Of many frames and replicas a page has some, names are escaped, and one temperature has no
// heat capacity.
func TestFoldPageBounds(t *testing.T) {
	b, err := os.ReadFile("../../workload/protein/testdata/1crn.pdb")
	if err != nil {
		t.Fatal(err)
	}
	b = b[:bytes.Index(b, []byte(" ALA A  24 "))] // half of it is enough
	b = append(b[:bytes.LastIndexByte(b, '\n')+1:len(b)], "END\n"...)
	file := filepath.Join(t.TempDir(), "a<script>alert(1)<.pdb")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	page, d, rep := foldPageOf(t, "--structure", file, "--steps", "1300", "--frame", "1", "--replicas", "66", "--check=false")
	if strings.Contains(page, "<script>alert") {
		t.Error("a name is not escaped")
	}
	if len(d.Steps) != 434 || d.Steps[1] != 4 || len(d.Replicas) != pageReplicas || len(rep.Replicas) != 66 || !strings.Contains(page, "first 64 of 66 replicas") {
		t.Errorf("%d frames, %d replicas", len(d.Steps), len(d.Replicas))
	}
	if d.Heat != nil || len(d.Profiles) != 1 {
		t.Errorf("heat %v, %d profiles", d.Heat, len(d.Profiles))
	}
}
