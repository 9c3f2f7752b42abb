package model

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/safefile"
	"github.com/weft-run/weft/internal/text"
)

// ErrLimit is wrapped by the errors of models that are larger than their Limits.
var ErrLimit = errors.New("too large")

// Limits bound what a model may be. Zero is the default.
type Limits struct {
	Text    int64 // bytes of the graph's file; 64 MiB
	Sources int64 // bytes of all sources of kernels together; 64 MiB
	Data    int64 // bytes of all data and workspaces together, with the weights; 1 TiB
}

// withDefaults replaces zeros.
func (l Limits) withDefaults() Limits {
	return Limits{
		Text:    cmp.Or(l.Text, 64<<20),
		Sources: cmp.Or(l.Sources, 64<<20),
		Data:    cmp.Or(l.Data, 1<<40),
	}
}

// Dir returns the files below a folder, for Load. It refuses paths that lead out of the
// folder or over a link, and anything but regular files. The folder itself may be a link.
func Dir(folder string) fs.FS {
	absolute, err := filepath.Abs(folder)
	return dir{absolute, err}
}

type dir struct {
	path string
	err  error
}

func (d dir) Open(name string) (fs.File, error) {
	if d.err != nil {
		return nil, d.err
	}
	f, err := safefile.OpenWithin(d.path, name)
	if err != nil { // or it would be an interface that is not nil
		if info, gone := os.Stat(d.path); gone != nil || !info.IsDir() {
			return nil, fmt.Errorf("there is no folder %s: %w", d.path, fs.ErrNotExist)
		}
		return nil, err
	}
	return f, nil
}

// Model is a graph with the sources of its kernels and the names of its weights. It does
// not change and is safe for concurrent use.
type Model struct {
	graph   *graph.Graph
	files   fs.FS
	ports   []Port
	at      map[string]int // position among the ports
	weights []Port
}

// Port is an input or output that every run binds.
type Port struct {
	Name          string
	Elem          graph.Elem // "" where the model does not state it
	Shape         []int64    // nil where the model does not state it
	Bytes         int64
	Input, Output bool
}

// String returns the name with type and shape as far as known, as "x float32 [2 3]".
func (p Port) String() string {
	switch {
	case p.Shape != nil:
		return fmt.Sprintf("%s %s %v", p.Name, p.Elem, p.Shape)
	case p.Elem != "":
		return fmt.Sprintf("%s %s [%d]", p.Name, p.Elem, p.Bytes/p.Elem.Size())
	}
	return fmt.Sprintf("%s %s", p.Name, text.Count(p.Bytes, "byte"))
}

// Array views memory as an array for the port. It errs if the memory does not fit.
func (p Port) Array(mem []byte) (*Array, error) {
	a := &Array{Elem: p.Elem, Shape: p.Shape, Bytes: mem}
	if size := p.Elem.Size(); size > 0 {
		a.Bytes = aligned(mem, size)
		if p.Shape == nil {
			a.Shape = []int64{int64(len(mem)) / size}
		}
	}
	if err := p.fits(a.Elem, nil, int64(len(mem))); err != nil {
		return nil, err
	}
	return a, a.check()
}

// Load reads a model: the graph in a file and all files that it names. Weights are checked
// and not kept: Prepare reads them. A mistake in the graph's file is a
// [*graph.SyntaxError].
func Load(files fs.FS, file string, l Limits) (*Model, error) {
	l = l.withDefaults()
	src, err := read(files, file, l.Text, allocate)
	if err != nil {
		return nil, err
	}
	g, err := graph.Decode(src, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if g.NumTasks() == 0 {
		return nil, fmt.Errorf("%s: the graph has no tasks: nothing to run", file)
	}
	m := &Model{graph: g, files: files, at: make(map[string]int)}
	if err := m.measure(l.Data); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if err := m.readSources(l.Sources); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, w := range m.weights {
		if err := m.checkWeights(w); err != nil {
			return nil, fmt.Errorf("%s: weights of data %q: %w", file, w.Name, err)
		}
	}
	return m, nil
}

// measure finds the ports and weights, and refuses more bytes than the limit.
func (m *Model) measure(limit int64) error {
	total := int64(0)
	add := func(n int64) error {
		if n > limit-total {
			return fmt.Errorf("%w: its data take more than %s", ErrLimit, text.FormatSize(limit))
		}
		total += n
		return nil
	}
	for i := range m.graph.NumData() {
		d := m.graph.Data(graph.DataID(i))
		if err := add(d.Bytes); err != nil {
			return err
		}
		p := Port{d.Name, d.Elem, d.Shape, d.Bytes, d.Input, d.Output}
		switch {
		case d.Weights != "":
			m.weights = append(m.weights, p)
		case d.Input || d.Output:
			m.at[p.Name] = len(m.ports)
			m.ports = append(m.ports, p)
		}
	}
	largest := int64(0) // workspaces are used again by one task after another
	for i := range m.graph.NumTasks() {
		largest = max(largest, m.graph.Task(graph.TaskID(i)).Workspace)
	}
	return add(largest)
}

// readSources reads the files of kernels. The graph was decoded for this model alone, so
// its kernels can be changed.
func (m *Model) readSources(limit int64) error {
	have := make(map[string][]byte)
	for _, k := range m.graph.Kernels() {
		for i := range k.Impls {
			im := &k.Impls[i]
			if im.File == "" {
				continue
			}
			src, ok := have[im.File]
			if !ok {
				var err error
				if src, err = read(m.files, im.File, limit, allocate); err != nil {
					return fmt.Errorf("kernel %q: %w", k.Name, err)
				}
				if len(src) == 0 {
					return fmt.Errorf("kernel %q: %s is empty", k.Name, im.File)
				}
				have[im.File] = src
				limit -= int64(len(src))
			}
			im.Source, im.File = src, ""
		}
	}
	return nil
}

// Graph returns the graph. The caller must not change it.
func (m *Model) Graph() *graph.Graph { return m.graph }

// Ports returns the inputs and outputs that runs bind, in the order of the file. Weights
// are not among them.
func (m *Model) Ports() []Port { return slices.Clone(m.ports) }

// weightsFile is the file with the value of data.
func (m *Model) weightsFile(name string) string {
	id, _ := m.graph.Lookup(name)
	return m.graph.Data(id).Weights
}

// checkWeights checks that a file has what the data says, as far as its beginning shows.
func (m *Model) checkWeights(p Port) error {
	file := m.weightsFile(p.Name)
	f, size, err := open(m.files, file)
	if err != nil {
		return err
	}
	defer f.Close()
	a := &Array{}
	rest := size
	if isNPY, err := format(file); err != nil {
		return err
	} else if isNPY {
		head, err := io.ReadAll(io.LimitReader(f, maxBefore))
		if err != nil {
			return inFile(file, err)
		}
		var begin []byte
		if a, begin, err = parseHeader(head); err != nil {
			return inFile(file, err)
		}
		rest = size - int64(len(head)-len(begin))
	}
	if err := p.fits(a.Elem, a.Shape, rest); err != nil {
		return inFile(file, err)
	}
	return nil
}

// Parse reads the content of a file as an array for the port: NumPy's format if its name
// ends in .npy, the elements alone if in .bin. It errs if the array does not fit.
func (p Port) Parse(file string, src []byte) (*Array, error) {
	isNPY, err := format(file)
	if err != nil {
		return nil, err
	}
	var a *Array
	if !isNPY {
		a, err = p.Array(src)
	} else if a, err = ParseNPY(src); err == nil {
		err = p.fits(a.Elem, a.Shape, int64(len(a.Bytes)))
	}
	if err != nil {
		return nil, inFile(file, err)
	}
	return a, nil
}

// MaxFile returns the most bytes that a file with an array for the port can have.
func (p Port) MaxFile() int64 { return min(p.Bytes, math.MaxInt64-maxBefore) + maxBefore }

// format reports whether a file is in NumPy's format by the ending of its name.
func format(file string) (isNPY bool, err error) {
	switch path.Ext(filepath.ToSlash(file)) {
	case ".npy":
		return true, nil
	case ".bin":
		return false, nil
	}
	return false, fmt.Errorf("%s: arrays are in files that end in .npy, NumPy's format, or .bin, the elements alone", file)
}

// fits errs unless elements of a type and shape, as far as they are known, are the port's.
func (p Port) fits(elem graph.Elem, shape []int64, bytes int64) error {
	switch {
	case !takes(p.Elem, elem):
		return fmt.Errorf("it holds %s, and data %q takes %s", elem, p.Name, p.Elem)
	case p.Shape != nil && shape != nil && !slices.Equal(p.Shape, shape):
		return fmt.Errorf("it has the shape %v, and data %q takes %v", shape, p.Name, p.Shape)
	case bytes != p.Bytes:
		return fmt.Errorf("it has %s, and data %q takes %d", text.Count(bytes, "byte"), p.Name, p.Bytes)
	}
	return nil
}

// inFile prefixes an error with the name of its file.
func inFile(file string, err error) error {
	return fmt.Errorf("%s: %w", file, err)
}

// open opens a regular file and returns its size.
func open(files fs.FS, name string) (fs.File, int64, error) {
	if !fs.ValidPath(name) || name == "." || strings.Contains(name, `\`) {
		return nil, 0, fmt.Errorf("%q is no path below the model's folder; write it with slashes, without .. and a slash in front", name)
	}
	// Of file systems that are no Dir: a pipe would be waited for.
	if info, err := fs.Lstat(files, name); err == nil && !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s is no regular file", name)
	}
	f, err := files.Open(name)
	if err == nil {
		var info fs.FileInfo
		if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
			err = safefile.ErrKind
		}
		if err == nil {
			return f, info.Size(), nil
		}
		_ = f.Close() // nothing was written
	}
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		err = p.Err
	}
	return nil, 0, inFile(name, err)
}

// read reads a file of at most limit bytes into memory that is made for it.
func read(files fs.FS, name string, limit int64, alloc func(bytes int64) ([]byte, error)) ([]byte, error) {
	f, size, err := open(files, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > limit {
		return nil, fmt.Errorf("%s: %w: %s, and %d are the most", name, ErrLimit, text.Count(size, "byte"), limit)
	}
	src, err := alloc(size)
	if err != nil {
		return nil, inFile(name, err)
	}
	if _, err := io.ReadFull(f, src); err != nil {
		return nil, inFile(name, fmt.Errorf("it was to have %s: %w", text.Count(size, "byte"), err))
	}
	if n, _ := f.Read(make([]byte, 1)); n > 0 {
		return nil, inFile(name, errors.New("it grew while it was read"))
	}
	return src, nil
}

func allocate(bytes int64) ([]byte, error) { return make([]byte, bytes), nil }
