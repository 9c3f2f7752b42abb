package main

import (
	"context"
	"fmt"
	"go/format"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const sample = `package p

type t int

func (x t) String() string { return "a" + "b" }

func f(a, b int, ok bool) (int, error) {
	c := 1
	if a < b && ok {
		c = 2
		c++
	}
	for i := 0; i < a; i++ {
		g(func() bool { return i == 0 })
	}
	switch {
	case ok:
		panic("no" + "where")
	}
	return c, nil
}

func g(fn func() bool) []int {
	fn()
	return []int{7}
}
`

// Every kind of mutant is made where it can be, and what is for people is left alone.
func TestMutants(t *testing.T) {
	all, err := mutants("p/f.go", []byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	keys := make(map[string]bool)
	for _, m := range all {
		fmt.Fprintf(&got, "%d %s %s\n", m.Line, m.Kind, m.What)
		if _, err := format.Source(m.apply([]byte(sample))); err != nil {
			t.Errorf("%d %s %s: %v", m.Line, m.Kind, m.What, err)
		}
		if keys[m.Key] {
			t.Errorf("%d %s %s: its key is another's, too", m.Line, m.Kind, m.What)
		}
		keys[m.Key] = true
	}
	const want = `8 constant 1 → (1 + 1)
8 constant 1 → (1 - 1)
9 negate a < b && ok → !(a < b && ok)
9 operator < → <=
9 operator < → >
9 operator && → ||
10 remove c = 2 → {}
10 constant 2 → (2 + 1)
10 constant 2 → (2 - 1)
11 remove c++ → {}
13 constant 0 → (0 + 1)
13 negate i < a → !(i < a)
13 operator < → <=
13 operator < → >
14 remove g(func() bool { return i == 0 }) → {}
14 result i == 0 → !(i == 0)
14 operator == → !=
14 constant 0 → (0 + 1)
20 result c → (c) + 1
24 remove fn() → {}
25 result []int{7} → nil
25 constant 7 → (7 + 1)
25 constant 7 → (7 - 1)
`
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}

// A seed draws the same mutants, and more of them are the same and more.
func TestDraw(t *testing.T) {
	all, err := mutants("p/f.go", []byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	five, ten := draw(all, 3, 5), draw(all, 3, 10)
	for i := range five {
		if five[i].Key != ten[i].Key {
			t.Errorf("number %d differs", i)
		}
	}
	if got := len(draw(all, 3, 1000)); got != len(all) {
		t.Errorf("%d drawn, want all %d", got, len(all))
	}
	same := 0
	for i, m := range draw(all, 4, 10) {
		if m.Key == ten[i].Key {
			same++
		}
	}
	if same == 10 {
		t.Error("another seed draws the same")
	}
}

// A list from outside is read as it is written, and what the code no longer has is named.
func TestPatterns(t *testing.T) {
	list := parsePatterns("import os\nE='p/'\nM=[\n" +
		`("one",E+'f.go','c = 2\n\t\tc++','c = 2'),` + "\n" +
		`("two",'p/f.go',"a < b && ok","a < b",),` + "\n" +
		`("quote",'p/f.go','"no"','\'n\''),` + "\n" +
		`("gone",E+'f.go','nothing like it','x'),` + "\n]\nfor m in M:\n    print(m)\n")
	if len(list) != 4 {
		t.Fatalf("%d entries: %q", len(list), list)
	}
	all, missing, err := fromPatterns(list, func(file string) ([]byte, error) {
		if file != "p/f.go" {
			return nil, os.ErrNotExist
		}
		return []byte(sample), nil
	})
	if err != nil || len(all) != 3 || strings.Join(missing, " ") != "gone" {
		t.Fatalf("%d mutants, missing %q, %v", len(all), missing, err)
	}
	for i, want := range []string{"\t\tc = 2\n\t}\n", "if a < b {", `'n'`} {
		if got := string(all[i].apply([]byte(sample))); !strings.Contains(got, want) {
			t.Errorf("%s: %q is not in %s", list[i].name, want, got)
		}
	}
}

// Mutants of a small module are killed, live or do not compile, and what was tried is
// not tried again.
func TestRun(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module m\n\ngo 1.24\n")
	const code = "package p\n\nfunc F(a int) int { return a + 2 }\n"
	write("p/f.go", code)
	write("p/f_test.go", "package p\n\nimport \"testing\"\n\nfunc TestF(t *testing.T) {\n\tif F(0) != 2 {\n\t\tt.Error(F(0))\n\t}\n}\n")
	write("list", `("minus",'p/f.go','a + 2','a - 2'),`+"\n"+`("times",'p/f.go','a + 2','2'),`+"\n"+`("nonsense",'p/f.go','a + 2','b'),`+"\n")
	results := filepath.Join(root, "results")
	args := []string{"-root", root, "-results", results, "-patterns", filepath.Join(root, "list"), "-own", "-jobs", "2"}
	var first, second strings.Builder
	if err := run(context.Background(), args, &first); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"1/3 killed p/f.go:3 pattern: minus ./p: --- FAIL: TestF", "2/3 survived p/f.go:3 pattern: times", "3/3 not compiled",
		"survived: p/f.go:3 pattern: times", "50.0%",
	} {
		if !strings.Contains(first.String(), want) {
			t.Errorf("%q is not in\n%s", want, first.String())
		}
	}
	if err := run(context.Background(), args, &second); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(second.String(), "1/3") || !strings.HasSuffix(first.String(), second.String()) {
		t.Errorf("the second time:\n%s\nthe first time:\n%s", second.String(), first.String())
	}
	if text, err := os.ReadFile(filepath.Join(root, "p/f.go")); err != nil || string(text) != code {
		t.Errorf("the file was changed: %q, %v", text, err)
	}
	// One that is interrupted says nothing, and its line of results may be cut.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := os.WriteFile(results, []byte(`{"key":"cut`), 0o600); err != nil {
		t.Fatal(err)
	}
	var third strings.Builder
	if err := run(ctx, args, &third); err != nil || !strings.Contains(third.String(), "3 of 3 were not tried") {
		t.Errorf("interrupted: %v\n%s", err, third.String())
	}
	// Tests that fail without a mutant say nothing about any.
	write("p/g_test.go", "package p\n\nimport \"testing\"\n\nfunc TestG(t *testing.T) { t.Error(1) }\n")
	if err := run(context.Background(), args, io.Discard); err == nil || !strings.Contains(err.Error(), "TestG") {
		t.Errorf("with a test that fails: %v", err)
	}
}

// Mutants are drawn from the files that are named, and tried with the tests that are named.
func TestFilesAndTests(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module m\n\ngo 1.24\n",
		"f.go":      "package p\n\nfunc F(a int) int { return a + 2 }\n",
		"g.go":      "package p\n\nfunc G(a int) int { return a + 3 }\n",
		"p_test.go": "package p\n\nimport \"testing\"\n\nfunc TestF(t *testing.T) {\n\tif F(0) != 2 {\n\t\tt.Error(F(0))\n\t}\n}\n\nfunc TestG(t *testing.T) {\n\tif G(0) != 3 {\n\t\tt.Error(G(0))\n\t}\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for tests, outcome := range map[string]string{"": killed, ". -run TestF": survived} {
		var out strings.Builder
		err := run(context.Background(), []string{
			"-root", root, "-packages", ".", "-results", filepath.Join(t.TempDir(), "results"), "-files", `^g\.go$`, "-tests", tests,
		}, &out)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(out.String(), "\n")
		if strings.Contains(out.String(), "f.go") || !strings.Contains(lines[1], " "+outcome+" g.go:3 operator: ") {
			t.Errorf("-tests %q:\n%s", tests, out.String())
		}
	}
}

// A test that never ends is a mutant found.
func TestLimit(t *testing.T) {
	b := &bench{root: t.TempDir(), scratch: t.TempDir(), limit: time.Second}
	for name, text := range map[string]string{
		"go.mod": "module m\n\ngo 1.24\n", "f.go": "package p\n\nvar Done = true\n",
		"f_test.go": "package p\n\nimport \"testing\"\n\nfunc TestF(*testing.T) {\n\tfor !Done {\n\t}\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(b.root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list, _, err := fromPatterns([]entry{{"hang", "f.go", "true", "false"}}, func(file string) ([]byte, error) { return os.ReadFile(filepath.Join(b.root, file)) })
	if err != nil {
		t.Fatal(err)
	}
	o, err := b.try(context.Background(), list[0], 0)
	if err != nil || o.Outcome != killed || !strings.Contains(o.By, "test timed out") {
		t.Errorf("%+v, %v", o, err)
	}
}
