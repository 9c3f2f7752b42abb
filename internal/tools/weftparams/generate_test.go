package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/weft-run/weft/graph"
)

// root is the folder of the module.
const root = "../../.."

// all returns every source of the module but those of other tests.
func all(t *testing.T) (files []string) {
	t.Helper()
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && e.Name()[0] != '.' {
			more, err := find([]string{filepath.Join(root, e.Name())})
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, more...)
		}
	}
	return files
}

// Every declaration in a source is what its Go structure makes it.
func TestCurrent(t *testing.T) {
	declarations := 0
	for _, file := range all(t) {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := generate(file, string(b))
		if err != nil {
			t.Error(err)
		} else if got != string(b) {
			t.Errorf("%s is not what its Go structures make it: go run ./internal/tools/weftparams %s, then compile it again", file, strings.TrimPrefix(file, root+"/"))
		}
		declarations += strings.Count(string(b), "//params:")
	}
	if declarations < 40 {
		t.Errorf("%d declarations were looked at", declarations)
	}
}

var (
	pushed  = regexp.MustCompile(`(?m)^.*\n.*push_constant.*$`)
	include = regexp.MustCompile(`(?m)^#include "(.*)"$`)
	kernels = regexp.MustCompile(`(?m)^(?:KERNEL.*? |extern "C" __global__ void )\w+\((?:[^()]|\n)*?(\w+) \w+\) \{`)
)

// Parameters are declared from Go alone: a declaration by hand would lack its mark.
func TestNoneByHand(t *testing.T) {
	for _, file := range all(t) {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range pushed.FindAllString(string(b), -1) {
			if !strings.HasPrefix(m, "//params:") {
				t.Errorf("%s: no //params: before %q", file, m)
			}
		}
		seen := b // what kernels can take is declared here
		for _, m := range include.FindAllStringSubmatch(string(b), -1) {
			more, err := os.ReadFile(filepath.Join(filepath.Dir(file), m[1]))
			if err != nil {
				t.Fatal(err)
			}
			seen = append(seen, more...)
		}
		for _, m := range kernels.FindAllStringSubmatch(string(b), -1) {
			marked := regexp.MustCompile(`//params: .*\nstruct ` + m[1] + ` \{`)
			if !marked.Match(seen) {
				t.Errorf("%s: a kernel takes a %s, which no //params: declares", file, m[1])
			}
		}
	}
}

// write makes a module of files.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const module1 = "module example.org/m\n"

// A source is rewritten in both languages, with every type and structures in structures,
// and stays as it is the second time.
func TestRewrite(t *testing.T) {
	dir := write(t, map[string]string{
		"go.mod":     module1,
		"far/far.go": "package far\n\n// Far is far.\ntype Far struct {\n\tX, Y int // where\n}\n",
		"k/k.go": `package k

import "example.org/m/far"

type near struct{ seed uint32 }

type params struct {
	FirstRow, n int
	near
	at far.Far
	Delta int32
	big   uint64
	Less  int64
	// Scale is scale.
	Scale float32
	E2    float64 // energy
}
`,
		"k/k.cu":        "before\n//params: params\nstruct P { int old; };\nafter\n//params: far.Far\nstruct F {\n};",
		"k/sub/k.comp":  "//params: ../../k.params\nlayout(push_constant) uniform P {\n\tnothing\n\tmuch\n};\nvoid main() {}\n",
		"k/sub/none.cu": "struct P {\n};\n",
	})
	files, err := find([]string{dir})
	if err != nil || len(files) != 3 {
		t.Fatalf("found %q, %v", files, err)
	}
	for range 2 {
		for _, f := range files {
			if err := rewrite(f); err != nil {
				t.Fatal(err)
			}
		}
		for name, want := range map[string]string{
			"k/k.cu": `before
//params: params
struct P {
	unsigned first_row, n;
	unsigned seed;
	unsigned x, y; // where
	int delta;
	unsigned long long big;
	long long less;
	float scale;
	double e2; // energy
};
after
//params: far.Far
struct F {
	unsigned x, y; // where
};`,
			"k/sub/k.comp": `//params: ../../k.params
layout(push_constant) uniform P {
	uint first_row, n;
	uint seed;
	uint x, y; // where
	int delta;
	uint64_t big;
	int64_t less;
	float scale;
	double e2; // energy
};
void main() {}
`,
			"k/sub/none.cu": "struct P {\n};\n",
		} {
			if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != want {
				t.Errorf("%s is\n%s\nwant\n%s", name, b, want)
			}
		}
	}
}

// A declaration has what graph.Pack packs: a structure once for each of its names, and
// types by any name for the numbers and structures they are. Every name in it is another.
func TestNamedTypes(t *testing.T) {
	const source = `package k

import "example.org/m/far"

type mode int
type kind = mode
type inner struct { X, Y int32 }
type outer inner

type params struct {
	mode
	Kind       kind // of them
	Far        far.Mode
	First, Two inner
	Box        struct{ N far.Mode }
	Last       outer
}
`
	dir := write(t, map[string]string{
		"go.mod":     module1,
		"far/far.go": "package far\n\ntype Mode Other\ntype Other float32\n",
		"k/k.go":     source,
		"k/k.cu":     "//params: params\nstruct P {\n};\n",
	})
	file := filepath.Join(dir, "k/k.cu")
	if err := rewrite(file); err != nil {
		t.Fatal(err)
	}
	const want = `//params: params
struct P {
	unsigned mode;
	unsigned kind; // of them
	float far;
	int first_x, first_y;
	int two_x, two_y;
	float n;
	int x, y;
};
`
	if b, err := os.ReadFile(file); err != nil || string(b) != want {
		t.Errorf("it is\n%s\nwant\n%s", b, want)
	}
	type mode int
	type inner struct{ X, Y int32 }
	packed, err := graph.Pack(struct {
		mode
		Kind       mode
		Far        float32
		First, Two inner
		Box        struct{ N float32 }
		Last       inner
	}{})
	numbers := strings.Count(want, ";") - 1 + strings.Count(want, ",") // each of four bytes
	if err != nil || len(packed) != 4*numbers {
		t.Errorf("Pack makes %d bytes, %v, and the declaration has %d numbers", len(packed), err, numbers)
	}
}

// What cannot be declared is said with the place, and the source stays as it is.
func TestMistakes(t *testing.T) {
	for source, want := range map[string]string{
		"//params: none\nstruct P {\n};":         "k.cu:1: no number or structure none is declared in ",
		"//params: away.None\nstruct P {\n};":    "k.cu:1: no number or structure None is declared in ",
		"//params: text\nstruct P {\n};":         "k.cu:1: text has a field of type string: no number or structure string is declared in ",
		"//params: list\nstruct P {\n};":         "k.cu:1: list has a field of type []int: it is neither a number nor a structure",
		"//params: blank\nstruct P {\n};":        "k.cu:1: blank has a field without a name",
		"//params: number\nstruct P {\n};":       "k.cu:1: number: it is a number, not a structure",
		"//params: named\nstruct P {\n};":        "k.cu:1: named has a field of type slice: it is neither a number nor a structure",
		"//params: other\nstruct P {\n};":        "k.cu:1: other has a field of type fmt.State: package fmt is not of this module",
		"\n//params: good\nint x;\nstruct P {};": "k.cu:3: a struct or a push_constant block must follow",
		"//params: good\nstruct P {\n":           "k.cu:2: a struct or a push_constant block must follow, and end with };",
		"//params:\nstruct P {\n};":              "k.cu:1: write //params: and the name of a structure",
	} {
		dir := write(t, map[string]string{
			"go.mod": module1, "k.cu": source,
			"k.go": "package k\n\nimport \"fmt\"\n\ntype (\n\ttext struct{ s string }\n\tlist struct{ s []int }\n\tblank struct{ _ int }\n\tother struct{ s fmt.State }\n\tnumber int\n\tslice []int\n\tnamed struct{ s slice }\n\tgood struct{ n int }\n)\n",
		})
		file := filepath.Join(dir, "k.cu")
		err := rewrite(file)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v\nwant %s", source, err, want)
		}
		if b, _ := os.ReadFile(file); string(b) != source {
			t.Errorf("%q became %q", source, b)
		}
	}
	if _, err := find([]string{"nowhere"}); err == nil {
		t.Error("a folder that is not there was found")
	} else if _, ok := err.(*fs.PathError); !ok {
		t.Error(err)
	}
}

// The types that can be declared are those that graph.Pack takes.
func TestTypes(t *testing.T) {
	for _, typ := range []reflect.Type{
		reflect.TypeFor[bool](), reflect.TypeFor[string](), reflect.TypeFor[uint](), reflect.TypeFor[uintptr](),
		reflect.TypeFor[int](), reflect.TypeFor[int8](), reflect.TypeFor[int16](), reflect.TypeFor[int32](), reflect.TypeFor[int64](),
		reflect.TypeFor[uint8](), reflect.TypeFor[uint16](), reflect.TypeFor[uint32](), reflect.TypeFor[uint64](),
		reflect.TypeFor[float32](), reflect.TypeFor[float64](), reflect.TypeFor[complex64](), reflect.TypeFor[complex128](),
	} {
		p := reflect.New(reflect.StructOf([]reflect.StructField{{Name: "X", Type: typ}})).Elem()
		_, err := graph.Pack(p.Interface())
		if (err == nil) != (cuda[typ.Name()] != "") || (err == nil) != (glsl[typ.Name()] != "") {
			t.Errorf("%s: Pack says %v, in CUDA C it is %q and in GLSL %q", typ, err, cuda[typ.Name()], glsl[typ.Name()])
		}
	}
}
