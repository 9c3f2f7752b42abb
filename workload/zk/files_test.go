package zk

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bn254/fr"
	cs "github.com/consensys/gnark/constraint/bn254"

	"github.com/weft-run/weft/internal/workloadtest"
)

// Keys that were written are read again, and a proof made with them is accepted.
func TestKeys(t *testing.T) {
	compiled, w, err := Shipped(Range, 130, 4)
	if err != nil {
		t.Fatal(err)
	}
	made, err := Setup(t.Context(), compiled)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "keys")
	if err := made.Write(dir); err != nil {
		t.Fatal(err)
	}
	if err := made.Write(dir); err == nil || !strings.Contains(err.Error(), "there already") {
		t.Errorf("keys are written over: %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, setupFile)); err != nil || !strings.Contains(string(text), `"for_tests_only": true`) {
		t.Errorf("%s, %v: nothing says that keys are for tests only", text, err)
	}
	k, err := ReadKeys(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewProver(workloadtest.Open(t, 2, Funcs()), k.Circuit, k.Proving)
	if err != nil {
		t.Fatal(err)
	}
	proof, err := p.Prove(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	public, err := w.Public()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := proof.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadProof(strings.NewReader(b.String() + "x")); !errors.Is(err, ErrProof) {
		t.Errorf("a proof with a byte after it: %v", err)
	}
	read, err := ReadProof(&b)
	if err != nil {
		t.Fatal(err)
	}
	if err := Verify(k.Verifying, read, public); err != nil {
		t.Error(err)
	}
	// Other public values, too few of them, and a text that is no proof.
	values := public.Vector().(fr.Vector)
	values[0].SetUint64(1)
	if err := Verify(k.Verifying, read, public); !errors.Is(err, ErrProof) {
		t.Errorf("a proof of other values: %v", err)
	}
	if err := Verify(k.Verifying, read, w); !errors.Is(err, ErrProof) || !strings.Contains(err.Error(), "the key is for 1") {
		t.Errorf("a proof of more values: %v", err)
	}
	if _, err := ReadProof(strings.NewReader("no proof")); !errors.Is(err, ErrProof) {
		t.Error(err)
	}
}

// Files of another circuit, damaged ones and those with points off the curve are refused.
func TestWrongKeys(t *testing.T) {
	write := func(name string, constraints int) string {
		compiled, _, err := Shipped(name, constraints, 4)
		if err != nil {
			t.Fatal(err)
		}
		k, err := Setup(t.Context(), compiled)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "keys")
		if err := k.Write(dir); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	dir, other := write(Range, 130), write(Range, 195)
	text, err := os.ReadFile(filepath.Join(dir, provingFile))
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what, says string) {
		t.Helper()
		if _, err := ReadKeys(dir, true); !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", what, err)
		}
	}
	put := func(name string, text []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	theirs, err := os.ReadFile(filepath.Join(other, provingFile))
	if err != nil {
		t.Fatal(err)
	}
	put(provingFile, theirs)
	refused("a key of another circuit", "another circuit or damaged")
	if err := os.Remove(filepath.Join(dir, setupFile)); err != nil {
		t.Fatal(err)
	}
	refused("a key of another circuit without a hash", "another circuit")
	off := bytes.Clone(text)
	off[len(off)/2] ^= 1
	put(provingFile, off)
	refused("a key with a wrong bit", provingFile)
	put(provingFile, text[:len(text)/2])
	refused("half of a key", provingFile)
	put(provingFile, append(slices.Clone(text), 0))
	refused("a key with a byte after it", provingFile)
	put(provingFile, nil)
	refused("an empty key", provingFile)
	put(provingFile, text)
	if _, err := ReadKeys(dir, true); err != nil {
		t.Error(err)
	}
	put(circuitFile, []byte("no circuit"))
	refused("no circuit", circuitFile)
}

// A witness read from JSON has the values that were written, in several forms.
func TestWitness(t *testing.T) {
	compiled, w, err := Shipped(Member, 1400, 4)
	if err != nil {
		t.Fatal(err)
	}
	k, err := Setup(t.Context(), compiled)
	if err != nil {
		t.Fatal(err)
	}
	text, err := WriteWitness(k.Circuit, w)
	if err != nil {
		t.Fatal(err)
	}
	same := func(text string) {
		t.Helper()
		got, err := ReadWitness(k.Circuit, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		x, y := got.Vector().(fr.Vector), w.Vector().(fr.Vector)
		for i := range y {
			if !x[i].Equal(&y[i]) {
				t.Errorf("value %d is %v, want %v", i, &x[i], &y[i])
			}
		}
	}
	same(string(text))
	v := func(i int) string { x := w.Vector().(fr.Vector)[i]; return x.Text(10) }
	h := func(i int) string { x := w.Vector().(fr.Vector)[i]; return "0x" + strings.ToUpper(x.Text(16)) }
	same(`{"Leaves": ["` + v(1) + `"], "Index": [` + v(2) + `], "Path": [["` + h(3) + `", "` + h(4) + `"]], "Root": "` + v(0) + `"}`)
	public, err := WritePublic(k.Circuit, w)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ReadPublic(k.Circuit, public); err != nil {
		t.Error(err)
	}
	for text, says := range map[string]string{
		``:                                     "it is empty",
		`[]`:                                   "a JSON object",
		`5`:                                    "a JSON object",
		`{"Root": 1`:                           "no JSON",
		`{"Root": 1,}`:                         "no JSON from byte 11 on",
		`{"Root": 01}`:                         "no JSON",
		`{"Root": NaN}`:                        "no JSON",
		`{"Root": Infinity}`:                   "no JSON",
		`{"Root" 1}`:                           "no JSON",
		`{Root: 1}`:                            "no JSON",
		"{\"Ro\nt\": 1}":                       "no JSON",
		"{\"Ro\xfft\": 1}":                     "no JSON",
		`{"Leaves": [1}`:                       "no JSON",
		`{"Leaves": [1,]}`:                     "no JSON",
		"\x00":                                 "no JSON",
		`{"Root": 1, "Root": 1}`:               "Root has two values",
		`{"Root": 1, "\u0052oot": 1}`:          "Root has two values",
		`{"Root": 1e2}`:                        "Root must be a whole number from 0 on",
		`{"Root": true}`:                       "Root must be a whole number from 0 on",
		`{"Root": "NaN"}`:                      "Root must be a whole number from 0 on",
		`{"Root": "\u0031"}`:                   "Root must be a whole number from 0 on",
		`{"Root": [1]}`:                        "a value for Root_0",
		`{"Root": {"x": 1}}`:                   "a value for Root_x",
		string(text) + " 2":                    "more than one",
		`{}`:                                   "no value for Root",
		`{"Ro\"ot": 1}`:                        `a value for Ro"ot`,
		`{"Root": 1}`:                          "no value for Leaves_0",
		`{"Root": -1}`:                         "Root must be a whole number from 0 on",
		`{"Root": 1.5}`:                        "Root must be a whole number from 0 on",
		`{"Root": null}`:                       "Root must be a whole number from 0 on",
		`{"Root": ""}`:                         "Root must be a whole number from 0 on",
		`{"Root": "0x"}`:                       "Root must be a whole number from 0 on",
		`{"Root": "12g"}`:                      "Root must be a whole number from 0 on",
		`{"Root": "a"}`:                        "Root must be a whole number from 0 on",
		`{"Leaves": [1], "Leaves_0": 2}`:       "Leaves_0 has two values",
		`{"Root": "` + modulus.String() + `"}`: "Root is not below the order of the group",
		`{"Root": "` + strings.Repeat("9", 99) + `"}`:               "Root must be a whole number below",
		strings.Replace(string(text), "{", `{"Rot": 1,`, 1):         "a value for Rot, which is not one of Root, Leaves_0",
		`{"Root": "0x` + strings.Repeat("f", 64) + `"}`:             "Root is not below the order of the group",
		`{"Leaves": [` + strings.Repeat("1,", 1<<20) + `1]}`:        "a value for Leaves_1, which",
		`{"` + strings.Repeat("x", 1<<20) + `": 1}`:                 "a value for " + strings.Repeat("x", 64) + "…",
		strings.Repeat(`[`, 40):                                     "a JSON object",
		`{"a":` + strings.Repeat(`[`, 1<<20):                        "nested more than 16 deep",
		strings.Repeat(`{"a":`, 40):                                 "nested",
		strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40): "nested",
	} {
		if _, err := ReadWitness(k.Circuit, []byte(text)); !errors.Is(err, ErrWitness) || !strings.Contains(err.Error(), says) {
			t.Errorf("%.60s: %v, want %q", text, err, says)
		}
	}
}

// A text that is read as a witness is written and read again as the same; no other makes a panic.
func FuzzWitness(f *testing.F) {
	compiled, w, err := Shipped(Range, 130, 4)
	if err != nil {
		f.Fatal(err)
	}
	k, err := Setup(f.Context(), compiled)
	if err != nil {
		f.Fatal(err)
	}
	text, err := WriteWitness(k.Circuit, w)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{string(text), `{"Values": [1, "0x2"], "Sum": 3}`, `{"Values": {"0": 1, "1": "9"}, "Sum": 1e3}`, `{"Values": [[1]], "Sum": ""}`, `"`, `{"Values": [1, 2, 3], "Values": [3]}`, `{"Sum": NaN}`, `{"Val\u0075es": [-0, 0x1]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		w, err := ReadWitness(k.Circuit, text)
		if err != nil {
			if !errors.Is(err, ErrWitness) {
				t.Fatal(err)
			}
			return
		}
		if !json.Valid(text) {
			t.Fatalf("%q is taken and no JSON", text)
		}
		again, err := WriteWitness(k.Circuit, w)
		if err != nil {
			t.Fatal(err)
		}
		v, err := ReadWitness(k.Circuit, again)
		if err != nil {
			t.Fatal(err)
		}
		x, y := w.Vector().(fr.Vector), v.Vector().(fr.Vector)
		for i := range x {
			if !reduced(&x[i]) || !x[i].Equal(&y[i]) {
				t.Fatalf("value %d is %v, and then %v", i, &x[i], &y[i])
			}
		}
	})
}

// Witnesses are read from an array and from lines, and what is wrong is said with its place.
func TestWitnesses(t *testing.T) {
	compiled, _, err := Shipped(Range, 130, 4)
	if err != nil {
		t.Fatal(err)
	}
	circuit := compiled.(*cs.R1CS)
	const a, b = `{"Values": [1, 2], "Sum": 3}`, `{"Values": [4, 5], "Sum": 9}`
	for text, n := range map[string]int{"": 0, "[]": 0, a: 1, "[" + a + "]": 1, a + "\n" + b: 2, " [ " + a + " , " + b + " ] ": 2} {
		all, err := ReadWitnesses(circuit, []byte(text))
		if err != nil || len(all) != n {
			t.Errorf("%s: %d, %v", text, len(all), err)
			continue
		}
		for i, w := range all {
			if sum := w.Vector().(fr.Vector)[0]; sum.Text(10) != []string{"3", "9"}[i] {
				t.Errorf("%s: the sum of witness %d is %v", text, i, &sum)
			}
		}
	}
	for text, says := range map[string]string{
		"[" + a + b + "]": "witness 1: it is no JSON from byte 29 on", "[" + a: "witness 1: it is no JSON", "[" + a + ",]": "witness 1: it must be a JSON object",
		"[" + a + "] 1": "it is no JSON", a + " 5": "witness 1: it must be a JSON object", a + `{"Sum": 1}`: "witness 1: it has no value for Values_0",
		a + `{"Values": [1, 2], "Sum": 1, "Sum": 1}`: "witness 1: Sum has two values", "[[" + a + "]]": "witness 0: it must",
	} {
		if all, err := ReadWitnesses(circuit, []byte(text)); !errors.Is(err, ErrWitness) || all != nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}
