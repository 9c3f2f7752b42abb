package reservoir

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
)

// maxHeader is the longest header of a file, in bytes. Labels are all that makes it long.
const maxHeader = 16 << 20

// tensor is an array of a safetensors file: data is a slice of numbers.
type tensor struct {
	name, dtype string
	shape       []int
	data        any
}

// widths are the bytes of an element, by type.
var widths = map[string]int64{"I32": 4, "F32": 4, "F64": 8}

// place is the entry of a tensor in the header of a file.
type place struct {
	DType   string   `json:"dtype"`
	Shape   []int64  `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
}

// writeTensors writes a safetensors file: the length of a header in JSON, the header
// filled up with blanks to a multiple of eight bytes, and the arrays behind each other.
func writeTensors(w io.Writer, metadata map[string]string, tensors []tensor) (int64, error) {
	header := map[string]any{"__metadata__": metadata}
	// Arrays of eight-byte elements come first, so that every array is aligned.
	slices.SortStableFunc(tensors, func(a, b tensor) int { return int(widths[b.dtype] - widths[a.dtype]) })
	var end int64
	for _, t := range tensors {
		p := place{DType: t.dtype, Shape: []int64{}, Offsets: [2]int64{end, end}}
		n := widths[t.dtype]
		for _, d := range t.shape {
			p.Shape = append(p.Shape, int64(d))
			n *= int64(d)
		}
		end += n
		p.Offsets[1] = end
		header[t.name] = p
	}
	text, err := json.Marshal(header)
	if err != nil {
		return 0, err
	}
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	if len(text) > maxHeader {
		return 0, fmt.Errorf("a header of %d bytes: there may be %d: shorten the labels", len(text), maxHeader)
	}
	n, err := w.Write(append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...))
	total := int64(n)
	buffer := make([]byte, 0, 1<<16)
	for i := 0; i < len(tensors) && err == nil; i++ {
		var written int64
		switch xs := tensors[i].data.(type) {
		case []int32:
			written, err = writeNumbers(w, buffer, xs, func(b []byte, x int32) []byte { return binary.LittleEndian.AppendUint32(b, uint32(x)) })
		case []float32:
			written, err = writeNumbers(w, buffer, xs, func(b []byte, x float32) []byte { return binary.LittleEndian.AppendUint32(b, math.Float32bits(x)) })
		case []float64:
			written, err = writeNumbers(w, buffer, xs, func(b []byte, x float64) []byte { return binary.LittleEndian.AppendUint64(b, math.Float64bits(x)) })
		}
		total += written
	}
	return total, err
}

// writeNumbers writes numbers in pieces of the buffer's capacity.
func writeNumbers[T any](w io.Writer, buffer []byte, xs []T, put func([]byte, T) []byte) (total int64, err error) {
	for len(xs) > 0 {
		piece := xs[:min(len(xs), cap(buffer)/8)]
		xs = xs[len(piece):]
		buffer = buffer[:0]
		for _, x := range piece {
			buffer = put(buffer, x)
		}
		n, err := w.Write(buffer)
		total += int64(n)
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// tensorFile is an open safetensors file.
type tensorFile struct {
	r        io.ReaderAt
	begin    int64 // of the arrays
	metadata map[string]string
	places   map[string]place
	read     map[string]bool
}

// openTensors reads the header of a safetensors file and sees that its arrays lie behind
// each other and fill the file.
func openTensors(r io.ReaderAt, size int64) (*tensorFile, error) {
	var length [8]byte
	if size < 8 {
		return nil, fmt.Errorf("%d bytes are no safetensors file", size)
	}
	if _, err := r.ReadAt(length[:], 0); err != nil && err != io.EOF {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > maxHeader || int64(n) > size-8 {
		return nil, fmt.Errorf("a header of %d bytes in %d: this is no safetensors file, or a part of one", n, size)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(io.NewSectionReader(r, 8, int64(n)), text); err != nil {
		return nil, err
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	f := &tensorFile{r: r, begin: 8 + int64(n), places: map[string]place{}, read: map[string]bool{}}
	if m, ok := raw["__metadata__"]; ok {
		delete(raw, "__metadata__")
		if err := json.Unmarshal(m, &f.metadata); err != nil {
			return nil, fmt.Errorf("metadata: %w", err)
		}
	}
	var order []place
	for name, m := range raw {
		var p place
		if err := json.Unmarshal(m, &p); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		f.places[name] = p
		order = append(order, p)
	}
	slices.SortFunc(order, func(a, b place) int { return slices.Compare(a.Offsets[:], b.Offsets[:]) })
	var end int64
	for _, p := range order {
		if p.Offsets[0] != end || p.Offsets[1] < end || p.Offsets[1] > size-f.begin {
			return nil, fmt.Errorf("a tensor from byte %d to %d, after %d of %d: tensors must lie behind each other", p.Offsets[0], p.Offsets[1], end, size-f.begin)
		}
		end = p.Offsets[1]
	}
	if end != size-f.begin {
		return nil, fmt.Errorf("tensors of %d bytes, and the file has %d", end, size-f.begin)
	}
	return f, nil
}

// length is the number of elements of an array of one dimension, 0 if there is none.
func (f *tensorFile) length(name string) int {
	if p := f.places[name]; len(p.Shape) == 1 {
		return int(min(max(p.Shape[0], 0), math.MaxInt32))
	}
	return 0
}

// readTensor reads an array, which must have a type and a shape. Its bytes are known to
// be in the file, so that no more memory is taken than the file is long.
func readTensor[T int32 | float32 | float64](f *tensorFile, name, dtype string, xs *[]T, shape ...int) error {
	p, ok := f.places[name]
	if !ok {
		return fmt.Errorf("tensor %q is missing", name)
	}
	f.read[name] = true
	want, n := []int64{}, int64(1)
	for _, d := range shape {
		want = append(want, int64(d))
		n *= int64(d)
	}
	if p.DType != dtype || !slices.Equal(p.Shape, want) || p.Offsets[1]-p.Offsets[0] != n*widths[dtype] {
		return fmt.Errorf("tensor %q is %s %v in %d bytes: it must be %s %v", name, p.DType, p.Shape, p.Offsets[1]-p.Offsets[0], dtype, want)
	}
	*xs = make([]T, n)
	return binary.Read(io.NewSectionReader(f.r, f.begin+p.Offsets[0], n*widths[dtype]), binary.LittleEndian, *xs)
}

// leftOver names a tensor that was not read.
func (f *tensorFile) leftOver() error {
	for _, name := range slices.Sorted(maps.Keys(f.places)) {
		if !f.read[name] {
			return fmt.Errorf("tensor %q is none of a reservoir's", name)
		}
	}
	return nil
}
