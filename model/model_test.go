package model

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"go.uber.org/goleak"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/workload/conv"
)

func TestMain(m *testing.M) {
	weft.Worker()
	goleak.VerifyTestMain(m)
}

// scale is y = w·x with a number w for each element.
func scale(c *weft.Call, lo, hi int) {
	x, w, y := weft.View[float32](c.Args[0]), weft.View[float32](c.Args[1]), weft.View[float32](c.Args[2])
	for i := lo; i < hi; i++ {
		y[i] = w[i] * x[i]
	}
}

func runtime(t testing.TB, funcs map[string]weft.Func) *weft.Runtime {
	t.Helper()
	rt, err := weft.Open(t.Context(), weft.Options{Devices: "cpu/2", NoCalibrate: true, CacheDir: "off", Funcs: funcs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rt.Close() })
	return rt
}

// scaling is a model of four elements.
const scaling = `{
  "data": [
    {"name": "x", "dtype": "float32", "shape": [2, 2], "input": true},
    {"name": "w", "dtype": "float32", "shape": [4], "weights": "w/w.npy"},
    {"name": "y", "dtype": "float32", "shape": [2, 2], "output": true}
  ],
  "kernels": [{"name": "scale", "impls": [{"dialect": "go", "entry": "scale"}, {"file": "scale.cu", "entry": "scale"}]}],
  "tasks": [{"kernel": "scale", "grid": 4, "uses": [{"data": "x"}, {"data": "w"}, {"data": "y", "access": "write"}]}]
}`

// floats are the bytes of numbers.
func floats(xs ...float32) []byte {
	b := make([]byte, 4*len(xs))
	copy(weft.View[float32](b), xs)
	return b
}

// scalingFiles are those of the model.
func scalingFiles() fstest.MapFS {
	return fstest.MapFS{
		"m.json":   {Data: []byte(scaling)},
		"scale.cu": {Data: []byte("extern \"C\" __global__ void scale() {}")},
		"w/w.npy":  {Data: npy(1, dict("'<f4'", "False", "(4,)"), floats(1, 10, 100, 1000))},
	}
}

func TestLoad(t *testing.T) {
	m, err := Load(scalingFiles(), "m.json", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(m.Ports()); got != "[x float32 [2 2] y float32 [2 2]]" {
		t.Errorf("ports %s", got)
	}
	im := m.Graph().Kernels()[0].Impls[1]
	if im.Dialect != graph.CUDAC || im.File != "" || !strings.Contains(string(im.Source), "__global__") {
		t.Errorf("implementation %+v", im)
	}
	rt := runtime(t, map[string]weft.Func{"scale": scale})
	p, err := m.Prepare(rt)
	if err != nil {
		t.Fatal(err)
	}
	x, y := []float32{1, 2, 3, 4}, make([]float32, 4)
	if _, err := p.Run(t.Context(), Bind("x", x), Bind("y", y)); err != nil || !slices.Equal(y, []float32{1, 20, 300, 4000}) {
		t.Errorf("%v, %v", y, err)
	}
	a, err := ParseNPY(npy(1, dict("'<f4'", "False", "(2, 2)"), floats(4, 3, 2, 1)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Run(t.Context(), a.As("x"), Bind("y", y)); err != nil || !slices.Equal(y, []float32{4, 30, 200, 1000}) {
		t.Errorf("%v, %v", y, err)
	}
	if q, err := p.Predict(t.Context()); err != nil || q.Devices[0].Tasks+q.Devices[1].Tasks != 1 {
		t.Errorf("predicted %+v, %v", q, err)
	}
	p.Release()
	p.Release()
	if _, err := p.Run(t.Context(), Bind("x", x), Bind("y", y)); !errors.Is(err, weft.ErrBinding) {
		t.Errorf("without weights: %v", err)
	}
}

// What is bound must fit the ports in name, type, shape and size, and every port has it.
func TestBindingsThatDoNotFit(t *testing.T) {
	m, err := Load(scalingFiles(), "m.json", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := m.Prepare(runtime(t, map[string]weft.Func{"scale": scale}))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	x, y := Bind("x", make([]float32, 4)), Bind("y", make([]float32, 4))
	flat := &Array{graph.F4, []int64{4}, make([]byte, 16)}
	for want, bs := range map[string][]Binding{
		`nothing is bound to x float32 [2 2], y float32 [2 2]`:                {},
		`nothing is bound to y float32 [2 2]`:                                 {x},
		`data "x" is bound twice`:                                             {x, x, y},
		`unknown input or output "z"; did you mean x?`:                        {x, y, Bind("z", []float32{1})},
		`data "w" has weights, which come with the model`:                     {x, y, Bind("w", make([]float32, 4))},
		`binding of data "x": it holds int32, and data "x" takes float32`:     {Bind("x", make([]int32, 4)), y},
		`binding of data "x": it has 20 bytes, and data "x" takes 16`:         {Bind("x", make([]float32, 5)), y},
		`binding of data "x": it has the shape [4], and data "x" takes [2 2]`: {flat.As("x"), y},
	} {
		if _, err := p.Run(t.Context(), bs...); !errors.Is(err, weft.ErrBinding) || err.Error() != weft.ErrBinding.Error()+": "+want {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

// Any number of runs at the same time have their own results, and weights are put once.
func TestConcurrentRuns(t *testing.T) {
	opened := &countingFS{FS: scalingFiles()}
	m, err := Load(opened, "m.json", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := m.Prepare(runtime(t, map[string]weft.Func{"scale": scale}))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	before := opened.count()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			x, y := make([]float32, 4), make([]float32, 4)
			for i := range 50 {
				for k := range x {
					x[k] = float32(100*g + i + k)
				}
				if _, err := p.Run(context.Background(), Bind("x", x), Bind("y", y)); err != nil {
					t.Error(err)
					return
				}
				for k := range y {
					if want := x[k] * float32(math.Pow10(k)); y[k] != want {
						t.Errorf("element %d of %v is %v", k, x, y[k])
					}
				}
			}
		})
	}
	wg.Wait()
	if n := opened.count(); n != before {
		t.Errorf("%d files were opened by runs", n-before)
	}
}

// countingFS counts the files that are opened.
type countingFS struct {
	fs.FS
	mu sync.Mutex
	n  int
}

func (c *countingFS) Open(name string) (fs.File, error) {
	c.mu.Lock()
	c.n++
	c.mu.Unlock()
	return c.FS.Open(name)
}

func (c *countingFS) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// A file that a model names is below its folder, a regular one of the size that it should
// have, and reached over no link.
func TestLoadRefuses(t *testing.T) {
	replace := func(old, with string) func(fstest.MapFS) {
		return func(f fstest.MapFS) {
			f["m.json"] = &fstest.MapFile{Data: []byte(strings.Replace(scaling, old, with, 1))}
		}
	}
	put := func(name string, data []byte) func(fstest.MapFS) {
		return func(f fstest.MapFS) { f[name] = &fstest.MapFile{Data: data} }
	}
	for _, c := range []struct {
		want   string
		change func(fstest.MapFS)
		limits Limits
	}{
		{`m.json: kernel "scale": "../scale.cu" is no path below the model's folder`, replace(`scale.cu`, `../scale.cu`), Limits{}},
		{`m.json: kernel "scale": "/etc/scale.cu" is no path below the model's folder`, replace(`scale.cu`, `/etc/scale.cu`), Limits{}},
		{`m.json: kernel "scale": "w/../scale.cu" is no path below the model's folder`, replace(`scale.cu`, `w/../scale.cu`), Limits{}},
		{`m.json: kernel "scale": "..\\scale.cu" is no path below the model's folder`, replace(`scale.cu`, `..\\scale.cu`), Limits{}},
		{`m.json: weights of data "w": "../w.npy" is no path below the model's folder`, replace(`w/w.npy`, `../w.npy`), Limits{}},
		{`m.json: weights of data "w": w.txt: `, replace(`w/w.npy`, `w.txt`), Limits{}},
		{`m.json: kernel "scale": scale.cu: file does not exist`, func(f fstest.MapFS) { delete(f, "scale.cu") }, Limits{}},
		{`m.json: kernel "scale": scale.cu is empty`, put("scale.cu", nil), Limits{}},
		{`m.json: kernel "scale": scale.cu is no regular file`, func(f fstest.MapFS) { f["scale.cu"] = &fstest.MapFile{Mode: fs.ModeNamedPipe} }, Limits{}},
		{`m.json: kernel "scale": scale.cu is no regular file`, func(f fstest.MapFS) {
			f["scale.cu"] = &fstest.MapFile{Mode: fs.ModeSymlink, Data: []byte("w/w.npy")}
		}, Limits{}},
		{`m.json: too large: `, nil, Limits{Text: 100}},
		{`m.json: kernel "scale": scale.cu: too large: 37 bytes, and 36 are the most`, nil, Limits{Sources: 36}},
		{`m.json: kernel "scale": more.cu: too large: 37 bytes, and 3 are the most`, func(f fstest.MapFS) {
			replace(`{"file": "scale.cu", "entry": "scale"}`, `{"file": "scale.cu", "entry": "scale"}, {"file": "more.cu", "entry": "scale"}`)(f)
			f["more.cu"] = f["scale.cu"]
		}, Limits{Sources: 40}},
		{`m.json: too large: its data take more than 47`, nil, Limits{Data: 47}},
		{`m.json: too large: its data take more than 1TiB`, replace(`"grid": 4`, `"grid": 4, "workspace": 1e15`), Limits{}},
		{`m.json: line 3: data "x": bad size: elements of float32 in the shape`, replace(`[2, 2]`, `[4611686018427387904, 4]`), Limits{}},
		{`m.json: line 3: shape must be a whole number, not "NaN"`, replace(`[2, 2]`, `["NaN"]`), Limits{}},
		{`m.json: line 8: after task 0, which is not further up; move it there`, replace(`"grid": 4`, `"grid": 4, "after": [0]`), Limits{}},
		{`m.json: line 1: not JSON: invalid character '[' exceeded max depth`, put("m.json", []byte(strings.Repeat("[", 1<<20))), Limits{}},
		{`m.json: the graph has no tasks: nothing to run`, put("m.json", []byte("{}")), Limits{}},
		{`m.json: weights of data "w": w/w.npy: it holds float64, and data "w" takes float32`, put("w/w.npy", npy(1, dict("'<f8'", "False", "(2,)"), make([]byte, 16))), Limits{}},
		{`m.json: weights of data "w": w/w.npy: it has the shape [2 2], and data "w" takes [4]`, put("w/w.npy", npy(1, dict("'<f4'", "False", "(2, 2)"), make([]byte, 16))), Limits{}},
		{`m.json: weights of data "w": w/w.npy: it has 15 bytes, and data "w" takes 16`, put("w/w.npy", npy(1, dict("'<f4'", "False", "(4,)"), make([]byte, 15))), Limits{}},
		{`m.json: weights of data "w": w/w.npy: bad array: no file in NumPy's format`, put("w/w.npy", []byte("PK")), Limits{}},
	} {
		files := scalingFiles()
		if c.change != nil {
			c.change(files)
		}
		_, err := Load(files, "m.json", c.limits)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
		if strings.Contains(c.want, "too large") != errors.Is(err, ErrLimit) {
			t.Errorf("%v wraps ErrLimit: %v", err, errors.Is(err, ErrLimit))
		}
		if at := (*graph.SyntaxError)(nil); strings.Contains(c.want, " line ") != errors.As(err, &at) {
			t.Errorf("%v is a SyntaxError: %v", err, at != nil)
		}
	}
}

// Weights that change between loading and preparing are refused as well.
func TestWeightsChange(t *testing.T) {
	rt := runtime(t, map[string]weft.Func{"scale": scale})
	for want, data := range map[string][]byte{
		"it has the shape [2 2], and data \"w\" takes [4]": npy(1, dict("'<f4'", "False", "(2, 2)"), make([]byte, 16)),
		"too large: 20000 bytes, and 10028 are the most":   make([]byte, 20000),
	} {
		files := scalingFiles()
		m, err := Load(files, "m.json", Limits{})
		if err != nil {
			t.Fatal(err)
		}
		files["w/w.npy"] = &fstest.MapFile{Data: data}
		if _, err := m.Prepare(rt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}

// A model in a folder is read over no link and without waiting for a pipe.
func TestDir(t *testing.T) {
	top := t.TempDir()
	for name, f := range scalingFiles() {
		path := filepath.Join(top, "m", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Load(Dir(filepath.Join(top, "m")), "m.json", Limits{}); err != nil {
		t.Error(err)
	}
	source := filepath.Join(top, "m", "scale.cu")
	if err := os.Rename(source, filepath.Join(top, "elsewhere.cu")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../elsewhere.cu", source); err != nil {
		t.Skip(err)
	}
	if _, err := Load(Dir(filepath.Join(top, "m")), "m.json", Limits{}); err == nil || !strings.Contains(err.Error(), "scale.cu: is a link") {
		t.Errorf("over a link: %v", err)
	}
	if _, err := Load(os.DirFS(filepath.Join(top, "m")), "m.json", Limits{}); err == nil || !strings.Contains(err.Error(), "scale.cu is no regular file") {
		t.Errorf("over a link, by os.DirFS: %v", err)
	}
	gone := filepath.Join(top, "gone")
	for _, folder := range []string{gone, filepath.Join(top, "m", "m.json")} { // nothing, and a file
		if _, err := Load(Dir(folder), "m.json", Limits{}); !errors.Is(err, fs.ErrNotExist) || err.Error() != "m.json: there is no folder "+folder+": file does not exist" {
			t.Errorf("folder %s: %v", folder, err)
		}
	}
	if _, err := Load(Dir(filepath.Join(top, "m")), "../elsewhere.cu", Limits{}); err == nil || !strings.Contains(err.Error(), "no path below") {
		t.Errorf("the graph from outside: %v", err)
	}
}

// The blur of the examples is the one that a loop over pixels computes.
func TestBlur(t *testing.T) {
	m, err := Load(Dir("../examples/blur"), "blur.json", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := m.Prepare(runtime(t, conv.Funcs()))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	const h, w = 24, 32
	in, out := make([]float32, 2*h*w), make([]float32, 2*h*w)
	for i := range in {
		in[i] = rand.Float32()
	}
	if _, err := p.Run(t.Context(), Bind("image", in), Bind("smooth", out)); err != nil {
		t.Fatal(err)
	}
	for i := range out {
		image, row, column, want := i/(h*w), i/w%h, i%w, 0.0
		for dy := -1; dy <= 1; dy++ {
			for dx := -1; dx <= 1; dx++ {
				if y, x := row+dy, column+dx; y >= 0 && y < h && x >= 0 && x < w {
					want += float64(in[image*h*w+y*w+x]) * float64((2-dy*dy)*(2-dx*dx)) / 16
				}
			}
		}
		if math.Abs(float64(out[i])-want) > 1e-5 {
			t.Fatalf("pixel %d is %v, want %v", i, out[i], want)
		}
	}
}

// FuzzLoad looks for a model that makes Load panic, open a file outside of its folder, or
// accept one whose parts do not go together.
func FuzzLoad(f *testing.F) {
	files := scalingFiles()
	f.Add([]byte(scaling), []byte(files["w/w.npy"].Data))
	blur, err := os.ReadFile("../examples/blur/blur.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(blur, npy(1, dict("'<f4'", "False", "(3, 3)"), make([]byte, 36)))
	f.Add([]byte(strings.Replace(scaling, "scale.cu", "../scale.cu", 1)), []byte{})
	f.Add([]byte(strings.Replace(scaling, "[2, 2]", "[4611686018427387904, 4]", 1)), []byte("\x93NUMPY\x03\x00\xff\xff\xff\xff"))
	f.Add([]byte(`{"data": [{"name": "b", "bytes": 2, "dtype": "b1", "weights": "b.bin"}], "tasks": [{"kernel": "k", "grid": 1, "uses": [{"data": "b"}]}]}`), []byte{0, 1})
	f.Fuzz(func(t *testing.T, src, weights []byte) {
		opened := &guardedFS{t: t, model: src, weights: weights}
		m, err := Load(opened, "m.json", Limits{Text: 1 << 20, Sources: 1 << 10, Data: 1 << 30})
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("an error of several lines: %v", err)
			}
			return
		}
		total := int64(0)
		for _, p := range m.Ports() {
			total += p.Bytes
			if n, ok := p.Elem.Bytes(p.Shape); p.Shape != nil && (!ok || n != p.Bytes) || p.Bytes <= 0 || !p.Input && !p.Output {
				t.Fatalf("port %+v", p)
			}
		}
		if total > 1<<30 {
			t.Fatalf("ports of %d bytes", total)
		}
		for _, k := range m.Graph().Kernels() {
			for _, im := range k.Impls {
				if im.File != "" {
					t.Fatalf("file %q was not read", im.File)
				}
			}
		}
	})
}

// guardedFS has the model, the same weights and source under any name, and lets no name
// through that could lead out of a folder.
type guardedFS struct {
	t              *testing.T
	model, weights []byte
}

func (g *guardedFS) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) || strings.Contains(name, "..") && slices.Contains(strings.Split(name, "/"), "..") {
		g.t.Fatalf("%q was opened", name)
	}
	data := []byte("code")
	switch {
	case name == "m.json":
		data = g.model
	case strings.HasSuffix(name, ".npy") || strings.HasSuffix(name, ".bin"):
		data = g.weights
	}
	return fstest.MapFS{"f": {Data: data}}.Open("f")
}

// A model that is tied to a device runs there, and gives the same.
func TestOn(t *testing.T) {
	rt := runtime(t, map[string]weft.Func{"scale": scale})
	m, err := Load(scalingFiles(), "m.json", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	all, err := m.Prepare(rt)
	if err != nil {
		t.Fatal(err)
	}
	defer all.Release()
	for i, d := range rt.Devices() {
		p, err := all.On(d.Name)
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			y := make([]float32, 4)
			report, err := p.Run(t.Context(), Bind("x", []float32{1, 2, 3, 4}), Bind("y", y))
			if err != nil || !slices.Equal(y, []float32{1, 20, 300, 4000}) {
				t.Fatalf("%v, %v", y, err)
			}
			if report.Devices[i].Tasks != 1 {
				t.Errorf("the task did not run on %s: %v", d.Name, report.Devices)
			}
		}
	}
	nowhere, err := all.On("cuda:7")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nowhere.Run(t.Context(), Bind("x", make([]float32, 4)), Bind("y", make([]float32, 4))); !errors.Is(err, weft.ErrNoDevice) {
		t.Errorf("on a device that there is not: %v", err)
	}
}
