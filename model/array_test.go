package model

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/weft-run/weft/graph"
)

// npy is a file as NumPy writes it, of a version of its format.
func npy(major byte, header string, elements []byte) []byte {
	b := append([]byte("\x93NUMPY"), major, 0)
	if major == 1 {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(header)))
	} else {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(header)))
	}
	return append(append(b, header...), elements...)
}

// dict is a header as NumPy writes it.
func dict(descr, order, shape string) string {
	return fmt.Sprintf("{'descr': %s, 'fortran_order': %s, 'shape': %s, }   \n", descr, order, shape)
}

func TestParseNPY(t *testing.T) {
	eight := []byte{0, 1, 0, 1, 1, 0, 0, 1}
	for _, c := range []struct {
		name  string
		src   []byte
		elem  graph.Elem
		shape []int64
	}{
		{"1.0", npy(1, dict("'<f4'", "False", "(2,)"), eight), graph.F4, []int64{2}},
		{"2.0", npy(2, dict("'<f8'", "False", "(1, 1)"), eight), graph.F8, []int64{1, 1}},
		{"3.0", npy(3, dict("'<f2'", "False", "(2, 2)"), eight), graph.F2, []int64{2, 2}},
		{"a number", npy(1, dict("'<i8'", "False", "()"), eight), graph.I8, []int64{}},
		{"nothing", npy(1, dict("'<i8'", "False", "(0, 5)"), nil), graph.I8, []int64{0, 5}},
		{"bytes", npy(1, dict("'|u1'", "False", "(8,)"), eight), graph.U1, []int64{8}},
		{"signed bytes", npy(1, dict("'|i1'", "False", "(2, 4)"), eight), graph.I1, []int64{2, 4}},
		{"truth", npy(1, dict("'|b1'", "False", "(4, 2)"), eight), graph.B1, []int64{4, 2}},
		{"i2", npy(1, dict("'<i2'", "False", "(4,)"), eight), graph.I2, []int64{4}},
		{"u2", npy(1, dict("'<u2'", "False", "(4,)"), eight), graph.U2, []int64{4}},
		{"i4", npy(1, dict("'<i4'", "False", "(2,)"), eight), graph.I4, []int64{2}},
		{"u4", npy(1, dict("'<u4'", "False", "(2,)"), eight), graph.U4, []int64{2}},
		{"u8", npy(1, dict("'<u8'", "False", "(1,)"), eight), graph.U8, []int64{1}},
		{"Python 2", npy(1, dict("'<u4'", "False", "(2L, 1L)"), eight), graph.U4, []int64{2, 1}},
		{"another order", npy(1, `{"shape":(2,),"fortran_order":False,"descr":"<u4"}`, eight), graph.U4, []int64{2}},
	} {
		a, err := ParseNPY(c.src)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if a.Elem != c.elem || !slices.Equal(a.Shape, c.shape) || !bytes.Equal(a.Bytes, eight[:len(a.Bytes)]) {
			t.Errorf("%s: %+v", c.name, a)
		}
		if len(a.Bytes) > 0 && uintptr(unsafe.Pointer(&a.Bytes[0]))%uintptr(a.Elem.Size()) != 0 {
			t.Errorf("%s: elements are not aligned", c.name)
		}
	}
}

func TestParseNPYRefuses(t *testing.T) {
	four := make([]byte, 4)
	good := npy(1, dict("'<f4'", "False", "(1,)"), four)
	for want, src := range map[string][]byte{
		`no file in NumPy's format: it does not begin with \x93NUMPY`: []byte("PK\x03\x04 an archive"),
		"version 4.0 of NumPy's format; 1.0, 2.0 and 3.0 are read":    npy(4, "", nil),
		"it ends in its header":                                                     good[:20],
		"a header of 4294967295 bytes; 10000 are the most":                          append([]byte("\x93NUMPY\x02\x00"), 255, 255, 255, 255),
		"float32 in the shape [1] take 4 bytes, and there are 3":                    good[:len(good)-1],
		"float32 in the shape [1] take 4 bytes, and there are 5":                    append(slices.Clone(good), 0),
		"it holds Python objects, pickled, which are not read; save numbers":        npy(1, dict("'|O'", "False", "(1,)"), four),
		"it holds records; save each field as an array of its own":                  npy(1, dict("[('a', '<f4')]", "False", "(1,)"), four),
		`it is big-endian; save x.astype("<f4")`:                                    npy(1, dict("'>f4'", "False", "(1,)"), four),
		"it is in Fortran order; save numpy.ascontiguousarray(x)":                   npy(1, dict("'<f4'", "True", "(1,)"), four),
		`elements of type "<c8"; f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1 are read`:      npy(1, dict("'<c8'", "False", "(1,)"), four),
		`elements of type "<float32"; f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1 are read`: npy(1, dict("'<float32'", "False", "(1,)"), four),
		"float32 in the shape [4294967296 4294967296 4294967296] are too many":      npy(1, dict("'<f4'", "False", "(4294967296, 4294967296, 4294967296)"), four),
		"its header is none of NumPy's, near \"-1,), }   \\n\"":                     npy(1, dict("'<f4'", "False", "(-1,)"), four),
		"its header is none of NumPy's, near \"), }   \\n\"":                        npy(1, dict("'<f4'", "False", "(1)"), four),
		"its header is none of NumPy's, near \"nan,), }   \\n\"":                    npy(1, dict("'<f4'", "False", "(nan,)"), four),
		"its header is none of NumPy's, near \"\"":                                  npy(1, "{'descr': '<f4', 'fortran_order': False}", four),
		"its header is none of NumPy's, near \": '<f4'}\"":                          npy(1, "{'descr': '<f4', 'descr': '<f4'}", four),
		"its header is none of NumPy's, near \"99999999999999999999\"":              npy(1, dict("'<f4'", "False", "(99999999999999999999,)"), four),
		"it has more than 64 dimensions":                                            npy(1, dict("'<f4'", "False", "("+strings.Repeat("1, ", 65)+")"), four),
		"element 2 is a bool of the value 7; it must be 0 or 1":                     npy(1, dict("'|b1'", "False", "(4,)"), []byte{0, 1, 7, 0}),
		"its header is none of NumPy's, near \"__import__('os').sys\"":              npy(1, "__import__('os').system('true')", four),
	} {
		a, err := ParseNPY(src)
		if !errors.Is(err, ErrArray) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%+v, %v; want %s", a, err, want)
		}
	}
}

// What is written is as NumPy writes it, and is read back.
func TestWriteNPY(t *testing.T) {
	var b bytes.Buffer
	a := &Array{graph.F4, []int64{3, 3}, make([]byte, 36)}
	for i, x := range []float32{1, 2, 1, 2, 4, 2, 1, 2, 1} {
		binary.LittleEndian.PutUint32(a.Bytes[4*i:], math.Float32bits(x/16))
	}
	if err := a.WriteNPY(&b); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("../examples/blur/gauss.npy") // laid out as numpy.save does
	if err != nil || !bytes.Equal(b.Bytes(), want) {
		t.Errorf("written:\n%q\nwant:\n%q, %v", b.Bytes(), want, err)
	}
	for _, bad := range []*Array{{graph.F4, []int64{2}, make([]byte, 4)}, {"", []int64{4}, make([]byte, 4)}, {graph.F4, []int64{-1}, nil}} {
		if err := bad.WriteNPY(&b); !errors.Is(err, ErrArray) {
			t.Errorf("%+v was written: %v", bad, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a := &Array{Elem: rapid.SampledFrom([]graph.Elem{graph.F2, graph.F4, graph.F8, graph.I1, graph.I2, graph.I4, graph.I8, graph.U1, graph.U2, graph.U4, graph.U8, graph.B1}).Draw(t, "elem")}
		a.Shape = rapid.SliceOfN(rapid.Int64Range(0, 5), 0, 4).Draw(t, "shape")
		n, _ := a.Elem.Bytes(a.Shape)
		a.Bytes = rapid.SliceOfN(rapid.ByteRange(0, 1), int(n), int(n)).Draw(t, "bytes")
		var b bytes.Buffer
		if err := a.WriteNPY(&b); err != nil {
			t.Fatal(err)
		}
		if begin := b.Len() - len(a.Bytes); begin%64 != 0 {
			t.Fatalf("elements begin at byte %d", begin)
		}
		back, err := ParseNPY(b.Bytes())
		if err != nil || back.Elem != a.Elem || !slices.Equal(back.Shape, a.Shape) || !bytes.Equal(back.Bytes, a.Bytes) {
			t.Fatalf("%+v came back as %+v, %v", a, back, err)
		}
	})
}

func TestValues(t *testing.T) {
	a := &Array{graph.F4, []int64{2}, []byte{0, 0, 128, 63, 0, 0, 0, 64}}
	if xs, err := Values[float32](a); err != nil || !slices.Equal(xs, []float32{1, 2}) {
		t.Errorf("%v, %v", xs, err)
	}
	if xs, err := Values[int32](a); !errors.Is(err, ErrArray) {
		t.Errorf("float32 came out as int32: %v", xs)
	}
	a.Elem = graph.F2
	if xs, err := Values[uint16](a); err != nil || len(xs) != 4 {
		t.Errorf("bits of float16: %v, %v", xs, err)
	}
}

// FuzzNPY looks for a file that makes ParseNPY panic, or that it reads as an array whose
// parts do not go together or that does not survive being written.
func FuzzNPY(f *testing.F) {
	four := []byte{1, 0, 1, 0}
	f.Add(npy(1, dict("'<f4'", "False", "(1,)"), four))
	f.Add(npy(2, dict("'|b1'", "False", "(2, 2)"), four))
	f.Add(npy(3, dict("'<u2'", "False", "(2L,)"), four))
	f.Add(npy(1, dict("'<f4'", "False", "()"), four))
	f.Add(npy(1, dict("'>f4'", "True", "(1,)"), four))
	f.Add(npy(1, dict("'|O'", "False", "(9223372036854775807, 0)"), nil))
	f.Add(npy(1, dict("[('a', '<f4')]", "False", "(1)"), four))
	f.Fuzz(func(t *testing.T, src []byte) {
		a, err := ParseNPY(src)
		if err != nil {
			if !errors.Is(err, ErrArray) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("a poor error: %v", err)
			}
			return
		}
		if n, ok := a.Elem.Bytes(a.Shape); !ok || n != int64(len(a.Bytes)) {
			t.Fatalf("%d bytes of %s in the shape %v", len(a.Bytes), a.Elem, a.Shape)
		}
		var b bytes.Buffer
		if err := a.WriteNPY(&b); err != nil {
			t.Fatal(err)
		}
		back, err := ParseNPY(b.Bytes())
		if err != nil || back.Elem != a.Elem || !slices.Equal(back.Shape, a.Shape) || !bytes.Equal(back.Bytes, a.Bytes) {
			t.Fatalf("%+v came back as %+v, %v", a, back, err)
		}
	})
}
