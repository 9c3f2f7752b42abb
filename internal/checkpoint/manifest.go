package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Version is the format's number, which the first line of every file has.
const Version = 1

// maxManifest is the most bytes of a manifest, enough for about 500 GiB of data.
const maxManifest = 16 << 20

// maxParts is the most parameters of a manifest, and the most data.
const maxParts = 1 << 19

// Param is something the state depends on, as text: a checkpoint with another value is not
// one of the same computation.
type Param struct{ Key, Value string }

// Meta identifies the computation of a checkpoint and its progress.
type Meta struct {
	Name     string  // of the computation, within the folder
	Params   []Param // sorted by key
	Done     int64   // steps that are done
	Total    int64   // steps there are
	Finished bool    // nothing is left to do
	Unix     int64   // when it was made, in nanoseconds
}

// Manifest is a checkpoint without the bytes of its data.
type Manifest struct {
	Meta
	Seq    uint64 // its number; later ones are higher
	Folder string // of the folder, so that data files of another one are told apart
	Data   []Data
}

// Data is one part of the state, in blocks.
type Data struct {
	Name   string
	Bytes  int64
	Blocks []Block
}

// Block says where a block is: at which byte of which data file. File 0 says that nothing
// needs it.
type Block struct {
	File uint64
	At   int64
	Sum  uint32
}

// NumBlocks returns the number of blocks of some bytes.
func NumBlocks(bytes int64) int { return int((bytes + BlockBytes - 1) / BlockBytes) }

// BlockSize is the length of a block of data of some bytes: the last may be short.
func BlockSize(bytes int64, block int) int64 {
	return min(BlockBytes, bytes-int64(block)*BlockBytes)
}

// Live returns the number of bytes of all blocks.
func (m *Manifest) Live() (bytes int64) {
	for i := range m.Data {
		for b := range m.Data[i].Blocks {
			if m.Data[i].Blocks[b].File > 0 {
				bytes += BlockSize(m.Data[i].Bytes, b)
			}
		}
	}
	return bytes
}

// File is the name of the manifest in its folder.
func (m *Manifest) File() string { return manifestName(m.Seq) }

// files returns the data files that the manifest needs.
func (m *Manifest) files() map[uint64]bool {
	out := make(map[uint64]bool)
	for i := range m.Data {
		for _, b := range m.Data[i].Blocks {
			if b.File > 0 {
				out[b.File] = true
			}
		}
	}
	return out
}

// The form of a manifest in JSON.
type (
	jsonManifest struct {
		Seq      uint64             `json:"seq"`
		Folder   string             `json:"folder"`
		Name     string             `json:"name"`
		Params   bounded[[2]string] `json:"params"`
		Done     int64              `json:"done"`
		Total    int64              `json:"total"`
		Finished bool               `json:"finished"`
		Unix     int64              `json:"unix_ns"`
		Data     bounded[jsonData]  `json:"data"`
	}
	jsonData struct {
		Name   string   `json:"name"`
		Bytes  int64    `json:"bytes"`
		Blocks []uint64 `json:"blocks"` // file, place in units of AlignBytes and checksum of each
	}
)

// bounded is a list of at most maxParts: three bytes of JSON would make 56 of memory.
type bounded[T any] []T

// UnmarshalJSON reads one after another, so that nothing is made of those that are too many.
func (l *bounded[T]) UnmarshalJSON(src []byte) error {
	*l = nil
	d := json.NewDecoder(bytes.NewReader(src))
	d.DisallowUnknownFields()
	if begin, err := d.Token(); err != nil || begin != json.Delim('[') {
		return errors.Join(errors.New("no list where one should be"), err)
	}
	for d.More() {
		if len(*l) == maxParts {
			return fmt.Errorf("a list of more than %d, which are the most", maxParts)
		}
		var x T
		if err := d.Decode(&x); err != nil {
			return err
		}
		*l = append(*l, x)
	}
	return nil
}

// Encode returns the content of a manifest's file: a line with the version and the
// checksum and length of what follows, which is JSON.
func (m *Manifest) Encode() ([]byte, error) {
	j := jsonManifest{m.Seq, m.Folder, m.Name, [][2]string{}, m.Done, m.Total, m.Finished, m.Unix, []jsonData{}}
	for _, p := range m.Params {
		j.Params = append(j.Params, [2]string{p.Key, p.Value})
	}
	for _, d := range m.Data {
		blocks := make([]uint64, 0, 3*len(d.Blocks))
		for _, b := range d.Blocks {
			blocks = append(blocks, b.File, uint64(b.At/AlignBytes), uint64(b.Sum))
		}
		j.Data = append(j.Data, jsonData{d.Name, d.Bytes, blocks})
	}
	body, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	src := append(fmt.Appendf(nil, "weft checkpoint %d %08x %d\n", Version, Sum(body), len(body)), body...)
	if parts := max(len(m.Params), len(m.Data)); len(src) > maxManifest || parts > maxParts {
		return nil, fmt.Errorf("the state has too many parts to be kept: its manifest has %d bytes and %d parameters or data, and %d and %d are the most", len(src), parts, maxManifest, maxParts)
	}
	return src, nil
}

// Decode reads the content of a manifest's file. What it returns is consistent in itself;
// whether its data files are there is another question.
func Decode(src []byte) (*Manifest, error) {
	line, body, ok := bytes.Cut(src, []byte("\n"))
	words := bytes.Fields(line[:min(len(line), 100)])
	if !ok || len(words) != 5 || string(words[0]) != "weft" || string(words[1]) != "checkpoint" {
		if len(words) >= 3 && string(words[0]) == "weft" && string(words[1]) == "checkpoint" && string(words[2]) != strconv.Itoa(Version) {
			return nil, otherVersion(words[2])
		}
		return nil, fmt.Errorf("%w: it does not begin as a checkpoint of weft does", ErrDamaged)
	}
	if string(words[2]) != strconv.Itoa(Version) {
		return nil, otherVersion(words[2])
	}
	if n, err := strconv.Atoi(string(words[4])); err != nil || n != len(body) {
		return nil, fmt.Errorf("%w: it has %d bytes after its first line, which says %.20q", ErrDamaged, len(body), words[4])
	}
	if sum := fmt.Sprintf("%08x", Sum(body)); sum != string(words[3]) {
		return nil, fmt.Errorf("%w: its checksum is %s, and it should be %.20q", ErrDamaged, sum, words[3])
	}
	var j jsonManifest
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&j); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("%w: something follows its end", ErrDamaged)
	}
	return j.manifest()
}

func otherVersion(word []byte) error {
	return fmt.Errorf("%w: its format is %.20q, and this weft reads %d", ErrVersion, word, Version)
}

// manifest checks what was read.
func (j *jsonManifest) manifest() (*Manifest, error) {
	m := &Manifest{Meta: Meta{j.Name, nil, j.Done, j.Total, j.Finished, j.Unix}, Seq: j.Seq, Folder: j.Folder}
	if j.Seq == 0 || j.Seq > maxNumber || j.Done < 0 || j.Total < j.Done || !utf8.ValidString(j.Name) {
		return nil, fmt.Errorf("%w: number %d, %d of %d steps", ErrDamaged, j.Seq, j.Done, j.Total)
	}
	for _, p := range j.Params {
		m.Params = append(m.Params, Param{p[0], p[1]})
	}
	names := make(map[string]bool)
	for _, d := range j.Data {
		if d.Bytes < 0 || names[d.Name] || int64(len(d.Blocks)) != 3*((d.Bytes-1)/BlockBytes+1) || d.Bytes == 0 {
			return nil, fmt.Errorf("%w: data %q has %d bytes and %d numbers for its blocks", ErrDamaged, d.Name, d.Bytes, len(d.Blocks))
		}
		names[d.Name] = true
		out := Data{d.Name, d.Bytes, make([]Block, 0, len(d.Blocks)/3)}
		for b := range slices.Chunk(d.Blocks, 3) {
			if b[0] > j.Seq || b[1] >= 1<<50 || b[2] >= 1<<32 || b[0] > 0 && b[1] == 0 {
				return nil, fmt.Errorf("%w: data %q has a block at %d of file %d", ErrDamaged, d.Name, b[1], b[0])
			}
			out.Blocks = append(out.Blocks, Block{b[0], int64(b[1]) * AlignBytes, uint32(b[2])})
		}
		m.Data = append(m.Data, out)
	}
	return m, nil
}

// Shown is text of a manifest as a person is shown it: quoted where a terminal might take it
// for something else.
func Shown(s string) string {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// maxDiffer is the largest number of differences that are told.
const maxDiffer = 4

// Differ says how two computations differ, "" if they are the same: first in parameters that both have.
// have describes the computation of the checkpoint, want the one that would resume it.
func Differ(have, want Meta) string {
	if have.Name != want.Name {
		return fmt.Sprintf("it is of %q, and this is %q", have.Name, want.Name)
	}
	values := make(map[string]string, len(want.Params))
	for _, p := range want.Params {
		values[p.Key] = p.Value
	}
	var both, one []string
	for _, p := range have.Params {
		v, ok := values[p.Key]
		switch {
		case !ok:
			one = append(one, fmt.Sprintf("%s is %s there and nothing here", Shown(p.Key), Shown(p.Value)))
		case v != p.Value:
			both = append(both, fmt.Sprintf("%s is %s there and %s here", Shown(p.Key), Shown(p.Value), Shown(v)))
		}
		delete(values, p.Key)
	}
	for _, p := range want.Params {
		if _, ok := values[p.Key]; ok {
			one = append(one, fmt.Sprintf("%s is nothing there and %s here", Shown(p.Key), Shown(p.Value)))
		}
	}
	if have.Total != want.Total {
		one = append(one, fmt.Sprintf("it has %d steps, and this has %d", have.Total, want.Total))
	}
	all := append(both, one...)
	if n := len(all) - maxDiffer; n > 0 {
		all = append(all[:maxDiffer], fmt.Sprintf("and %d more", n))
	}
	return strings.Join(all, ", ")
}
