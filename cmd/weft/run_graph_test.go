package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weft-run/weft/cmd/weft/internal/workloads"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/signature"
	"github.com/weft-run/weft/model"
)

// adding is y += x for four numbers, by a Go function of the collective operations.
const adding = `{
  "data": [
    {"name": "x", "dtype": "float32", "shape": [4], "input": true},
    {"name": "y", "dtype": "float32", "shape": [2, 2], "input": true, "output": true},
    {"name": "raw", "bytes": 16, "output": true}
  ],
  "tasks": [
    {"name": "add", "kernel": "collective.sum.f32", "grid": 1, "args": [0, 1, 1], "ops": 4,
     "params": [{"int": [4, 2, 1, 0]}], "uses": [{"data": "x"}, {"data": "y", "access": "readwrite"}]},
    {"name": "copy", "kernel": "collective.sum.f32", "grid": 1,
     "params": [{"int": [4, 1, 1, 0]}], "uses": [{"data": "y"}, {"data": "raw", "access": "write"}]}
  ]
}`

// quick are settings with which nothing is measured.
const quick = " --devices cpu/2 --calibrate off --cache-dir off"

// addingFiles writes the graph and files for it into a folder, which becomes the current
// one.
func addingFiles(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	file := func(name string, data []byte) {
		if err := os.WriteFile(name, data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	array := func(e graph.Elem, bytes []byte, shape ...int64) []byte {
		return npyOf(t, &model.Array{Elem: e, Shape: shape, Bytes: bytes})
	}
	ones := bytes.Repeat([]byte{0, 0, 128, 63}, 4)
	file("add.json", []byte(adding))
	file("x.npy", array(graph.F4, ones, 4))
	file("x.bin", ones)
	file("y.npy", array(graph.F4, make([]byte, 16), 2, 2))
	file("flat.npy", array(graph.F4, make([]byte, 16), 4))
	file("short.npy", array(graph.F4, make([]byte, 12), 3))
	file("short.bin", make([]byte, 12))
	file("double.npy", array(graph.F8, make([]byte, 16), 2))
	file("fortran.npy", bytes.Replace(array(graph.F4, ones, 4), []byte("False"), []byte("True "), 1))
	file("big.npy", bytes.Replace(array(graph.F4, ones, 4), []byte("<f4"), []byte(">f4"), 1))
	file("pickle.npy", bytes.Replace(array(graph.F4, ones, 4), []byte("'<f4'"), []byte("'|O' "), 1))
	file("large.bin", make([]byte, 20000))
}

func npyOf(t *testing.T, a *model.Array) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := a.WriteNPY(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// numbers reads an array from a file in NumPy's format.
func numbers(t *testing.T, file string) ([]float32, []int64) {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	a, err := model.ParseNPY(src)
	if err != nil {
		t.Fatal(err)
	}
	xs, err := model.Values[float32](a)
	if err != nil {
		t.Fatal(err)
	}
	return xs, a.Shape
}

// A graph's inputs come from files and its outputs go to files, and every run begins with
// the same inputs.
func TestRunGraph(t *testing.T) {
	addingFiles(t)
	text := works(t, strings.Fields("run add.json --bind x=x.npy --bind y=y.npy --out y=out.npy --out raw=raw.bin --repeat 3 --trace trace.json"+quick)...)
	for _, want := range []string{"add.json on 2 devices\n", "\n3 ", "OP/s", "Written: out.npy, raw.bin.\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report does not say %q:\n%s", want, text)
		}
	}
	y, shape := numbers(t, "out.npy")
	if !slices.Equal(y, []float32{1, 1, 1, 1}) || !slices.Equal(shape, []int64{2, 2}) {
		t.Errorf("y is %v in the shape %v", y, shape)
	}
	if raw, err := os.ReadFile("raw.bin"); err != nil || !bytes.Equal(raw, bytes.Repeat([]byte{0, 0, 128, 63}, 4)) {
		t.Errorf("raw is %v, %v", raw, err)
	}
	if got, err := os.ReadFile("trace.json"); err != nil || !json.Valid(got) || !bytes.Contains(got, []byte("collective.sum.f32")) {
		t.Errorf("the trace names no kernel: %v", err)
	}
	text = works(t, strings.Fields("run ./add.json --bind x=x.bin --bind y=out.npy --out y=out.npy --json --explain"+quick)...)
	var rep liveReport
	if err := json.Unmarshal([]byte(text), &rep); err != nil {
		t.Fatal(err)
	}
	if len(rep.Runs) != 1 || rep.Class != "" || !slices.Equal(rep.Files, []string{"out.npy"}) || rep.Explain == nil || len(rep.Explain.Tasks) == 0 {
		t.Errorf("the report is %s", text)
	}
	if y, _ := numbers(t, "out.npy"); !slices.Equal(y, []float32{2, 2, 2, 2}) {
		t.Errorf("a file that is read and written has %v", y)
	}
	if left, _ := filepath.Glob("*.tmp"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A mistake is told in one line, by status 2, and leaves outputs as they were.
func TestRunGraphMistakes(t *testing.T) {
	addingFiles(t)
	if err := os.Mkdir("folder.npy", 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(".", "link"); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"out.npy": "what was there", "broken.json": "{\"data\": [\n{\"name\": 3}]}", "none.json": "{}",
		"gone.json":   strings.Replace(adding, "collective.sum.f32", "collective.sum.f23", 1),
		"astray.json": strings.Replace(adding, `"tasks"`, `"kernels": [{"name": "collective.sum.f32", "impls": [{"file": "../k.spv"}]}], "tasks"`, 1),
	} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	const both = "add.json --bind x=x.npy --bind y=y.npy"
	for args, want := range map[string]string{
		"add.json":                                                "inputs without a file: x float32 [4], y float32 [2 2]; give --bind NAME=FILE for each",
		"add.json --bind y=y.npy":                                 "inputs without a file: x float32 [4]; give --bind NAME=FILE for each",
		both + " --bind z=x.npy":                                  `--bind z=x.npy: unknown input or output "z"; did you mean x?`,
		both + " --bind x=x.bin":                                  "--bind x=x.bin: x has a file already: x.npy",
		both + " --bind x":                                        `--bind "x": it must be a name and a file, as in x=x.npy`,
		both + " --bind raw=x.bin":                                "--bind raw=x.bin: raw is an output; --out raw=FILE writes it",
		both + " --out x=out.npy":                                 "--out x=out.npy: x is an input and no output",
		both + " --out w=out.npy":                                 `--out w=out.npy: unknown input or output "w"; did you mean x?`,
		both + " --out y=out.txt":                                 "--out y=out.txt: the file must end in .npy, for NumPy's format, or in .bin, for the elements alone",
		both + " --out raw=raw.npy":                               "--out raw=raw.npy: the graph states no dtype of raw, which NumPy's format needs; state it, or write a .bin file",
		both + " --out y=out.bin --out raw=./out.bin":             "--out raw=./out.bin: y is written there already",
		both + " --out y=out.bin --out raw=link/out.bin":          "--out raw=link/out.bin: y is written there already",
		both + " --out y=nowhere/out.npy":                         "nowhere/out.npy: no such file or directory",
		both + " --out y=folder.npy":                              "folder.npy is a folder: name a file",
		both + " --repeat 0":                                      "--repeat 0: run at least once",
		both + " more":                                            `run takes one graph; "more" is too much`,
		"add.json --bind y=y.npy --bind x=gone.npy":               "gone.npy: no such file or directory",
		"add.json --bind y=y.npy --bind x=add.json":               "add.json: arrays are in files that end in .npy, NumPy's format, or .bin, the elements alone",
		"add.json --bind y=y.npy --bind x=folder.npy":             "folder.npy: is a directory",
		"add.json --bind y=flat.npy --bind x=x.npy":               `flat.npy: it has the shape [4], and data "y" takes [2 2]`,
		"add.json --bind y=y.npy --bind x=short.npy":              `short.npy: it has the shape [3], and data "x" takes [4]`,
		"add.json --bind y=y.npy --bind x=short.bin":              `short.bin: it has 12 bytes, and data "x" takes 16`,
		"add.json --bind y=y.npy --bind x=large.bin":              "large.bin: too large: 20000 bytes, and 10028 are the most",
		"add.json --bind y=y.npy --bind x=double.npy":             `double.npy: it holds float64, and data "x" takes float32`,
		"add.json --bind y=y.npy --bind x=fortran.npy":            "fortran.npy: bad array: it is in Fortran order; save numpy.ascontiguousarray(x)",
		"add.json --bind y=y.npy --bind x=big.npy":                `big.npy: bad array: it is big-endian; save x.astype("<f4")`,
		"add.json --bind y=y.npy --bind x=pickle.npy":             "pickle.npy: bad array: it holds Python objects, pickled, which are not read; save numbers",
		"nowhere/add.json":                                        "nowhere: file does not exist",
		"broken.json":                                             "broken.json:2: name must be text, not 3",
		"none.json":                                               "none.json: the graph has no tasks: nothing to run",
		"astray.json":                                             `astray.json: kernel "collective.sum.f32": "../k.spv" is no path below the model's folder; write it with slashes, without .. and a slash in front`,
		"gone.json --bind x=x.npy --bind y=y.npy --out y=out.npy": `did you mean "collective.sum.f32"?`,
	} {
		code, stdout, stderr := runWeft(append([]string{"run"}, strings.Fields(args+quick)...)...)
		if code != exitUsage || stdout != "" || !strings.HasSuffix(stderr, want+"\n") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("weft run %s: status %d, %q\n%swant %s", args, code, stdout, stderr, want)
		}
	}
	if old, err := os.ReadFile("out.npy"); err != nil || string(old) != "what was there" {
		t.Errorf("out.npy has %q, %v", old, err)
	}
	if left, _ := filepath.Glob("*.tmp"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A run that is interrupted, and one that no device can do, write nothing.
func TestRunGraphUndone(t *testing.T) {
	addingFiles(t)
	if err := os.WriteFile("spirv.json", []byte(strings.Replace(adding, `"tasks"`, `"kernels": [{"name": "collective.sum.f32", "impls": [{"file": "k.spv"}]}], "tasks"`, 1)), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("k.spv", []byte("code"), 0o666); err != nil {
		t.Fatal(err)
	}
	const files = " --bind x=x.npy --bind y=y.npy --out y=out.npy"
	code, _, stderr := runWeft(strings.Fields("run spirv.json" + files + quick)...)
	if code != exitFailure || !strings.Contains(stderr, `kernel "collective.sum.f32" has code in spirv; cpu devices run go`) {
		t.Errorf("status %d, %s", code, stderr)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var stdout, errs bytes.Buffer
	if code := run(ctx, strings.Fields("run add.json"+files+quick), &stdout, &errs); code != exitInterrupted {
		t.Errorf("status %d, %s", code, errs.String())
	}
	if left, _ := filepath.Glob("out.npy*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Parameters that do not fit the buffers of a Go function fail its task, in one line.
func TestRunGraphBadParams(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("a.bin", make([]byte, 16), 0o666); err != nil {
		t.Fatal(err)
	}
	for kernel, params := range map[string]string{
		"gemm.rows": "10000, 10000, 10000", "gemm.packed": "10000, 10000, 10000", "tropical.rows": "10000, 10000, 10000",
		"conv.images": "1, 1, 1000, 1000, 1, 3, 3, 1, 1", "collective.sum.f32": "100000, 2, 1, 0", "collective.max.f64": "4, 9, 1, 0",
		"merkle.root": "7", "reduce.sum": "100000", "gemm.pack": "4",
	} {
		src := `{"data": [{"name": "a", "bytes": 16, "input": true}, {"name": "b", "bytes": 16, "output": true}, {"name": "c", "bytes": 16, "output": true}],
			"tasks": [{"kernel": "` + kernel + `", "grid": 4, "retries": -1, "params": [{"int": [` + params + `]}],
			"uses": [{"data": "a"}, {"data": "b", "access": "write"}, {"data": "c", "access": "write"}]}]}`
		if err := os.WriteFile("g.json", []byte(src), 0o666); err != nil {
			t.Fatal(err)
		}
		code, _, stderr := runWeft(strings.Fields("run g.json --bind a=a.bin --out b=b.bin" + quick)...)
		if code != exitFailure || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, `weft: g.json: task "task 0" on cpu:`) {
			t.Errorf("%s: status %d, %s", kernel, code, stderr)
		}
	}
	if left, _ := filepath.Glob("b.bin*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A message names the device, the kernel and the task once each, and speaks to who wrote the
// file.
func TestRunGraphWords(t *testing.T) {
	t.Chdir(t.TempDir())
	for kernel, want := range map[string]string{
		"gemm.rows":        `weft: g.json: task "task 0" on cpu:0: kernel "gemm.rows": kernel cannot run: the parameters need 10000 of float32 in a, argument 0, which has 4; 1 task unfinished: task 0` + "\n",
		"quite.unlike":     `weft: g.json: prepare: no device can run it: kernel "quite.unlike": no Go function is registered for it: "quite.unlike"; weft kernels lists those there are` + "\n",
		"tropical.packedd": `weft: g.json: prepare: no device can run it: kernel "tropical.packedd": no Go function is registered for it: "tropical.packedd"; did you mean "tropical.packed"?` + "\n",
	} {
		src := `{"data": [{"name": "a", "bytes": 16, "input": true}, {"name": "b", "bytes": 16, "output": true}, {"name": "c", "bytes": 16, "output": true}],
			"tasks": [{"kernel": "` + kernel + `", "grid": 4, "retries": -1, "params": [{"int": [100, 100, 100]}],
			"uses": [{"data": "a"}, {"data": "b", "access": "write"}, {"data": "c", "access": "write"}]}]}`
		if err := errors.Join(os.WriteFile("g.json", []byte(src), 0o666), os.WriteFile("a.bin", make([]byte, 16), 0o666)); err != nil {
			t.Fatal(err)
		}
		if _, _, stderr := runWeft(strings.Fields("run g.json --bind a=a.bin --devices cpu --calibrate off --cache-dir off")...); stderr != want {
			t.Errorf("got:  %swant: %s", stderr, want)
		}
	}
}

// What a link leads to is replaced, and the link stays.
func TestRunGraphLink(t *testing.T) {
	addingFiles(t)
	if err := os.WriteFile("data", []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("data", "link.npy"); err != nil {
		t.Skip(err)
	}
	works(t, strings.Fields("run add.json --bind x=x.npy --bind y=y.npy --out y=link.npy"+quick)...)
	if info, err := os.Lstat("link.npy"); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v", err)
	}
	if y, _ := numbers(t, "link.npy"); !slices.Equal(y, []float32{1, 1, 1, 1}) {
		t.Errorf("y is %v", y)
	}
}

// What a graph computes is shown where it goes to no file, and nothing of it in JSON.
func TestRunGraphShowsOutputs(t *testing.T) {
	addingFiles(t)
	const bind = "run add.json --bind x=x.npy --bind y=y.npy"
	out := works(t, strings.Fields(bind+quick)...)
	for _, want := range []string{
		"Output y float32 [2 2]: 1 1 1 1\n", "Output raw 16 bytes: 00 00 80 3f 00 00 80 3f …\n", "--out NAME=FILE writes an output to a file",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	out = works(t, strings.Fields(bind+" --out y=out.npy"+quick)...)
	if strings.Contains(out, "Output y") || !strings.Contains(out, "Output raw") || !strings.Contains(out, "Written: out.npy.") {
		t.Errorf("with one file:\n%s", out)
	}
	out = works(t, strings.Fields(bind+" --json"+quick)...)
	if strings.Contains(out, "Output") || !json.Valid([]byte(out)) {
		t.Errorf("in JSON:\n%s", out)
	}
}

// The first elements of every type are written as numbers.
func TestFirstValues(t *testing.T) {
	for elem, want := range map[graph.Elem]string{
		graph.F2: "1", graph.F4: "1.875", graph.F8: "1", graph.I1: "-1", graph.I2: "-2", graph.I4: "-3", graph.I8: "-4",
		graph.U1: "255", graph.U2: "65534", graph.U4: "4294967293", graph.U8: "18446744073709551612", graph.B1: "true", "": "ff",
	} {
		bytes := map[graph.Elem][]byte{
			graph.F2: {0, 0x3c}, graph.F4: {0, 0, 0xf0, 0x3f}, graph.F8: {0, 0, 0, 0, 0, 0, 0xf0, 0x3f}, graph.I1: {0xff}, graph.I2: {0xfe, 0xff},
			graph.I4: {0xfd, 0xff, 0xff, 0xff}, graph.I8: {0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
			graph.U1: {0xff}, graph.U2: {0xfe, 0xff}, graph.U4: {0xfd, 0xff, 0xff, 0xff}, graph.U8: {0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
			graph.B1: {1}, "": {0xff},
		}[elem]
		if got := firstValues(&model.Array{Elem: elem, Bytes: bytes}); got != want {
			t.Errorf("%s: %q, want %q", elem, got, want)
		}
	}
}

// Every Go function for graphs can be looked up, and the task that is shown for one is one
// that graphs take.
func TestKernels(t *testing.T) {
	list := works(t, "kernels")
	for _, k := range workloads.Kernels() {
		if !strings.Contains(list, k.Name+" ") {
			t.Errorf("%s is not listed", k.Name)
		}
		one := works(t, "kernels", k.Name)
		_, file, _ := strings.Cut(one, "field:\n")
		params := make([]string, 0, 2*len(k.Params))
		slices.SortStableFunc(k.Params, func(a, b signature.Param) int { return len(b.Name) - len(a.Name) })
		for _, p := range k.Params {
			params = append(params, p.Name, "1")
		}
		before, after, _ := strings.Cut(file, `"params"`)
		numbers, after, _ := strings.Cut(after, `"uses"`)
		numbers = strings.NewReplacer(params...).Replace(strings.NewReplacer(`"int"`, "§", `"float32"`, "¤", `"float64"`, "¶", `"uint32"`, "¢").Replace(numbers))
		numbers = strings.NewReplacer("§", `"int"`, "¤", `"float32"`, "¶", `"float64"`, "¢", `"uint32"`).Replace(numbers)
		head, grid, _ := strings.Cut(before, `"grid": [`)
		_, grid, _ = strings.Cut(grid, "]")
		src := `{"data": [` + "\n"
		for i := range k.Args {
			src += fmt.Sprintf(`{"name": "d%d", "bytes": 64, "input": true, "output": true},`, i)
			after = strings.Replace(after, `"NAME"`, fmt.Sprintf(`"d%d"`, i), 1)
		}
		after = strings.ReplaceAll(after, `"write"`, `"readwrite"`)
		src = strings.TrimSuffix(src, ",") + "],\n" + head + `"grid": [1]` + strings.ReplaceAll(grid, "BYTES", "64") + `"params"` + numbers + `"uses"` + after + "}"
		g, err := graph.Decode([]byte(src), nil)
		if err != nil {
			t.Errorf("%s: %v in\n%s", k.Name, err, src)
		} else if im := g.Kernels()[0].Impls[0]; im.Entry != k.Name || !slices.Equal(im.Per[:len(k.Per)], k.Per) {
			t.Errorf("%s: the implementation is %+v", k.Name, im)
		}
		var row kernelRow
		if err := json.Unmarshal([]byte(works(t, "kernels", k.Name, "--json")), &row); err != nil || row.Name != k.Name || len(row.Uses) != len(k.Args) {
			t.Errorf("%s in JSON: %+v, %v", k.Name, row, err)
		}
	}
	if code, _, stderr := runWeft("kernels", "conv.image"); code != exitUsage || !strings.Contains(stderr, "did you mean conv.images?") {
		t.Errorf("status %d, %s", code, stderr)
	}
}
