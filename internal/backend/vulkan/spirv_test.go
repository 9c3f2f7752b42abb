package vulkan

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/weft-run/weft/experimental/driver"
)

func readTest(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name + ".spv")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestReadShader(t *testing.T) {
	for _, c := range []struct {
		name            string
		bindings, bytes int
		size            [3]uint32
		open            [3]bool
		shared          int
		sharedBy        [3]int
	}{
		{"noop", 0, 0, [3]uint32{64, 1, 1}, [3]bool{}, 0, [3]int{}},
		{"add", 1, 8, [3]uint32{64, 1, 1}, [3]bool{}, 0, [3]int{}},
		{"saxpy", 2, 8, [3]uint32{64, 1, 1}, [3]bool{}, 0, [3]int{}},
		{"gather", 3, 8, [3]uint32{64, 1, 1}, [3]bool{}, 0, [3]int{}},
		{"where", 1, 8, [3]uint32{1, 1, 1}, [3]bool{true, true, true}, 0, [3]int{}},
		{"rows", 1, 8, [3]uint32{1, 2, 1}, [3]bool{true, false, false}, 24, [3]int{16, 0, 0}},
		{"heap", 1, 8, [3]uint32{64, 1, 1}, [3]bool{}, 4<<18 + 44, [3]int{}},
	} {
		s, err := readShader(readTest(t, c.name), "main")
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if s.bindings != c.bindings || s.pushBytes != c.bytes || s.size != c.size || s.open != c.open || s.shared != c.shared || s.sharedBy != c.sharedBy {
			s.words = nil
			t.Errorf("%s is %+v; want %+v", c.name, s, c)
		}
		if got, want := s.sharedBytes([3]uint32{32, 2, 1}), c.shared+32*c.sharedBy[0]; got != want {
			t.Errorf("groups of %s share %d bytes, want %d", c.name, got, want)
		}
	}
}

// A driver that is given any of these may end the process.
func TestReadShaderRefuses(t *testing.T) {
	whole := readTest(t, "add")
	change := func(word int, to uint32) []byte {
		b := append([]byte(nil), whole...)
		binary.LittleEndian.PutUint32(b[4*word:], to)
		return b
	}
	for name, c := range map[string]struct {
		source []byte
		entry  string
		says   string
	}{
		"nothing":              {nil, "main", "no SPIR-V"},
		"text":                 {[]byte("this is no kernel, whatever it says"), "main", "no SPIR-V"},
		"odd length":           {whole[:len(whole)-1], "main", "no SPIR-V"},
		"half":                 {whole[:len(whole)/8*4], "main", "SPIR-V"},
		"a head":               {whole[:20], "main", "no compute shader"},
		"no entry":             {whole, "other", `no entry "other"; it has ["main"]`},
		"an empty instruction": {change(5, 17), "main", "broken at word 5"},
		"a long instruction":   {change(5, 0xffff<<16|17), "main", "broken at word 5"},
		"a newer version":      {change(1, 0x10600), "main", "version 1.6"},
	} {
		if s, err := readShader(c.source, c.entry); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, %v; want an error with %q", name, s, err, c.says)
		}
	}
	for n := range len(whole) / 4 { // cut off anywhere it is refused
		if _, err := readShader(whole[:4*n], "main"); err == nil {
			t.Errorf("the first %d words of a shader are one", n)
		}
	}
}

func FuzzReadShader(f *testing.F) {
	for _, name := range []string{"noop", "add", "where", "rows", "heap", "layout"} {
		b, err := os.ReadFile("testdata/" + name + ".spv")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, source []byte) {
		if s, err := readShader(source, "main"); err == nil && (s.bindings < 0 || s.pushBytes < 0 || s.sharedBytes(s.size) < 0 || len(s.words) != len(source)/4) {
			t.Errorf("%d bytes read as %+v", len(source), s)
		}
	})
}

// Without a loader there is nothing, and nothing is wrong.
func TestNoLoader(t *testing.T) {
	names := libraryNames
	libraryNames = []string{"libweft-no-such-library.so"}
	defer func() { libraryNames = names }()
	d := New(Options{LibraryPath: []string{t.TempDir()}})
	if devs, err := d.Open(context.Background(), nil); !errors.Is(err, driver.ErrUnavailable) || devs != nil {
		t.Errorf("open without a loader: %v, %v; want %q", devs, err, driver.ErrUnavailable)
	}
	if got := d.(driver.Examiner).Examine(); len(got) != 1 || got[0].OK || got[0].Fix == "" {
		t.Errorf("examined without a loader: %+v", got)
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{{Streams: -1}, {Streams: maxLanes + 1}, {MemBytes: -1}, {Devices: []int{0, -1}}} {
		if _, err := New(o).Open(context.Background(), nil); err == nil || errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("%+v: %v; want it refused", o, err)
		}
	}
}
