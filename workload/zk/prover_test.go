package zk

import (
	"bytes"
	"testing"

	"github.com/consensys/gnark-crypto/ecc"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr"
	groth16 "github.com/consensys/gnark/backend/groth16/bn254"
	"github.com/consensys/gnark/backend/witness"
	cs "github.com/consensys/gnark/constraint/bn254"
	"github.com/consensys/gnark/frontend"

	"github.com/weft-run/weft/internal/workloadtest"
)

// statement is a circuit with keys and a witness.
type statement struct {
	ccs *cs.R1CS
	pk  groth16.ProvingKey
	vk  groth16.VerifyingKey
	w   witness.Witness
}

// state compiles a circuit, makes keys and a witness.
func state(t testing.TB, c, assigned frontend.Circuit) *statement {
	t.Helper()
	s := &statement{}
	ccs, err := Compile(c)
	if err != nil {
		t.Fatal(err)
	}
	s.ccs = ccs.(*cs.R1CS)
	if err := groth16.Setup(s.ccs, &s.pk, &s.vk); err != nil {
		t.Fatal(err)
	}
	if s.w, err = frontend.NewWitness(assigned, ecc.BN254.ScalarField()); err != nil {
		t.Fatal(err)
	}
	return s
}

func shipped(t testing.TB, name string, units int, seed uint64) *statement {
	t.Helper()
	c, err := findCircuit(name)
	if err != nil {
		t.Fatal(err)
	}
	return state(t, c.make(units, noLook), c.assign(units, seed))
}

// public is the public part of the witness.
func (s *statement) public(t testing.TB) fr.Vector {
	t.Helper()
	w, err := s.w.Public()
	if err != nil {
		t.Fatal(err)
	}
	return w.Vector().(fr.Vector)
}

// given sets fixed values for the random r and s of a prover.
func given(p *Prover) {
	p.draw = func() (r, s fr.Element, err error) {
		r.SetUint64(12345)
		r.Inverse(&r)
		s.SetUint64(678)
		s.Inverse(&s)
		return r, s, nil
	}
}

// proofBytes proves on devices with given r and s, sees that gnark accepts the proof, and
// returns its bytes.
func (s *statement) proofBytes(t testing.TB, p *Prover) []byte {
	t.Helper()
	given(p)
	p.per = 1
	proof, err := p.Prove(t.Context(), s.w)
	if err != nil {
		t.Fatal(err)
	}
	if err := groth16.Verify(proof, &s.vk, s.public(t)); err != nil {
		t.Fatalf("gnark refuses the proof: %v", err)
	}
	var b bytes.Buffer
	if _, err := proof.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// gnark accepts proofs of all circuits on one to three devices, and they are the same bytes.
func TestDevices(t *testing.T) {
	for _, name := range Circuits() {
		s := shipped(t, name, 2, 1)
		t.Logf("%s: %d constraints", name, s.ccs.GetNbConstraints())
		var want []byte
		for parts := 1; parts <= 3; parts++ {
			p, err := NewProver(workloadtest.Open(t, parts, Funcs()), s.ccs, &s.pk)
			if err != nil {
				t.Fatal(err)
			}
			got := s.proofBytes(t, p)
			p.Release()
			if want == nil {
				want = got
			} else if !bytes.Equal(got, want) {
				t.Errorf("%s: %d devices prove it with other bytes than one", name, parts)
			}
		}
	}
}
