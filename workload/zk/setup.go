package zk

import (
	"context"
	"fmt"
	"math/big"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/consensys/gnark-crypto/ecc/bn254"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr/fft"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr/pedersen"
	groth16 "github.com/consensys/gnark/backend/groth16/bn254"
	"github.com/consensys/gnark/constraint"
	cs "github.com/consensys/gnark/constraint/bn254"
)

// Setup makes keys for a circuit in this process. They are for tests only: whoever makes them
// could keep their random numbers, and prove false statements with these. Keys for other uses
// come from a ceremony of many, such as gnark's mpcsetup. With the same random numbers the keys
// equal those of gnark's groth16.Setup, which cannot be stopped; Setup ends soon after ctx does.
func Setup(ctx context.Context, circuit constraint.ConstraintSystem) (*Keys, error) {
	r1cs, ok := circuit.(*cs.R1CS)
	if !ok || r1cs.Type != constraint.SystemR1CS {
		return nil, fmt.Errorf("zk: the circuit is %T: compile it with r1cs.NewBuilder for BN254", circuit)
	}
	k := &Keys{r1cs, new(groth16.ProvingKey), new(groth16.VerifyingKey), true}
	if err := k.make(ctx); err != nil {
		return nil, fmt.Errorf("zk: setup: %w", err)
	}
	return k, nil
}

// waste holds the random numbers of a setup. Whoever knows them can prove false statements.
type waste struct{ t, alpha, beta, gamma, delta fr.Element }

func drawWaste() (w waste, err error) {
	for _, x := range []*fr.Element{&w.t, &w.alpha, &w.beta, &w.gamma, &w.delta} {
		for x.IsZero() {
			if _, err := x.SetRandom(); err != nil {
				return w, err
			}
		}
	}
	return w, nil
}

// make makes both keys: scalars first, then the multiples of generators by them.
func (k *Keys) make(ctx context.Context) error {
	domain := fft.NewDomain(uint64(k.Circuit.GetNbConstraints()))
	w, err := drawWaste()
	if err != nil {
		return err
	}
	a, b, c, err := atPoint(ctx, k.Circuit, domain, &w.t)
	if err != nil {
		return err
	}
	of := k.sortWires(&w, a, b, c)
	pk, vk := k.Proving, k.Verifying
	pk.Domain = *domain
	a, pk.InfinityA, pk.NbInfinityA = nonzero(a)
	b, pk.InfinityB, pk.NbInfinityB = nonzero(b)
	_, _, g1, g2 := bn254.Generators()
	on1 := newBase(&g1, (*bn254.G1Jac).AddMixed, (*bn254.G1Affine).FromJacobian)
	on2 := newBase(&g2, (*bn254.G2Jac).AddMixed, (*bn254.G2Affine).FromJacobian)
	for _, s := range []struct {
		to *[]bn254.G1Affine
		by []fr.Element
	}{{&pk.G1.A, a}, {&pk.G1.B, b}, {&pk.G1.K, of.private}, {&vk.G1.K, of.public}, {&pk.G1.Z, quotientScalars(domain, &w)}} {
		if *s.to, err = on1.times(ctx, s.by); err != nil {
			return err
		}
	}
	one, err := on1.times(ctx, []fr.Element{w.alpha, w.beta, w.delta})
	if err != nil {
		return err
	}
	pk.G1.Alpha, pk.G1.Beta, pk.G1.Delta = one[0], one[1], one[2]
	vk.G1.Alpha, vk.G1.Beta, vk.G1.Delta = one[0], one[1], one[2]
	two, err := on2.times(ctx, []fr.Element{w.beta, w.delta, w.gamma})
	if err != nil {
		return err
	}
	pk.G2.Beta, pk.G2.Delta = two[0], two[1]
	vk.G2.Beta, vk.G2.Delta, vk.G2.Gamma = two[0], two[1], two[2]
	if pk.G2.B, err = on2.times(ctx, b); err != nil {
		return err
	}
	if err := k.commit(ctx, on1, of.committed); err != nil {
		return err
	}
	return vk.Precompute()
}

// atPoint returns the polynomials A, B and C of every wire at t. A constraint adds its terms times the Lagrange
// polynomial of its root of unity.
func atPoint(ctx context.Context, r1cs *cs.R1CS, domain *fft.Domain, t *fr.Element) (a, b, c []fr.Element, err error) {
	n := r1cs.GetNbConstraints()
	roots, differences := make([]fr.Element, n), make([]fr.Element, n)
	root := fr.One()
	for i := range roots {
		roots[i] = root
		differences[i].Sub(t, &root)
		root.Mul(&root, &domain.Generator)
	}
	inverse := fr.BatchInvert(differences)
	one := fr.One()
	var scale fr.Element // (t^size - 1) / size
	scale.Exp(*t, new(big.Int).SetUint64(domain.Cardinality)).Sub(&scale, &one).Mul(&scale, &domain.CardinalityInv)
	a, b, c = make([]fr.Element, wiresOf(r1cs)), make([]fr.Element, wiresOf(r1cs)), make([]fr.Element, wiresOf(r1cs))
	it, i := r1cs.GetR1CIterator(), 0
	for q := it.Next(); q != nil; q = it.Next() {
		if i%setupBlock == 0 && ctx.Err() != nil {
			return nil, nil, nil, ctx.Err()
		}
		var at fr.Element
		at.Mul(&scale, &roots[i]).Mul(&at, &inverse[i])
		for _, side := range []struct {
			terms constraint.LinearExpression
			to    []fr.Element
		}{{q.L, a}, {q.R, b}, {q.O, c}} {
			for _, term := range side.terms {
				var x fr.Element
				x.Mul(&r1cs.Coefficients[term.CoeffID()], &at)
				side.to[term.WireID()].Add(&side.to[term.WireID()], &x)
			}
		}
		i++
	}
	return a, b, c, nil
}

// scalarsOfK are the scalars of the points in K.
type scalarsOfK struct {
	private, public []fr.Element
	committed       [][]fr.Element // of each commitment
}

// sortWires computes the scalars of K and sorts them by who has the wire: the prover, the verifier, who has
// commitments too, or a commitment.
func (k *Keys) sortWires(w *waste, a, b, c []fr.Element) (of scalarsOfK) {
	all := k.Circuit.CommitmentInfo.(constraint.Groth16Commitments)
	of.committed = make([][]fr.Element, len(all))
	by := make(map[int]int) // commitments of wires
	for i, wires := range all.GetPrivateCommitted() {
		for _, wire := range wires {
			by[wire] = i
		}
	}
	public := make(map[int]bool)
	for _, wire := range all.CommitmentIndexes() {
		public[wire] = true
	}
	var gamma, delta fr.Element
	gamma.Inverse(&w.gamma)
	delta.Inverse(&w.delta)
	for i := range a {
		var x, y fr.Element
		x.Mul(&a[i], &w.beta)
		y.Mul(&b[i], &w.alpha)
		x.Add(&x, &y).Add(&x, &c[i])
		commitment, committed := by[i]
		switch {
		case i < k.Circuit.GetNbPublicVariables() || public[i]:
			of.public = append(of.public, *x.Mul(&x, &gamma))
		case committed:
			of.committed[commitment] = append(of.committed[commitment], *x.Mul(&x, &gamma))
		default:
			of.private = append(of.private, *x.Mul(&x, &delta))
		}
	}
	k.Verifying.PublicAndCommitmentCommitted = all.GetPublicAndCommitmentCommitted(all.CommitmentIndexes(), k.Circuit.GetNbPublicVariables())
	return of
}

// commit makes the keys of commitments.
func (k *Keys) commit(ctx context.Context, on1 *base[bn254.G1Affine, bn254.G1Jac], committed [][]fr.Element) error {
	second, err := bn254.RandomOnG2()
	if err != nil {
		return err
	}
	for _, by := range committed {
		points, err := on1.times(ctx, by)
		if err != nil {
			return err
		}
		pk, vk, err := pedersen.Setup([][]bn254.G1Affine{points}, pedersen.WithG2Point(second))
		if err != nil {
			return err
		}
		k.Proving.CommitmentKeys = append(k.Proving.CommitmentKeys, pk[0])
		k.Verifying.CommitmentKeys = append(k.Verifying.CommitmentKeys, vk)
	}
	return nil
}

// quotientScalars returns the scalars of Z: powers of t times (t^size - 1) / delta. A key has
// their points in the order of reversed bits without the last, since the quotient has one
// coefficient less.
func quotientScalars(domain *fft.Domain, w *waste) []fr.Element {
	n, one := domain.Cardinality, fr.One()
	var x, delta fr.Element
	delta.Inverse(&w.delta)
	x.Exp(w.t, new(big.Int).SetUint64(n)).Sub(&x, &one).Mul(&x, &delta)
	out := make([]fr.Element, n)
	for i := range out {
		out[bits.Reverse64(uint64(i))>>(bits.LeadingZeros64(n)+1)] = x
		x.Mul(&x, &w.t)
	}
	return out[:n-1]
}

// nonzero leaves out zeros, and reports which they are.
func nonzero(xs []fr.Element) (left []fr.Element, zero []bool, zeros uint64) {
	zero = make([]bool, len(xs))
	for i := range xs {
		if zero[i] = xs[i].IsZero(); zero[i] {
			zeros++
		}
	}
	return without(xs, zero), zero, zeros
}

// base is a point with its multiples by every value of every byte of a scalar, so that a multiple of it takes an addition
// for each byte. A is the group's affine points and J its Jacobian ones.
type base[A, J any] struct {
	table  [][255]A
	add    func(*J, *A) *J
	affine func(*A, *J) *A
}

func newBase[A, J any](point *A, add func(*J, *A) *J, affine func(*A, *J) *A) *base[A, J] {
	b := &base[A, J]{make([][255]A, fr.Bytes), add, affine}
	step := *point
	for i := range b.table {
		var sum J
		for k := range b.table[i] {
			affine(&b.table[i][k], add(&sum, &step))
		}
		next := step
		affine(&step, add(&sum, &next))
	}
	return b
}

// setupBlock is the number of constraints or multiples between two looks at the context: some milliseconds of work.
const setupBlock = 256

// times returns the multiples of the point by scalars. It uses all cores.
func (b *base[A, J]) times(ctx context.Context, by []fr.Element) ([]A, error) {
	out := make([]A, len(by))
	var next atomic.Int64
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for ctx.Err() == nil {
				hi := int(next.Add(setupBlock))
				lo := hi - setupBlock
				if lo >= len(by) {
					return
				}
				for i := lo; i < min(hi, len(by)); i++ {
					b.one(&out[i], &by[i])
				}
			}
		})
	}
	all.Wait()
	return out, ctx.Err()
}

// one sets a multiple of the point.
func (b *base[A, J]) one(out *A, by *fr.Element) {
	var sum J
	for i, digit := range by.Bytes() {
		if digit > 0 {
			b.add(&sum, &b.table[fr.Bytes-1-i][digit-1])
		}
	}
	b.affine(out, &sum)
}
