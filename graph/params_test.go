package graph

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
)

type inner struct {
	a uint32
	b float64
}

type mixed struct {
	n int
	inner
	k    float32
	j    int64
	last int32
}

// The layout is that of C and of push constants: fields at multiples of their size, the
// whole a multiple of its largest.
func TestPackLayout(t *testing.T) {
	p := mixed{n: math.MaxUint32, inner: inner{1, -2}, k: 0.5, j: -3, last: -4}
	got, err := Pack(p)
	want := []byte{
		0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 0xc0,
		0, 0, 0, 0x3f, 0, 0, 0, 0,
		0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		0xfc, 0xff, 0xff, 0xff, 0, 0, 0, 0,
	}
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("packed: % x, %v\nwant    % x", got, err, want)
	}
	if back, err := Unpacker[mixed]()(got); back != p || err != nil {
		t.Errorf("unpacked: %+v, %v", back, err)
	}
	for _, n := range []int{0, len(want) - 4, len(want) + 4} {
		_, err := Unpacker[mixed]()(make([]byte, n))
		if !errors.Is(err, ErrParams) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func TestPackRefuses(t *testing.T) {
	type count struct{ n int }
	type named struct{ s string }
	for want, p := range map[string]any{
		"graph.count.n is 5000000000":     count{5_000_000_000},
		"graph.count.n is -1":             count{-1},
		"graph.mixed.n is -7":             mixed{n: -7},
		"graph.named.s is of type string": named{"x"},
		"are a structure, not int: use struct{ N int } or the like, each field an int, uint32, int32, float32, uint64, int64 or float64": 5,
		"are a structure, not <nil>":        nil,
		"are a structure, not *graph.count": &count{},
	} {
		got, err := Pack(p)
		if !errors.Is(err, ErrValue) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || got != nil {
			t.Errorf("%+v: %v, %v; want %q", p, got, err, want)
		}
	}
	if _, err := Unpacker[named]()(nil); !errors.Is(err, ErrValue) {
		t.Errorf("unpacking a string: %v", err)
	}
	// A step carries the mistake to Build.
	var b Builder
	d := b.Data(Data{Name: "d", Bytes: 8})
	step := Step{Kernel: testKernel, Launch: Launch{Grid: [3]uint32{1, 1, 1}}}.With(count{5_000_000_000})
	b.Add(Task{Name: "a", Steps: []Step{step}, Uses: []Use{{Data: d, Access: Write}}})
	const line = `task "a": step 0: bad value: graph.count.n is 5000000000: an int among parameters is from 0 to 4294967295`
	if _, err := b.Build(); err == nil || err.Error() != line {
		t.Errorf("Build: %v\nwant   %s", err, line)
	}
}

func BenchmarkPack(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_, _ = Pack(mixed{n: 5})
	}
}

func BenchmarkUnpack(b *testing.B) {
	b.ReportAllocs()
	params, _ := Pack(mixed{n: 5})
	unpack := Unpacker[mixed]()
	for b.Loop() {
		_, _ = unpack(params)
	}
}

// The declaration has the names that internal/tools/weftparams gives them, and numbers where Pack has them.
func TestDeclare(t *testing.T) {
	type inner struct{ X, Y int }
	got, err := Declare("P", struct {
		FirstRow, N int
		inner
		Seed  uint32
		Shift int32
		Big   uint64
		Less  int64
		K     float32
		Wide  float64
	}{})
	want := "struct P { unsigned first_row; unsigned n; unsigned x; unsigned y; unsigned seed; int shift; unsigned long long big; long long less; float k; double wide; };"
	if got != want || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := Declare("P", struct{ S string }{}); !errors.Is(err, ErrValue) {
		t.Error(err)
	}
}
