package zk

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/consensys/gnark-crypto/ecc"
	"github.com/consensys/gnark-crypto/ecc/bn254"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr/hash_to_field"
	groth16 "github.com/consensys/gnark/backend/groth16/bn254"
	"github.com/consensys/gnark/backend/witness"
	"github.com/consensys/gnark/constraint"
	cs "github.com/consensys/gnark/constraint/bn254"
	"github.com/consensys/gnark/constraint/solver"
	fcs "github.com/consensys/gnark/frontend/cs"
)

// ErrWitness is wrapped by errors about a witness: one that does not satisfy the circuit, or is
// not for it.
var ErrWitness = errors.New("bad witness")

// solved is a circuit solved for a witness: what the tasks of a proof begin with. All of it is
// secret.
type solved struct {
	a, b, c []fr.Element // on the roots of unity
	// wires are values of wires: of those with points in A, in B, and in K.
	wires       [3][]fr.Element
	all         []fr.Element // all wires, which the others are taken from
	commitments []bn254.G1Affine
	knowledge   bn254.G1Affine
}

// forget clears the values.
func (s *solved) forget() {
	for _, xs := range [][]fr.Element{s.a, s.b, s.c, s.wires[0], s.wires[1], s.wires[2], s.all} {
		clear(xs)
	}
}

// checkWitness errs if a witness is none of the circuit's, whatever its values mean.
func checkWitness(r1cs *cs.R1CS, w witness.Witness) (fr.Vector, error) {
	if w == nil {
		return nil, fmt.Errorf("zk: %w: there is none", ErrWitness)
	}
	values, ok := w.Vector().(fr.Vector)
	if !ok {
		return nil, fmt.Errorf("zk: %w: its values are not scalars of BN254", ErrWitness)
	}
	if want := r1cs.GetNbPublicVariables() - 1 + r1cs.GetNbSecretVariables(); len(values) != want {
		return nil, fmt.Errorf("zk: %w: it has %d values, and the circuit takes %d, public and secret ones", ErrWitness, len(values), want)
	}
	for i := range values {
		if !reduced(&values[i]) {
			return nil, fmt.Errorf("zk: %w: value %d is no scalar of BN254: it must be below the order of the group", ErrWitness, i)
		}
	}
	return values, nil
}

// modulus is the order of the group.
var modulus = fr.Modulus()

// reduced reports whether the words of a scalar are below the modulus.
func reduced(x *fr.Element) bool {
	words := modulus.Bits()
	for i := scalarWords - 1; i >= 0; i-- {
		if q := uint64(words[i]); x[i] != q {
			return x[i] < q
		}
	}
	return false
}

// solve solves the circuit for a witness, with the commitments to wires that it asks for.
func (p *Prover) solve(w witness.Witness) (_ *solved, err error) {
	if _, err := checkWitness(p.r1cs, w); err != nil {
		return nil, err
	}
	s := &solved{commitments: make([]bn254.G1Affine, len(p.committed))}
	defer func() {
		if err != nil {
			s.forget()
		}
	}()
	private := make([][]fr.Element, len(p.committed))
	defer func() {
		for _, xs := range private {
			clear(xs)
		}
	}()
	hash := hash_to_field.New([]byte(constraint.CommitmentDst))
	commit := func(_ *big.Int, in, out []*big.Int) error {
		i := int(in[0].Int64())
		hashed := in[1 : 1+len(p.committed[i].PublicAndCommitmentCommitted)]
		values := in[1+len(hashed):]
		private[i] = make([]fr.Element, len(values))
		for j, v := range values {
			private[i][j].SetBigInt(v)
		}
		var err error
		if s.commitments[i], err = p.pk.CommitmentKeys[i].Commit(private[i]); err != nil {
			return err
		}
		hash.Reset()
		hash.Write(constraint.SerializeCommitment(s.commitments[i].Marshal(), hashed, fr.Bytes))
		var x fr.Element
		x.SetBytes(hash.Sum(nil))
		x.BigInt(out[0])
		return nil
	}
	found, err := p.r1cs.Solve(w, solver.OverrideHint(solver.GetHintID(fcs.Bsb22CommitmentComputePlaceholder), commit))
	if err != nil {
		return nil, p.unsolved(err)
	}
	of := found.(*cs.R1CSSolution)
	s.all = of.W
	// gnark makes them with room for as many as there are roots of unity.
	pad := func(xs []fr.Element) []fr.Element { return append(xs, make([]fr.Element, p.size()-len(xs))...) }
	s.a, s.b, s.c = pad(of.A), pad(of.B), pad(of.C)
	s.wires[0] = without(s.all, p.pk.InfinityA)
	s.wires[1] = without(s.all, p.pk.InfinityB)
	s.wires[2] = without(s.all, p.notK)
	return s, p.know(s, private)
}

// know proves that the committed values are known.
func (p *Prover) know(s *solved, private [][]fr.Element) error {
	if len(p.committed) == 0 {
		return nil
	}
	proofs := make([]bn254.G1Affine, len(private))
	var text []byte
	for i := range private {
		var err error
		if proofs[i], err = p.pk.CommitmentKeys[i].ProveKnowledge(private[i]); err != nil {
			return fmt.Errorf("zk: commitment %d: %w", i, err)
		}
		text = append(text, s.all[p.committed[i].CommitmentIndex].Marshal()...)
	}
	challenge, err := fr.Hash(text, []byte("G16-BSB22"), 1)
	if err == nil {
		_, err = s.knowledge.Fold(proofs, challenge[0], ecc.MultiExpConfig{NbTasks: 1})
	}
	if err != nil {
		return fmt.Errorf("zk: commitments: %w", err)
	}
	return nil
}

// unsolved says why a circuit was not solved, without the values that gnark names.
func (p *Prover) unsolved(err error) error {
	var u *cs.UnsatisfiedConstraintError
	if errors.As(err, &u) {
		return fmt.Errorf("zk: %w: it does not satisfy the circuit: constraint %d of %d does not hold", ErrWitness, u.CID+1, p.r1cs.GetNbConstraints())
	}
	if text := err.Error(); strings.HasPrefix(text, "solver missing hint") {
		return fmt.Errorf("zk: the circuit needs functions that this program has not registered by solver.RegisterHint: %s", text)
	}
	return fmt.Errorf("zk: %w: a hint of the circuit fails with it", ErrWitness)
}

// without returns the values that are not left out.
func without(xs []fr.Element, out []bool) []fr.Element {
	left := make([]fr.Element, 0, len(xs))
	for i, x := range xs {
		if !out[i] {
			left = append(left, x)
		}
	}
	return left
}

// notPrivate reports of each wire whether it has no point in K: public ones, commitments and
// what they commit to.
func notPrivate(r1cs *cs.R1CS, committed constraint.Groth16Commitments) []bool {
	out := make([]bool, wiresOf(r1cs))
	for i := range r1cs.GetNbPublicVariables() {
		out[i] = true
	}
	for _, i := range slices.Concat(committed.GetPrivateCommitted()...) {
		out[i] = true
	}
	for _, i := range committed.CommitmentIndexes() {
		out[i] = true
	}
	return out
}

// wiresOf returns the number of wires of a circuit.
func wiresOf(r1cs *cs.R1CS) int {
	return r1cs.GetNbPublicVariables() + r1cs.GetNbSecretVariables() + r1cs.NbInternalVariables
}

// proofOf is a proof without points that devices compute.
func (s *solved) proofOf() *groth16.Proof {
	return &groth16.Proof{Commitments: s.commitments, CommitmentPok: s.knowledge}
}
