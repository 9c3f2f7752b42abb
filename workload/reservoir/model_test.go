package reservoir

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/weft-run/weft/internal/philox"
)

// someModel returns a small model with a readout of random weights.
func someModel(t testing.TB, p Params, steps, outputs int, feature string) *Model {
	t.Helper()
	w := mustNew(t, p)
	r := &Readout{Outputs: outputs, Inputs: p.Size, Weights: make([]float64, outputs*(p.Size+1))}
	draw := philox.Source{Seed: 7, Stream: streamValues}
	for i := range r.Weights {
		r.Weights[i] = philox.Symmetric(draw.Uint32(uint64(i), 0, 0))
	}
	return &Model{Weights: w, Readout: r, Steps: steps, Mode: Sequence, Feature: feature}
}

func tinyParams() Params {
	p := Defaults()
	p.Size, p.Inputs, p.BiasScaling, p.Connectivity = 21, 3, 0.1, 0.4
	return p
}

func written(t testing.TB, m *Model) []byte {
	t.Helper()
	var b bytes.Buffer
	n, err := m.WriteTo(&b)
	if err != nil || n != int64(b.Len()) {
		t.Fatalf("wrote %d of %d bytes: %v", n, b.Len(), err)
	}
	return b.Bytes()
}

func read(b []byte) (*Model, error) { return ReadModel(bytes.NewReader(b), int64(len(b))) }

func TestModelRoundTrip(t *testing.T) {
	m := someModel(t, tinyParams(), 5, 2, Last)
	m.Labels = []string{"néant", "\"être\""}
	histogram := someModel(t, tinyParams(), 1, 1, Mean)
	histogram.Mode = Histogram
	bare := tinyParams() // no input weight at all
	bare.Inputs, bare.Connectivity, bare.Size = 1, 0.02, 60
	for bare.Seed = 1; ; bare.Seed++ {
		if w, err := New(bare); err == nil && len(w.Input.Value) == 0 {
			break
		}
	}
	for _, m := range []*Model{m, histogram, someModel(t, bare, 3, 1, Mean)} {
		b := written(t, m)
		got, err := read(b)
		if err != nil {
			t.Fatal(err)
		}
		// Slices without elements may be nil on one side.
		for _, x := range []*Model{m, got} {
			x.Weights.Input.Column, x.Weights.Input.Value = append([]int32{}, x.Weights.Input.Column...), append([]float32{}, x.Weights.Input.Value...)
		}
		if !reflect.DeepEqual(got, m) {
			t.Errorf("read %+v, wrote %+v", got, m)
		}
		if !bytes.Equal(written(t, got), b) {
			t.Error("written again, the file differs")
		}
	}
}

// A file is what the format's own description says: the length of a header, JSON with
// types, shapes and offsets, and the numbers at those offsets.
func TestModelIsSafetensors(t *testing.T) {
	m := someModel(t, tinyParams(), 5, 2, Mean)
	b := written(t, m)
	n := binary.LittleEndian.Uint64(b)
	var header map[string]json.RawMessage
	if err := json.Unmarshal(b[8:8+n], &header); err != nil {
		t.Fatal(err)
	}
	var metadata map[string]string
	if err := json.Unmarshal(header["__metadata__"], &metadata); err != nil {
		t.Fatal(err)
	}
	var at struct {
		DType   string   `json:"dtype"`
		Shape   []int    `json:"shape"`
		Offsets [2]int64 `json:"data_offsets"`
	}
	if err := json.Unmarshal(header["readout"], &at); err != nil {
		t.Fatal(err)
	}
	if at.DType != "F64" || !reflect.DeepEqual(at.Shape, []int{2, 22}) || at.Offsets[1]-at.Offsets[0] != 8*2*22 || n%8 != 0 {
		t.Errorf("readout is %+v behind a header of %d bytes", at, n)
	}
	for i, want := range m.Readout.Weights {
		if got := math.Float64frombits(binary.LittleEndian.Uint64(b[8+int64(n)+at.Offsets[0]+int64(8*i):])); got != want {
			t.Fatalf("weight %d: %v, want %v", i, got, want)
		}
	}
	if len(header) != 9 {
		t.Errorf("%d entries", len(header))
	}
}

// spoiled replaces text of the header, which keeps its length if fill is given.
func spoiled(t testing.TB, b []byte, old, new string) []byte {
	t.Helper()
	n := binary.LittleEndian.Uint64(b)
	header := strings.Replace(string(b[8:8+n]), old, new, 1)
	if header == string(b[8:8+n]) {
		t.Fatalf("the header has no %q: %s", old, header)
	}
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(out, header...), b[8+n:]...)
}

func TestModelRejects(t *testing.T) {
	m := someModel(t, tinyParams(), 5, 2, Mean)
	b := written(t, m)
	begin := 8 + int(binary.LittleEndian.Uint64(b))
	patched := func(at int, v byte) []byte {
		out := bytes.Clone(b)
		out[at] = v
		return out
	}
	first := begin + 8*len(m.Readout.Weights) // of recurrent.start
	columns := first + 4*len(m.Weights.Recurrent.Start)
	values := columns + 4*len(m.Weights.Recurrent.Column)
	nan := bytes.Clone(b)
	binary.LittleEndian.PutUint32(nan[values:], math.Float32bits(float32(math.NaN())))
	infinite := bytes.Clone(b)
	binary.LittleEndian.PutUint64(infinite[begin:], math.Float64bits(math.Inf(1)))
	swapped := bytes.Clone(b)
	copy(swapped[columns:], b[columns+4:columns+8])
	copy(swapped[columns+4:], b[columns:columns+4])
	twice := bytes.Clone(b)
	copy(twice[columns+4:], b[columns:columns+4])
	for name, test := range map[string]struct {
		file []byte
		says string
	}{
		"nothing":         {nil, "no safetensors"},
		"cut short":       {b[:len(b)-1], "tensors must lie behind"},
		"one byte more":   {append(bytes.Clone(b), 0), "the file has"},
		"huge header":     {patched(7, 0x7f), "no safetensors file"},
		"no description":  {spoiled(t, b, `"weft.reservoir":"{`, `"other":"{`), "weft train reservoir"},
		"version":         {spoiled(t, b, `\"version\":1`, `\"version\":2`), "version 2"},
		"unknown key":     {spoiled(t, b, `\"version\":1`, `\"version\":1,\"x\":1`), "unknown field"},
		"mode":            {spoiled(t, b, `\"sequence\"`, `\"other\"`), "mode"},
		"feature":         {spoiled(t, b, `\"mean\"`, `\"median\"`), "feature"},
		"size":            {spoiled(t, b, `\"size\":21`, `\"size\":22`), "recurrent.start"},
		"no neurons":      {spoiled(t, b, `\"size\":21`, `\"size\":-1`), "neurons"},
		"radius":          {spoiled(t, b, `\"spectral_radius\":0.95`, `\"spectral_radius\":1.5`), "spectral radius"},
		"type":            {spoiled(t, b, `"dtype":"F64"`, `"dtype":"F16"`), "readout"},
		"overlap":         {spoiled(t, b, `"data_offsets":[0,`, `"data_offsets":[8,`), "behind each other"},
		"missing":         {spoiled(t, b, `"bias":{`, `"bios":{`), "bias"},
		"starts":          {patched(first+4, 255), "recurrent weights"},
		"column":          {patched(columns, 21), "recurrent weights"},
		"negative column": {patched(columns+3, 255), "recurrent weights"},
		"order":           {swapped, "order"},
		"column twice":    {twice, "order"},
		"not a number":    {nan, "finite"},
		"infinite":        {infinite, "finite"},
	} {
		if _, err := read(test.file); !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	labels := *m
	labels.Labels = []string{"one"}
	if _, err := labels.WriteTo(&bytes.Buffer{}); !errors.Is(err, ErrParams) {
		t.Errorf("one label for two outputs: %v", err)
	}
	if _, err := (&Model{}).WriteTo(&bytes.Buffer{}); !errors.Is(err, ErrParams) {
		t.Errorf("an empty model: %v", err)
	}
}

// What is read can be written and read again, and whatever is in a file reading it
// returns.
func FuzzReadModel(f *testing.F) {
	f.Add(written(f, someModel(f, tinyParams(), 5, 2, Mean)))
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x00{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := read(b)
		if err != nil {
			return
		}
		again, err := read(written(t, m))
		if err != nil || !reflect.DeepEqual(again, m) {
			t.Fatalf("read %+v, then %+v: %v", m, again, err)
		}
	})
}
