package zk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bn254/fr"
	groth16 "github.com/consensys/gnark/backend/groth16/bn254"
)

// Layouts end where what gnark writes ends, and any text that is shorter does not fit.
func TestLayouts(t *testing.T) {
	for name, s := range map[string]*statement{"mimc": shipped(t, Chain, 1, 5), "commitments": cube(t)} {
		proof, err := groth16.Prove(s.ccs, &s.pk, s.w)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range []struct {
			what  string
			parts func(*layout)
			write func(io.Writer) (int64, error)
		}{
			{"proof", (*layout).proof, proof.WriteTo}, {"raw proof", (*layout).proof, proof.WriteRawTo},
			{"proving key", (*layout).provingKey, s.pk.WriteTo}, {"raw proving key", (*layout).provingKey, s.pk.WriteRawTo},
			{"verifying key", (*layout).verifyingKey, s.vk.WriteTo}, {"raw verifying key", (*layout).verifyingKey, s.vk.WriteRawTo},
		} {
			var b bytes.Buffer
			if _, err := f.write(&b); err != nil {
				t.Fatal(err)
			}
			text := b.Bytes()
			l := &layout{left: text}
			f.parts(l)
			if l.short || len(l.left) > 0 {
				t.Errorf("%s: %s: short: %t, %d of %d bytes are left", name, f.what, l.short, len(l.left), len(text))
			}
			for n := len(text) - 1; n >= 0; n -= len(text)/100 + 1 {
				if fits(text[:n], f.parts) {
					t.Errorf("%s: %s: %d of %d bytes fit", name, f.what, n, len(text))
					break
				}
			}
		}
	}
}

// A proof or a key that says to have billions of points is refused before there is memory for them.
func TestLongLists(t *testing.T) {
	s := shipped(t, Range, 1, 5)
	proof, err := groth16.Prove(s.ccs, &s.pk, s.w)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := proof.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	text := b.Bytes()
	binary.BigEndian.PutUint32(text[inG1+inG2+inG1:], 1<<32-1)
	if _, err := ReadProof(bytes.NewReader(text)); !errors.Is(err, ErrProof) {
		t.Errorf("a proof with billions of commitments: %v", err)
	}
	k, err := Setup(t.Context(), s.ccs)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "keys")
	if err := k.Write(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, setupFile)); err != nil {
		t.Fatal(err)
	}
	for _, f := range []struct {
		name string
		at   int // of a length
	}{{provingFile, 0}, {provingFile, 8 + 5*scalarBytes + 1 + 3*64}, {verifyingFile, 3*64 + 3*128}} {
		at := filepath.Join(dir, f.name)
		good, err := os.ReadFile(at)
		if err != nil {
			t.Fatal(err)
		}
		for _, flip := range []byte{0x80, 0x40, 0x10} {
			bad := bytes.Clone(good)
			bad[f.at] ^= flip
			if err := os.WriteFile(at, bad, 0o666); err != nil {
				t.Fatal(err)
			}
			if _, err := ReadKeys(dir, true); !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), f.name) {
				t.Errorf("%s, byte %d, bits %x: %v", f.name, f.at, flip, err)
			}
		}
		if err := os.WriteFile(at, good, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ReadKeys(dir, true); err != nil {
		t.Error(err)
	}
}

// Making a witness leaves no copies of its values in memory.
func TestWitnessCopies(t *testing.T) {
	values := make([]fr.Element, 1000)
	for i := range values {
		values[i].SetUint64(uint64(i))
	}
	n := testing.AllocsPerRun(3, func() {
		w, err := witnessOf(values, 10)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.Vector().(fr.Vector); got[999] != values[999] {
			t.Errorf("the last value is %v", got[999])
		}
	})
	if n > 100 {
		t.Errorf("%.0f allocations for %d values", n, len(values))
	}
}
