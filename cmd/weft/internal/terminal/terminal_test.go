package terminal

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/machine"
)

func TestText(t *testing.T) {
	if got, want := Wrap("one two three four", 10), "one two\n  three\n  four"; got != want {
		t.Errorf("wrap: %q, want %q", got, want)
	}
	for d, want := range map[time.Duration]string{
		0: "0 ns", 999: "999 ns", 1500: "1.5 µs", 12_345_678: "12.3 ms", 90 * time.Second: "1.5 min",
	} {
		if got := Short(d); got != want {
			t.Errorf("Short(%d) = %q, want %q", d, got, want)
		}
	}
	for x, want := range map[float64]string{0: "-", 999: "999 B", 8e9: "8 GB", 15.11e12: "15.11 TB"} {
		if got := SI(x, "B"); got != want {
			t.Errorf("SI(%g) = %q, want %q", x, got, want)
		}
	}
	for p, want := range map[float64]string{0: "none", 1e-6: "at most 1e-06", 0.25: "at most 25 %", 0.99997: "100 %", 0.985: "98.5 %"} {
		if got := Chance(p); got != want {
			t.Errorf("a chance of %v is %q, want %q", p, got, want)
		}
	}
}

func TestBrokenInvariant(t *testing.T) {
	err := Abandonable(context.Background(), func() error { panic("engine: two owners") })
	if err == nil || !strings.HasPrefix(err.Error(), "internal error: engine: two owners; ") {
		t.Errorf("a panic became %v", err)
	}
}

func TestProgressLine(t *testing.T) {
	const sec = time.Second
	for _, c := range []struct {
		done, total int
		took, since time.Duration
		part        float64
		left        time.Duration
		want        string
	}{
		{0, 10, 0, 3 * sec, 0, -1, "conv  [....................] 0/10"},
		{0, 1, 0, 3 * sec, 0.25, 9 * sec, "conv  [#####...............] 0/1  about 9s left"},
		{0, 1, 0, time.Minute, 1, 0, "conv  [###################.] 0/1  about 0s left"},
		{0, 2, 0, 3 * sec, 0.25, 9 * sec, "conv  [##..................] 0/2  about 21s left"},
		{5, 10, 10 * sec, sec, 0, -1, "conv  [###########.........] 5/10  2 s a run  about 9s left"},
		{5, 10, 10 * sec, sec, 0.2, 3 * sec, "conv  [##########..........] 5/10  2 s a run  about 11s left"},
		{50, 100, 5 * sec, 0, 0, -1, "conv  [##########..........] 50/100  10 runs/s  about 5s left"},
		{10, 10, sec, time.Minute, 0, -1, "conv  [####################] 10/10  10 runs/s  about 0s left"},
	} {
		if got := progressLine(Width, "conv", "run", c.done, c.total, c.took, c.since, c.part, c.left); got != c.want {
			t.Errorf("%+v is\n%q, want\n%q", c, got, c.want)
		}
	}
	const text = "step 499000: Q 0.95 RMSD 12.3 best 10.1" // whole, in the place of the rate and a part of the bar
	want := text + "  [#########.] 499/500  about 1m15s left"
	if got := progressLine(Width, text, "frame", 499, 500, 499*sec, 0, 0.5, 75*sec); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for columns, want := range map[int]string{
		120: text + "  [###################.] 499/500  1 frames/s  about 1m15s left",
		60:  "step 499000: Q 0.95 RMSD…  [####.] 499/500  about 1m15s left",
		40:  "step 499000: … 499/500  about 1m15s left",
		30:  "step 499000: Q 0.95 R… 499/500",
		12:  "ste… 499/500",
	} {
		if got := progressLine(columns+1, text, "frame", 499, 500, 499*sec, 0, 0.5, 75*sec); got != want {
			t.Errorf("in %d columns: %q, want %q", columns, got, want)
		}
	}
	for columns := 1; columns < 200; columns++ {
		for _, what := range []string{"", "conv", text, strings.Repeat("é", 200)} {
			line := progressLine(columns, what, "simulation", 12345, 99999, time.Hour, 0, 0, -1)
			if n := utf8.RuneCountInString(line); n > max(columns-1, 1) {
				t.Errorf("%d columns of %d: %s", n, columns, line)
			}
		}
	}
	var p *Progress // of an output that is no terminal
	p.At("x")
	p.Within(0.5, time.Second)
	p.Add()
	p.Finish()
}

// A file keeps its content until it is replaced, and then has no rest of it.
func TestReplace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out")
	if err := os.WriteFile(file, []byte("what was there before"), 0o666); err != nil {
		t.Fatal(err)
	}
	var c cobra.Command
	f, err := OpenOutput(&c, file)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file); err != nil || len(got) == 0 {
		t.Errorf("opening left %q, %v", got, err)
	}
	err = f.Replace(func(w io.Writer) error {
		_, err := io.WriteString(w, "new")
		return err
	})
	if got, _ := os.ReadFile(file); err != nil || string(got) != "new" {
		t.Errorf("the file holds %q, %v", got, err)
	}
	if f, err = OpenOutput(&c, file); err != nil {
		t.Fatal(err)
	}
	if err := f.Replace(func(io.Writer) error { return io.ErrShortWrite }); !errors.Is(err, io.ErrShortWrite) || !strings.HasPrefix(err.Error(), file+": ") {
		t.Errorf("a failed write is %v", err)
	}
	if got, err := os.ReadFile(file); string(got) != "new" {
		t.Errorf("a failed write left %q, %v", got, err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if f, err = OpenOutput(&c, file); err != nil {
		t.Fatal(err)
	}
	if err := f.Replace(func(w io.Writer) error { _, _ = io.WriteString(w, "half"); return io.ErrShortWrite }); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("a failed write is %v", err)
	}
	if all, err := os.ReadDir(filepath.Dir(file)); err != nil || len(all) > 0 {
		t.Errorf("half a file was left behind: %v, %v", all, err)
	}
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if f, err = OpenOutput(&c, file); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	err = f.Replace(func(w io.Writer) error { _, err := io.WriteString(w, "again"); return err })
	if got, _ := os.ReadFile(file); err != nil || string(got) != "again" {
		t.Errorf("a file that was removed holds %q, %v", got, err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if f, err = OpenOutput(&c, file); err != nil {
		t.Fatal(err)
	}
	// As it is for a process that is killed now.
	if all, err := os.ReadDir(filepath.Dir(file)); err != nil || len(all) > 0 {
		t.Errorf("opening left %v, %v", all, err)
	}
	if err := errors.Join(f.Close(), f.Close()); err != nil {
		t.Error(err)
	}
	if _, err := OpenOutput(&c, filepath.Join(t.TempDir(), "no", "such", "folder")); err == nil || strings.Contains(err.Error(), "open ") {
		t.Errorf("a file in a folder that is not there is %v", err)
	}
	if _, err := OpenOutput(&c, t.TempDir()); !errors.As(err, new(text.Mistake)) || !strings.HasSuffix(err.Error(), " is a folder: name a file") {
		t.Errorf("a folder is %v", err)
	}
}

// What takes the place of a file has its permissions, and a link to it stays one.
func TestReplaceLink(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, []byte("old"), 0o640), os.Symlink("file", link)); err != nil {
		t.Fatal(err)
	}
	f, err := OpenOutput(&cobra.Command{}, link)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Replace(func(w io.Writer) error {
		_, err := io.WriteString(w, "new")
		if got, _ := os.ReadFile(file); string(got) != "old" {
			t.Errorf("while the output is written the file holds %q", got)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(file)
	if got, _ := os.ReadFile(link); err != nil || string(got) != "new" || info.Mode() != 0o640 {
		t.Errorf("the file holds %q, %v, %v", got, info.Mode(), err)
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 2 || all[1].Type() != fs.ModeSymlink {
		t.Errorf("the folder has %v, %v", all, err)
	}
}

// A link to a file that is not there has the file made, when the output is written. One whose name leaves no
// room for that of a temporary file is written all the same, and removed after an error.
func TestReplaceMissing(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file, link := filepath.Join(dir, strings.Repeat("x", 255)), filepath.Join(dir, "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for _, fail := range []error{io.ErrShortWrite, nil} {
		f, err := OpenOutput(&cobra.Command{}, link)
		if err != nil {
			t.Fatal(err)
		}
		if f.Path() != file {
			t.Errorf("the path is %s", f.Path())
		}
		if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
			t.Errorf("opening left %v, %v", all, err)
		}
		if err := f.Replace(func(w io.Writer) error { _, _ = io.WriteString(w, "new"); return fail }); !errors.Is(err, fail) {
			t.Errorf("%v, want %v", err, fail)
		}
		if got, err := os.ReadFile(file); (err == nil) != (fail == nil) || err == nil && string(got) != "new" {
			t.Errorf("after %v the file holds %q, %v", fail, got, err)
		}
	}
}

// Outputs are told apart from each other and from what is read, whatever names and links lead to them.
func TestDistinct(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.Symlink("new", "link"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("old", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		outputs, read []string
		same          bool
	}{
		{[]string{"new", "other"}, []string{"old", "gone"}, false},
		{[]string{"new", "./new"}, nil, true},
		{[]string{filepath.Join(dir, "new"), "new"}, nil, true},
		{[]string{"new", "link"}, nil, true},
		{[]string{"new", "old"}, []string{filepath.Join(dir, "old")}, true},
		{[]string{"new"}, []string{filepath.Join(dir, "new")}, true},
		{[]string{"-", "new", "-"}, nil, true},
		{[]string{os.DevNull, os.DevNull}, []string{os.DevNull}, false},
	} {
		var outputs []*Output
		for _, name := range c.outputs {
			o, err := OpenOutput(&cobra.Command{}, name)
			if err != nil {
				t.Fatal(err)
			}
			defer o.Close()
			outputs = append(outputs, o)
		}
		if err := Distinct(outputs, c.read...); (err != nil) != c.same {
			t.Errorf("%v with %v read: %v", c.outputs, c.read, err)
		}
	}
}

// The file "-" is standard output, and reports go to standard error then.
func TestOutputDash(t *testing.T) {
	t.Chdir(t.TempDir())
	var c cobra.Command
	var stdout, stderr bytes.Buffer
	c.SetOut(&stdout)
	c.SetErr(&stderr)
	f, err := OpenOutput(&c, "-")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Replace(func(w io.Writer) error { _, err := io.WriteString(w, "content"); return err }); err != nil {
		t.Error(err)
	}
	if err := Print(&c, false, nil, func(b *bytes.Buffer) error { b.WriteString("report"); return nil }); err != nil {
		t.Error(err)
	}
	if stdout.String() != "content" || stderr.String() != "report" {
		t.Errorf("standard output has %q, standard error %q", stdout.String(), stderr.String())
	}
	if names, err := os.ReadDir("."); err != nil || len(names) > 0 {
		t.Errorf("files were made: %v, %v", names, err)
	}
}

// A terminal that takes no control sequences is shown no progress.
func TestDumbTerminal(t *testing.T) {
	w, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0) // a character device, as terminals are
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	t.Setenv("TERM", "xterm")
	p := StartProgress(w, false, "run", 1)
	if p == nil && Interactive(w) {
		t.Error("no progress on a terminal")
	}
	p.Finish()
	t.Setenv("TERM", "dumb")
	if p := StartProgress(w, false, "run", 1); p != nil {
		p.Finish()
		t.Error("progress is shown on a terminal that takes no control sequences")
	}
}

// A report is the value as JSON, or its text; JSON that is encoded stays as it is.
func TestPrint(t *testing.T) {
	c := &cobra.Command{}
	var out bytes.Buffer
	c.SetOut(&out)
	text := func(b *bytes.Buffer) error { b.WriteString("text\n"); return nil }
	for _, p := range []struct {
		asJSON bool
		value  any
		want   string
	}{{false, 1, "text\n"}, {true, map[string]string{"a": "<b>"}, "{\n  \"a\": \"<b>\"\n}\n"}, {true, []byte("[1]\n"), "[1]\n"}} {
		out.Reset()
		if err := Print(c, p.asJSON, p.value, text); err != nil || out.String() != p.want {
			t.Errorf("%v is printed as %q, %v, want %q", p.value, out.String(), err, p.want)
		}
	}
	const evil = "a\x1b[2J\u009b\x7f\u200b\tb"
	for _, p := range []struct {
		asJSON bool
		want   string
	}{{false, "a?[2J???\tb\n"}, {true, `"a\u001b[2J\u009b\u007f` + "\u200b" + `\tb"` + "\n"}} {
		out.Reset()
		if err := Print(c, p.asJSON, evil, func(b *bytes.Buffer) error { b.WriteString(evil + "\n"); return nil }); err != nil || out.String() != p.want {
			t.Errorf("%q is printed as %q, %v, want %q", evil, out.String(), err, p.want)
		}
	}
	out.Reset()
	Table(&out, [][]any{{"x", "y"}, {"a\nb  1", 2}})
	if got, want := out.String(), "x        y\na; b  1  2\n"; got != want {
		t.Errorf("a cell of two lines is shown as %q, want %q", got, want)
	}
	if err := Print(c, true, math.NaN(), text); err == nil {
		t.Error("NaN was written as JSON")
	}
}

// Devices are shown by measured speed, the fastest first, and by score as long as one is
// not measured.
func TestMachineRanks(t *testing.T) {
	slow := machine.Device{Name: "vulkan:0", Backend: "vulkan", Kind: machine.Discrete, MemBytes: 8e9}
	fast := machine.Device{Name: "cpu:0", Backend: "cpu", ComputeUnits: 2}
	slow.Rates.Ops[graph.FP32], slow.Rates.MemoryBPS = 1e9, 1e9
	m := &machine.Machine{Name: "m", Devices: []machine.Device{slow, fast}}
	lines := func() []string {
		var b bytes.Buffer
		Machine(&b, m)
		_, table, _ := strings.Cut(b.String(), "\n\n")
		return strings.Split(table, "\n")
	}
	if got := lines(); !strings.HasSuffix(got[0], "score") || !strings.HasPrefix(got[1], "vulkan:0") {
		t.Errorf("not measured, devices are shown as\n%s", strings.Join(got, "\n"))
	}
	m.Devices[1].Rates.Ops[graph.FP32], m.Devices[1].Rates.MemoryBPS = 20e9, 20e9
	if got := lines(); !strings.HasSuffix(got[0], "speed") || !strings.HasPrefix(got[1], "cpu:0") || !strings.HasSuffix(got[1], "100 %") || !strings.HasSuffix(got[2], " 5 %") {
		t.Errorf("measured, devices are shown as\n%s", strings.Join(got, "\n"))
	}
}
