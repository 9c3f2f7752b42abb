package protein

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
)

// limits bound the content that is read from a file, and with it time and memory: the text is read
// line by line and not kept.
type limits struct {
	bytes int64 // of the file, and of its text without compression
	lines int   // of the text
	atoms int   // C-alpha atoms of a model
	names int   // distinct names of residues, chains and insertions, modified residues, and models
}

// allowed are the limits for files: the largest entry of the PDB archive has less than half as many
// bytes and lines, two thirds of the atoms, and some thousand chains.
var allowed = limits{bytes: 1 << 30, lines: 1 << 24, atoms: 1 << 19, names: 1 << 16}

const (
	maxLine    = 1 << 16 // bytes of a line
	maxValue   = 64      // bytes of a value in the table of atoms
	maxName    = 32      // bytes of the name of a residue, a chain or an insertion
	maxColumns = 256     // of the table of atoms
)

// bounded reads a number of bytes at most, and keeps the error that ended it.
type bounded struct {
	from io.Reader
	left int64
	err  error
}

// errLong ends a text that is longer than its limit.
var errLong = errors.New("too long")

func (b *bounded) Read(p []byte) (int, error) {
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	n, err := b.from.Read(p[:min(int64(len(p)), b.left+1)]) // one more tells that it is too long
	if b.left -= int64(n); b.left < 0 {
		n, err = n-1, errLong
	}
	b.err = err
	return n, err
}

// lines reads a text, which may be compressed by gzip, one line at a time. Lines end with a
// newline, a carriage return or both.
type lines struct {
	limits
	file, text bounded // as it is, and without compression
	compressed bool
	scan       *bufio.Scanner
	line       []byte // the last one, until next is called
	number     int    // of it, from 1 on
}

func newLines(r io.Reader, l limits) *lines {
	in := &lines{limits: l, file: bounded{from: r, left: l.bytes}}
	plain := bufio.NewReader(&in.file)
	in.text = bounded{from: plain, left: l.bytes}
	if magic, _ := plain.Peek(2); string(magic) == "\x1f\x8b" {
		in.compressed = true
		z, err := gzip.NewReader(plain)
		in.text.from, in.text.err = z, err
	}
	in.scan = bufio.NewScanner(&in.text)
	in.scan.Buffer(nil, maxLine+len("\r\n"))
	in.scan.Split(splitLine)
	return in
}

// splitLine is the bufio.SplitFunc of lines.
func splitLine(data []byte, atEnd bool) (advance int, line []byte, err error) {
	end := bytes.IndexAny(data, "\r\n")
	switch {
	case end < 0 && atEnd && len(data) > 0:
		return len(data), data, nil
	case end < 0, data[end] == '\r' && end+1 == len(data) && !atEnd:
		return 0, nil, nil
	case data[end] == '\r' && end+1 < len(data) && data[end+1] == '\n':
		return end + 2, data[:end], nil
	}
	return end + 1, data[:end], nil
}

// next reads a line. It returns false at the end of the text and after an error, which failed returns.
func (in *lines) next() bool {
	if in.number > in.lines || !in.scan.Scan() {
		return false
	}
	in.line = in.scan.Bytes()
	if in.number == 0 {
		in.line = bytes.TrimPrefix(in.line, []byte("\ufeff"))
	}
	in.number++
	return in.number <= in.lines
}

// rest reads the rest of the text, whose lines do not matter, so that damage there is found too.
func (in *lines) rest() { _, _ = io.Copy(io.Discard, &in.text) } // failed has the error

// failed is the error that ended the text before its end.
func (in *lines) failed() error {
	file, text := in.file.err, in.text.err
	switch {
	case file == errLong || text == errLong:
		return fmt.Errorf("more than %d bytes: %w", in.bytes, ErrStructure)
	case file != nil && file != io.EOF:
		return fmt.Errorf("it cannot be read: %w", file)
	case text != nil && text != io.EOF:
		return fmt.Errorf("it is compressed by gzip and cut off or damaged (%w): %w", text, ErrStructure)
	case in.number > in.lines:
		return fmt.Errorf("more than %d lines, which no structure has: %w", in.lines, ErrStructure)
	case in.scan.Err() != nil:
		return fmt.Errorf("line %d: a line of more than 65,536 bytes is in no structure file: %w", in.number+1, ErrStructure)
	}
	return nil
}

// readLines reads the residues of a text in the PDB or mmCIF format.
func readLines(in *lines, s Select) ([]Residue, error) {
	ok := in.next()
	for ok && (len(bytes.TrimSpace(in.line)) == 0 || bytes.TrimSpace(in.line)[0] == '#') {
		ok = in.next()
	}
	parse := readPDB
	if ok && isCIF(in.line) {
		parse = readCIF
	}
	c := newCollected(s, in.limits)
	err := parse(in, ok, c)
	if failed := in.failed(); failed != nil {
		return nil, failed // what the parser said is of half a line
	}
	if err != nil {
		return nil, err
	}
	return c.residues()
}

// isCIF reports whether the first line of a text that is neither blank nor a comment begins a data block
// of the mmCIF format.
func isCIF(line []byte) bool {
	line = bytes.TrimLeft(line, " \t")
	return len(line) >= 5 && strings.EqualFold(string(line[:5]), "data_")
}
