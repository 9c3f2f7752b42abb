package zk

import (
	"errors"
	"fmt"

	"github.com/consensys/gnark-crypto/ecc"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr/fft"
	groth16 "github.com/consensys/gnark/backend/groth16/bn254"
	"github.com/consensys/gnark/constraint"
	cs "github.com/consensys/gnark/constraint/bn254"
)

// ErrKey is wrapped by errors about a key that is not the circuit's, or none.
var ErrKey = errors.New("bad key")

// checkKey errs unless a proving key may be that of a circuit: it has the roots of unity that
// the circuit needs, and points for the wires that the circuit uses in A, in B and in K.
func checkKey(r1cs *cs.R1CS, pk *groth16.ProvingKey) error {
	other := func(what string, have, want any) error {
		return fmt.Errorf("zk: %w: the proving key is of another circuit: it has %v %s, and this circuit %v", ErrKey, have, what, want)
	}
	n := ecc.NextPowerOfTwo(uint64(r1cs.GetNbConstraints()))
	if pk.Domain.Cardinality != n {
		return other("roots of unity", pk.Domain.Cardinality, n)
	}
	if root, err := fft.Generator(n); err != nil || !pk.Domain.Generator.Equal(&root) || pk.Domain.FrMultiplicativeGen != fft.GeneratorFullMultiplicativeGroup() {
		return fmt.Errorf("zk: %w: its roots of unity are not those of gnark", ErrKey)
	}
	wires := wiresOf(r1cs)
	if len(pk.InfinityA) != wires || len(pk.InfinityB) != wires {
		return other("wires", max(len(pk.InfinityA), len(pk.InfinityB)), wires)
	}
	committed, ok := r1cs.CommitmentInfo.(constraint.Groth16Commitments)
	if !ok {
		return fmt.Errorf("zk: the circuit was not compiled for Groth16")
	}
	if len(pk.CommitmentKeys) != len(committed) {
		return other("commitments", len(pk.CommitmentKeys), len(committed))
	}
	inA, inB := used(r1cs)
	private := 0
	for i, out := range notPrivate(r1cs, committed) {
		if !out {
			private++
		}
		if pk.InfinityA[i] == inA[i] || pk.InfinityB[i] == inB[i] {
			return fmt.Errorf("zk: %w: the proving key is of another circuit: it has other points for wire %d", ErrKey, i)
		}
	}
	for _, p := range []struct {
		what       string
		have, want int
	}{
		{"points in A", len(pk.G1.A), wires - int(pk.NbInfinityA)}, {"points in B", len(pk.G1.B), wires - int(pk.NbInfinityB)},
		{"points in B of G2", len(pk.G2.B), wires - int(pk.NbInfinityB)}, {"points in K", len(pk.G1.K), private},
		{"points in Z", len(pk.G1.Z), int(n) - 1},
		{"points at infinity in A", int(pk.NbInfinityA), count(pk.InfinityA)}, {"points at infinity in B", int(pk.NbInfinityB), count(pk.InfinityB)},
	} {
		if p.have != p.want {
			return other(p.what, p.have, p.want)
		}
	}
	return nil
}

// used reports of each wire whether the circuit uses it on the left, and on the right, of its
// constraints.
func used(r1cs *cs.R1CS) (left, right []bool) {
	left, right = make([]bool, wiresOf(r1cs)), make([]bool, wiresOf(r1cs))
	it := r1cs.GetR1CIterator()
	for c := it.Next(); c != nil; c = it.Next() {
		for _, t := range c.L {
			left[t.WireID()] = true
		}
		for _, t := range c.R {
			right[t.WireID()] = true
		}
	}
	return left, right
}

func count(xs []bool) (n int) {
	for _, x := range xs {
		if x {
			n++
		}
	}
	return n
}
