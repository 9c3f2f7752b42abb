package network

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/weft-run/weft/internal/safefile"
	"github.com/weft-run/weft/internal/text"
)

// Formats of files, each with a byte order mark of UTF-8 before it or none.
const (
	// Edges is a line for each edge: the numbers of two nodes, from 0 on, and a weight or none.
	// Lines that begin with # or % do not count. Edges are directed.
	Edges = "edges"
	// MatrixMarket is the coordinate format of NIST, pattern, integer or real, general or
	// symmetric.
	MatrixMarket = "mtx"
	// Metis is the format of METIS and of DIMACS's tenth challenge, with a line for each node.
	Metis = "metis"
)

// spareNodes is the number of nodes that any file may have.
const spareNodes = 1 << 20

// Limits of files: bytes in all, and of the first line. Files are read by pieces.
const (
	maxFile   = 1 << 33
	maxFirst  = 1 << 20
	readPiece = 1 << 20
)

// mark is the byte order mark that some programs write before UTF-8. It is skipped.
var mark = []byte("\ufeff")

//go:embed testdata/karate.mtx testdata/miserables.graph testdata/davis.txt
var shippedFiles embed.FS

var shipped = map[string]string{"karate": "karate.mtx", "miserables": "miserables.graph", "davis": "davis.txt"}

// Shipped are the names of graphs that Open has without a file: Zachary's karate club, people
// who meet in Les Misérables, and women at social events in Natchez.
func Shipped() []string { return []string{"davis", "karate", "miserables"} }

// Open reads a file, or a shipped graph by its name. Files whose names end in .graph or .metis
// are in the format of METIS, others as they begin. An edge that is listed more than once counts as
// the rule says; [Graph].Repeated is how many there are.
func Open(name string, rule Repeated) (*Graph, error) {
	if err := validRepeated(rule); err != nil {
		return nil, err
	}
	if file, ok := shipped[name]; ok {
		text, err := shippedFiles.ReadFile("testdata/" + file)
		if err != nil {
			return nil, err
		}
		g, err := parse(text, name, formatOf(file, text), rule)
		if err == nil && name == "davis" {
			g = g.Undirected()
		}
		return g, err
	}
	text, err := readFile(name)
	switch {
	case errors.Is(err, ErrGraph):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("network: %w; shipped graphs are %s", err, strings.Join(Shipped(), ", "))
	}
	return parse(text, filepath.Base(name), formatOf(name, text), rule)
}

func readFile(name string) ([]byte, error) {
	f, err := safefile.OpenInput(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := int64(0)
	if info.Mode().IsRegular() {
		size = info.Size()
	}
	return readText(f, filepath.Base(name), size)
}

// readText reads all of a text that has about a size, 0 if that is not known. What is no text, such as
// /dev/zero, is refused where that is seen, before the rest is read.
func readText(r io.Reader, name string, size int64) ([]byte, error) {
	l := &lines{name: name, no: 1}
	large := func() error {
		return fmt.Errorf("network: %s: %w: it has more than %d bytes", name, ErrGraph, int64(maxFile))
	}
	if size > maxFile {
		return nil, large()
	}
	text, begun := make([]byte, 0, size+bytes.MinRead), 0 // begun is where the line begins
	for {
		if text = slices.Grow(text, bytes.MinRead); len(text) > maxFile {
			return nil, large()
		}
		n, err := r.Read(text[len(text):min(cap(text), len(text)+readPiece)])
		got := text[len(text) : len(text)+n]
		text = text[:len(text)+n]
		zero := bytes.IndexByte(got, 0)
		if zero >= 0 {
			got = got[:zero]
		}
		if at := bytes.LastIndexByte(got, '\n'); at >= 0 {
			l.no += bytes.Count(got, []byte{'\n'})
			begun = len(text) - n + at + 1
		}
		switch {
		case zero >= 0:
			return nil, l.fail("it has a byte that is zero: this is no text")
		case l.no == 1 && len(text)-begun > maxFirst:
			return nil, l.fail("it has more than %d bytes, and the first line of a graph is short", maxFirst)
		case err == io.EOF:
			return bytes.TrimPrefix(text, mark), nil
		case err != nil:
			return nil, err
		}
	}
}

// promised returns the numbers of nodes and edges in the header of a file, with undirected edges
// counted twice, or an estimate by the size of the file; 0 if there is no such file. Pipes are not
// read, since they can be read only once.
func promised(name string) (nodes, edges float64) {
	file, ok := shipped[name]
	var text []byte
	var size int64
	if ok {
		text, _ = shippedFiles.ReadFile("testdata/" + file) // the file is part of the program
		size = int64(len(text))
	} else {
		file = name
		f, err := safefile.OpenInput(name)
		if err != nil {
			return 0, 0
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil || !info.Mode().IsRegular() {
			return 0, 0
		}
		text, _ = io.ReadAll(io.LimitReader(f, 1<<16)) // Open says what is wrong
		text, size = bytes.TrimPrefix(text, mark), info.Size()
	}
	format := formatOf(file, text)
	l := &lines{rest: text}
	both := format == Metis
	if format == MatrixMarket {
		l.next()
		both = bytes.Contains(bytes.ToLower(l.line), []byte(" symmetric"))
	}
	const perEdge = 6 // bytes of a line at least
	if format == Edges || !l.nextOf("%") {
		return float64(size) / perEdge / 4, float64(size) / perEdge
	}
	n, err1 := l.number("", 0, MaxNodes)
	if format == MatrixMarket {
		l.word()
	}
	m, err2 := l.number("", 0, MaxEdges)
	if err1 != nil || err2 != nil {
		return 0, 0
	}
	if both {
		m *= 2
	}
	return float64(n), float64(m)
}

// Read reads a graph in a format; with "" it detects Edges or MatrixMarket from the first bytes.
// Repeated edges count as with [Open]. Errors wrap [ErrGraph], except errors of reading and of an
// unknown rule.
func Read(r io.Reader, format string, rule Repeated) (*Graph, error) {
	if err := validRepeated(rule); err != nil {
		return nil, err
	}
	text, err := readText(r, "graph", 0)
	switch {
	case errors.Is(err, ErrGraph):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("network: read graph: %w", err)
	}
	if format == "" {
		format = formatOf("", text)
	}
	return parse(text, "graph", format, rule)
}

func formatOf(name string, text []byte) string {
	switch ext := filepath.Ext(name); {
	case bytes.HasPrefix(bytes.ToLower(text[:min(len(text), 14)]), []byte("%%matrixmarket")):
		return MatrixMarket
	case ext == ".graph" || ext == ".metis":
		return Metis
	}
	return Edges
}

func parse(text []byte, name, format string, rule Repeated) (*Graph, error) {
	l := &lines{name: name, size: len(text), rest: text, rule: rule}
	switch format {
	case Edges:
		return l.edges()
	case MatrixMarket:
		return l.matrixMarket()
	case Metis:
		return l.metis()
	}
	return nil, fmt.Errorf("network: no format %q: %w: there is %s, %s and %s", format, ErrGraph, Edges, MatrixMarket, Metis)
}

// lines reads a text line by line.
type lines struct {
	name string
	size int // of the text
	rest []byte
	line []byte // what is left of the line
	no   int    // its number, from 1 on
	rule Repeated
}

// next goes on to the next line and reports whether there is one.
func (l *lines) next() bool {
	if len(l.rest) == 0 {
		return false
	}
	l.line, l.rest, _ = bytes.Cut(l.rest, []byte("\n"))
	l.no++
	return true
}

// nextOf goes on to the next line that does not begin with one of some characters. Blank lines
// are passed over too.
func (l *lines) nextOf(comments string) bool {
	for l.next() {
		if t := bytes.TrimSpace(l.line); len(t) > 0 && !strings.ContainsRune(comments, rune(t[0])) {
			return true
		}
	}
	return false
}

func (l *lines) fail(format string, args ...any) error {
	return fmt.Errorf("network: %s, line %d: %w: %s", l.name, l.no, ErrGraph, fmt.Sprintf(format, args...))
}

// word cuts the next word from the line; an empty one means that there is none.
func (l *lines) word() []byte {
	space := func(c byte) bool { return c == ' ' || c == '\t' || c == ',' || c == '\r' }
	for len(l.line) > 0 && space(l.line[0]) {
		l.line = l.line[1:]
	}
	n := 0
	for n < len(l.line) && !space(l.line[n]) {
		n++
	}
	word := l.line[:n]
	l.line = l.line[n:]
	return word
}

// shown is a word as errors have it.
func shown(word []byte) string {
	if len(word) > 40 {
		return strconv.Quote(string(word[:40]) + "…")
	}
	return strconv.Quote(string(word))
}

// number reads a whole number from least to most, which are for errors too.
func (l *lines) number(what string, least, most int) (int, error) {
	word := l.word()
	n := 0
	for _, c := range word {
		if c < '0' || c > '9' || n > MaxEdges {
			n = -1
			break
		}
		n = 10*n + int(c-'0')
	}
	switch {
	case len(word) == 0:
		return 0, l.fail("%s is missing", what)
	case n < least || n > most:
		return 0, l.fail("%s is %s: it must be a whole number from %d to %d", what, shown(word), least, most)
	}
	return n, nil
}

func positive(w float64) bool { return w > 0 && !math.IsInf(w, 1) }

// weight reads a weight.
func (l *lines) weight() (float64, error) {
	word := l.word()
	if len(word) == 0 {
		return 0, l.fail("the weight is missing")
	}
	w, err := strconv.ParseFloat(string(word), 64)
	if err != nil || !positive(w) {
		return 0, l.fail("the weight is %s: it must be a positive finite number", shown(word))
	}
	return w, nil
}

// end sees that a line has no more words.
func (l *lines) end() error {
	if word := l.word(); len(word) > 0 {
		return l.fail("%s is too much", shown(word))
	}
	return nil
}

func (l *lines) edges() (*Graph, error) {
	var edges []edge
	var weights []float64
	nodes := 0
	for l.nextOf("#%") {
		from, err := l.number("the first node", 0, MaxNodes-1)
		if err != nil {
			return nil, err
		}
		to, err := l.number("the second node", 0, MaxNodes-1)
		if err != nil {
			return nil, err
		}
		weighted := len(bytes.TrimSpace(l.line)) > 0
		if len(edges) > 0 && weighted != (weights != nil) {
			return nil, l.fail("some edges have weights and others none: give all of them one, or none")
		}
		if weighted {
			w, err := l.weight()
			if err != nil {
				return nil, err
			}
			weights = append(weights, w)
		}
		if err := l.end(); err != nil {
			return nil, err
		}
		edges, nodes = append(edges, edge{uint32(from), uint32(to)}), max(nodes, from+1, to+1)
		if err := l.nodes(nodes); err != nil {
			return nil, err
		}
		if len(edges) > MaxEdges {
			return nil, l.fail("there are more than %d edges", MaxEdges)
		}
	}
	if nodes == 0 {
		return nil, l.fail("there are no edges")
	}
	return newGraph(l.name, nodes, edges, weights, false, l.rule, 0)
}

// nodes refuses more nodes than is plausible for the size of the file, so that a short file cannot
// take much memory: a node takes at least 16 bytes, even without edges.
func (l *lines) nodes(n int) error {
	if most := spareNodes + 64*l.size; n > most {
		return l.fail("there would be %d nodes, and nearly all without an edge: a file of this size may have %d", n, most)
	}
	return nil
}

// promise refuses a header that promises more lines of some bytes than the file has, before
// memory is taken for them.
func (l *lines) promise(what string, n, bytes int) error {
	if most := (len(l.rest) + 1) / bytes; n > most {
		return l.fail("it promises %s, and the file has room for %d at most: it is cut off, or the number is wrong", text.Count(n, what), most)
	}
	return nil
}

func (l *lines) matrixMarket() (*Graph, error) {
	l.next()
	banner := strings.Fields(strings.ToLower(string(l.line)))
	if len(banner) != 5 || banner[1] != "matrix" || banner[2] != "coordinate" {
		return nil, l.fail("it must be %%%%MatrixMarket matrix coordinate, a field and a symmetry")
	}
	field, symmetry := banner[3], banner[4]
	if !slices.Contains([]string{"pattern", "integer", "real"}, field) {
		return nil, l.fail("entries are %s: they must be pattern, integer or real", shown([]byte(field)))
	}
	if symmetry != "general" && symmetry != "symmetric" {
		return nil, l.fail("the matrix is %s: it must be general or symmetric", shown([]byte(symmetry)))
	}
	if !l.nextOf("%") {
		return nil, l.fail("the line with the sizes is missing")
	}
	var sizes [3]int
	for i, what := range []string{"the number of rows", "the number of columns", "the number of entries"} {
		var err error
		if sizes[i], err = l.number(what, min(1, 2-i), []int{MaxNodes, MaxNodes, MaxEdges}[i]); err != nil {
			return nil, err
		}
	}
	n, count := sizes[0], sizes[2]
	if err := l.end(); err != nil {
		return nil, err
	}
	if sizes[1] != n {
		return nil, l.fail("%d rows and %d columns: a graph has as many", n, sizes[1])
	}
	if err := l.nodes(n); err != nil {
		return nil, err
	}
	if err := l.promise("entry", count, 4); err != nil {
		return nil, err
	}
	edges := make([]edge, 0, count)
	var weights []float64
	for l.nextOf("%") {
		if len(edges) == count {
			return nil, l.fail("there are more than the %s that the header promises", text.Count(count, "entry"))
		}
		row, err := l.number("the row", 1, n)
		if err != nil {
			return nil, err
		}
		column, err := l.number("the column", 1, n)
		if err != nil {
			return nil, err
		}
		if field != "pattern" {
			w, err := l.weight()
			if err != nil {
				return nil, err
			}
			weights = append(weights, w)
		}
		if err := l.end(); err != nil {
			return nil, err
		}
		edges = append(edges, edge{uint32(row - 1), uint32(column - 1)})
	}
	if len(edges) != count {
		return nil, l.fail("the file ends after %d of %d entries", len(edges), count)
	}
	return newGraph(l.name, n, edges, weights, symmetry == "symmetric", l.rule, 1)
}

func (l *lines) metis() (*Graph, error) {
	if !l.nextOf("%") {
		return nil, l.fail("the line with the sizes is missing")
	}
	n, err := l.number("the number of nodes", 1, MaxNodes)
	if err != nil {
		return nil, err
	}
	count, err := l.number("the number of edges", 0, MaxEdges)
	if err != nil {
		return nil, err
	}
	skip, weighted, err := l.metisForm()
	if err != nil {
		return nil, err
	}
	if err := l.promise("node", n, 1); err != nil {
		return nil, err
	}
	if err := l.promise("edge", count, 4); err != nil { // each twice, of a digit and a space at least
		return nil, err
	}
	edges := make([]edge, 0, 2*count)
	var weights []float64
	for node := 0; ; {
		if !l.next() {
			if node < n {
				return nil, l.fail("the file ends after %d of %d nodes", node, n)
			}
			break
		}
		if t := bytes.TrimSpace(l.line); len(t) > 0 && t[0] == '%' {
			continue
		} else if node == n && len(t) == 0 {
			continue
		} else if node == n {
			return nil, l.fail("there are more than the %s that the header promises", text.Count(n, "node"))
		}
		if edges, weights, err = l.metisNode(uint32(node), n, skip, weighted, edges, weights); err != nil {
			return nil, err
		}
		if node++; len(edges) > 2*count {
			return nil, l.fail("there are more than the %s that the header promises", text.Count(count, "edge"))
		}
	}
	if len(edges) != 2*count {
		return nil, l.fail("the file lists %d ends of edges, and the header promises %s with two each", len(edges), text.Count(count, "edge"))
	}
	g, err := newGraph(l.name, n, edges, weights, false, RepeatedLast, 1)
	if err != nil {
		return nil, err
	}
	if g.Undirected() != g || len(g.Columns) != 2*count {
		return nil, l.fail("an edge is listed twice or at one of its nodes alone: it must be at both, with one weight")
	}
	return g, nil
}

// metisForm reads what else is in the first line: the numbers of a node that come before its
// edges, and whether edges have weights.
func (l *lines) metisForm() (skip int, weighted bool, err error) {
	form := string(l.word())
	if form == "" {
		return 0, false, nil
	}
	if len(form) > 3 || strings.Trim(form, "01") != "" {
		return 0, false, l.fail("the form is %q: it must be three digits 0 or 1, for sizes of nodes, weights of nodes and weights of edges", form)
	}
	form = strings.Repeat("0", 3-len(form)) + form
	weights := 1
	if len(bytes.TrimSpace(l.line)) > 0 {
		if weights, err = l.number("the number of weights of a node", 1, 1000); err != nil {
			return 0, false, err
		}
	}
	if form[0] == '1' {
		skip++
	}
	if form[1] == '1' {
		skip += weights
	}
	return skip, form[2] == '1', l.end()
}

// metisNode reads the line of a node.
func (l *lines) metisNode(node uint32, n, skip int, weighted bool, edges []edge, weights []float64) ([]edge, []float64, error) {
	for range skip {
		if _, err := l.number("a weight of the node", 0, MaxEdges); err != nil {
			return nil, nil, err
		}
	}
	for len(bytes.TrimSpace(l.line)) > 0 {
		to, err := l.number("a neighbour", 1, n)
		if err != nil {
			return nil, nil, err
		}
		if uint32(to-1) == node {
			return nil, nil, l.fail("node %d is its own neighbour, which METIS does not have", to)
		}
		edges = append(edges, edge{node, uint32(to - 1)})
		if weighted {
			w, err := l.weight()
			if err != nil {
				return nil, nil, err
			}
			weights = append(weights, w)
		}
	}
	return edges, weights, nil
}
