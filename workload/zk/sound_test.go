package zk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/consensys/gnark-crypto/ecc"
	"github.com/consensys/gnark/backend/witness"
	"github.com/consensys/gnark/constraint"
	cs "github.com/consensys/gnark/constraint/bn254"
	"github.com/consensys/gnark/frontend"
	"github.com/consensys/gnark/frontend/cs/r1cs"
	"github.com/consensys/gnark/std/lookup/logderivlookup"
)

// lookups is a circuit with a table, which has instructions of another kind.
type lookups struct {
	At, Is [3]frontend.Variable
}

func (c *lookups) Define(api frontend.API) error {
	t := logderivlookup.New(api)
	for i := range 5 {
		t.Insert(api.Mul(c.Is[0], i*i))
	}
	for i, x := range t.Lookup(c.At[:]...) {
		api.AssertIsEqual(x, c.Is[i])
	}
	return nil
}

// allKinds are circuits of all kinds of instructions, and witnesses that satisfy them.
func allKinds(t *testing.T) map[string]struct {
	c *cs.R1CS
	w witness.Witness
} {
	t.Helper()
	out := make(map[string]struct {
		c *cs.R1CS
		w witness.Witness
	})
	add := func(name string, c constraint.ConstraintSystem, w witness.Witness, err error) {
		if err != nil {
			t.Fatal(err)
		}
		out[name] = struct {
			c *cs.R1CS
			w witness.Witness
		}{c.(*cs.R1CS), w}
	}
	for _, name := range Circuits() {
		c, w, err := Shipped(name, 300, 1)
		add(name, c, w, err)
	}
	s := cube(t)
	add("cube", s.ccs, s.w, nil)
	c, err := frontend.Compile(ecc.BN254.ScalarField(), r1cs.NewBuilder, &lookups{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := frontend.NewWitness(&lookups{At: [3]frontend.Variable{1, 2, 3}, Is: [3]frontend.Variable{7, 28, 63}}, ecc.BN254.ScalarField())
	add("lookups", c, w, err)
	return out
}

// Circuits of gnark are sound as they are written. A damaged file is refused, or is of a circuit that
// gnark solves or refuses without a panic.
func TestDamagedCircuit(t *testing.T) {
	for name, k := range allKinds(t) {
		var b bytes.Buffer
		if _, err := k.c.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		good := b.Bytes()
		l := &layout{left: good}
		if l.circuit(); l.short || len(l.left) > 0 {
			t.Errorf("%s: short: %t, %d of %d bytes are left", name, l.short, len(l.left), len(good))
		}
		file := filepath.Join(t.TempDir(), circuitFile)
		read := func(text []byte) (*cs.R1CS, error) {
			t.Helper()
			if err := os.WriteFile(file, text, 0o666); err != nil {
				t.Fatal(err)
			}
			c, err := ReadCircuit(file)
			if err != nil && (!strings.Contains(err.Error(), circuitFile) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("%s: %v", name, err)
			}
			return c, err
		}
		if _, err := read(good); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for n := 0; n < len(good); n += len(good)/20 + 1 {
			if _, err := read(good[:n]); !errors.Is(err, ErrKey) {
				t.Errorf("%s: %d of %d bytes are taken: %v", name, n, len(good), err)
			}
		}
		var solved, other int
		step := len(good)/150 + 1
		for i := 0; i < len(good); i++ {
			if i > 100 && i%step != 0 {
				continue
			}
			bad := bytes.Clone(good)
			bad[i] ^= 1 << (i % 8)
			c, err := read(bad)
			if err != nil {
				continue
			}
			if _, err := checkWitness(c, k.w); err != nil {
				other++
			} else if _, err := c.Solve(k.w); err == nil {
				solved++
			} else {
				other++
			}
		}
		t.Logf("%s, %d bytes: of what is taken %d are solved and %d are not", name, len(good), solved, other)
	}
}

// What is wrong with a circuit is found: a wire that is solved twice, two that are not known, one that is used before
// it is solved, one that is not there, another level, a missing coefficient.
func TestSound(t *testing.T) {
	for name, k := range allKinds(t) {
		if !sound(k.c) {
			t.Fatalf("%s is not sound", name)
		}
	}
	for what, change := range map[string]func(c *cs.R1CS){
		"no public wire":            func(c *cs.R1CS) { c.Public = nil },
		"billions of wires":         func(c *cs.R1CS) { c.NbInternalVariables = 1 << 40 },
		"fewer wires":               func(c *cs.R1CS) { c.NbInternalVariables-- },
		"a wire that is not solved": func(c *cs.R1CS) { c.NbInternalVariables++ },
		"more constraints":          func(c *cs.R1CS) { c.NbConstraints++ },
		"a level that is empty":     func(c *cs.R1CS) { c.Levels = append(c.Levels, nil) },
		"levels the other way":      func(c *cs.R1CS) { slices.Reverse(c.Levels) },
		"an instruction twice":      func(c *cs.R1CS) { c.Levels[0] = append(c.Levels[0], c.Levels[0][0]) },
		"no coefficients":           func(c *cs.R1CS) { c.Coefficients = c.Coefficients[:1] },
		"an unknown kind":           func(c *cs.R1CS) { c.Instructions[0].BlueprintID = 99 },
		"no call data":              func(c *cs.R1CS) { c.Instructions[0].StartCallData = 1 << 60 },
		"a wire that is not there":  func(c *cs.R1CS) { c.CallData[len(c.CallData)-1] = 1 << 30 },
		"an instruction missing":    func(c *cs.R1CS) { c.Instructions = c.Instructions[1:] },
		"another commitment": func(c *cs.R1CS) {
			c.CommitmentInfo = constraint.Groth16Commitments{{CommitmentIndex: wiresOf(c)}}
		},
	} {
		c, _, err := Shipped(Range, 130, 1)
		if err != nil {
			t.Fatal(err)
		}
		r := c.(*cs.R1CS)
		if change(r); sound(r) {
			t.Errorf("%s: it is sound", what)
		}
	}
}

// Lists of instructions that are not equally long are refused, also one value beside none.
func TestUnequalLists(t *testing.T) {
	one := binary.LittleEndian.AppendUint64(nil, 4)
	for _, word := range []uint32{1, 3, 0x80808001, 3} { // one value in a block of three words: a byte, and bytes that say that more follow
		one = binary.LittleEndian.AppendUint32(one, word)
	}
	if n := (&layout{left: one}).packed(4); n != 1 {
		t.Fatalf("it has %d values", n)
	}
	l := &layout{left: append(slices.Clone(one), make([]byte, 3*8)...)}
	if l.instructions(); !l.short {
		t.Error("one value and lists of none are equally long")
	}
}

// Any text is read or refused, without a panic and without memory for more than it has.
func FuzzCircuit(f *testing.F) {
	c, _, err := Shipped(Range, 64, 1)
	if err != nil {
		f.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	long := bytes.Clone(b.Bytes())
	binary.LittleEndian.PutUint64(long[32:], 1<<40)
	f.Add(long)
	file := filepath.Join(f.TempDir(), circuitFile)
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(file, text, 0o666); err != nil {
			t.Fatal(err)
		}
		if c, err := ReadCircuit(file); (c == nil) == (err == nil) {
			t.Fatal(c, err)
		}
	})
}
