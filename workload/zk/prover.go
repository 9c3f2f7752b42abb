package zk

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"math/bits"
	"slices"
	"time"

	"github.com/consensys/gnark-crypto/ecc"
	"github.com/consensys/gnark-crypto/ecc/bn254"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr"
	groth16 "github.com/consensys/gnark/backend/groth16/bn254"
	"github.com/consensys/gnark/backend/witness"
	"github.com/consensys/gnark/constraint"
	cs "github.com/consensys/gnark/constraint/bn254"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/zk/msm"
)

// Prover proves statements of one circuit on the devices of a runtime, where its proving key
// stays. It is safe for concurrent use; proofs share the devices.
type Prover struct {
	rt        *weft.Runtime
	r1cs      *cs.R1CS
	pk        *groth16.ProvingKey
	committed constraint.Groth16Commitments
	notK      []bool // wires that have no point in K
	shape
	points1 [numSums]*weft.Data[bn254.G1Affine]
	points2 *weft.Data[bn254.G2Affine]
	roots   [3]*weft.Data[fr.Element] // tables of transforms, for GPUs
	// draw returns the random r and s of a proof.
	draw func() (r, s fr.Element, err error)
}

// Key is a proving key of gnark: what groth16.Setup returns and groth16.NewProvingKey reads.
type Key interface{ CurveID() ecc.ID }

// NewProver makes the proving key of a circuit resident on a runtime that was opened with
// [Funcs]. The circuit is one that gnark compiled to constraints of rank 1 over BN254. A key of
// another circuit is refused with [ErrKey], as far as its sizes tell. Release gives the key up.
func NewProver(rt *weft.Runtime, circuit constraint.ConstraintSystem, key Key) (*Prover, error) {
	return newProverOn(context.Background(), rt, circuit, key)
}

// newProverOn is NewProver, which ends soon after ctx does.
func newProverOn(ctx context.Context, rt *weft.Runtime, circuit constraint.ConstraintSystem, key Key) (*Prover, error) {
	r1cs, ok := circuit.(*cs.R1CS)
	if !ok || r1cs.Type != constraint.SystemR1CS {
		return nil, fmt.Errorf("zk: the circuit is %T: compile it with r1cs.NewBuilder for BN254", circuit)
	}
	pk, ok := key.(*groth16.ProvingKey)
	if !ok {
		return nil, fmt.Errorf("zk: %w: it is %T, and must be one of Groth16 over BN254", ErrKey, key)
	}
	if err := checkKey(r1cs, pk); err != nil {
		return nil, err
	}
	if rt == nil {
		return nil, errors.New("zk: the runtime is nil; weft.Open returns one")
	}
	p := newProver(r1cs, pk)
	p.rt = rt
	if err := p.put(ctx); err != nil {
		p.Release()
		return nil, fmt.Errorf("zk: %w", err)
	}
	return p, nil
}

// put makes the key and the tables of transforms resident.
func (p *Prover) put(ctx context.Context) (err error) {
	pk := p.pk
	// A key has the points for the quotient in the order of reversed bits.
	z := append(slices.Clone(pk.G1.Z), bn254.G1Affine{})
	for i := range z {
		if j := int(bits.Reverse64(uint64(i)) >> (64 - p.log)); i < j {
			z[i], z[j] = z[j], z[i]
		}
	}
	for i, points := range [numSums][]bn254.G1Affine{sumA: pk.G1.A, sumB1: pk.G1.B, sumK: pk.G1.K, sumZ: z[:len(pk.G1.Z)]} {
		if len(points) == 0 {
			continue
		}
		m := &p.sums[i]
		m.multiples = msm.Multiples[bn254.G1Affine](p.rt.Machine(), len(points))
		if p.points1[i], err = msm.PutTable(ctx, p.rt, "proving key, "+m.name, points, m.multiples); err != nil {
			return err
		}
	}
	if len(pk.G2.B) > 0 {
		m := &p.sums[sumB2]
		m.multiples = msm.Multiples[bn254.G2Affine](p.rt.Machine(), len(pk.G2.B))
		if p.points2, err = msm.PutTable(ctx, p.rt, "proving key, B2", pk.G2.B, m.multiples); err != nil {
			return err
		}
	}
	for i, tables := range p.tables() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if p.roots[i], err = weft.Put(p.rt, "roots", tables); err != nil {
			return err
		}
	}
	return nil
}

// newProver is a prover without a runtime.
func newProver(r1cs *cs.R1CS, pk *groth16.ProvingKey) *Prover {
	committed := r1cs.CommitmentInfo.(constraint.Groth16Commitments)
	return &Prover{
		r1cs: r1cs, pk: pk, committed: committed, notK: notPrivate(r1cs, committed), draw: random,
		shape: shapeOf(&Keys{Circuit: r1cs, Proving: pk}),
	}
}

// random draws r and s from crypto/rand.
func random() (r, s fr.Element, err error) {
	if _, err = r.SetRandom(); err == nil {
		_, err = s.SetRandom()
	}
	return r, s, err
}

// Release gives the key up on devices. No proof may be in progress.
func (p *Prover) Release() {
	for _, d := range p.points1 {
		d.Release()
	}
	p.points2.Release()
	for _, d := range p.roots {
		d.Release()
	}
}

// Prove proves that the witness, public and secret values in the order of gnark's
// frontend.NewWitness, satisfies the circuit. A witness that does not is refused with
// [ErrWitness] before devices work on it. Copies of the witness are cleared; the witness itself
// is the caller's.
//
// Proofs at the same time share the devices. If the context has a deadline within the next ten
// seconds, the proof has a head start on others by as much as it is nearer than that.
func (p *Prover) Prove(ctx context.Context, w witness.Witness) (*groth16.Proof, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("zk: %w", err)
	}
	v := &proving{shape: p.shape}
	defer v.forget()
	if err := v.begin(p, w); err != nil {
		return nil, err
	}
	if until, ok := ctx.Deadline(); ok {
		v.urgency = urgencyOf(time.Until(until))
	}
	_, err := workload.Run(ctx, p.rt, v)
	if errors.Is(err, weft.ErrNoDevice) && v.only != nil {
		v.anywhere = true
		_, err = workload.Run(ctx, p.rt, v)
	}
	if err != nil {
		return nil, err
	}
	return v.assemble()
}

// A deadline is near within urgent. A step of priority is a head start of urgencyStep.
const (
	urgent      = 10 * time.Second
	urgencyStep = 100 * time.Millisecond
)

// urgencyOf is the priority of a proof that has some time left.
func urgencyOf(left time.Duration) int {
	return int((urgent - min(max(left, 0), urgent)) / urgencyStep)
}

// proving is a proof in progress.
type proving struct {
	shape
	p *Prover
	s *solved
	// Partial sums, by the positions of the sums.
	sums1 [numSums][]bn254.G1Affine
	sums2 []bn254.G2Affine
}

// begin solves the circuit.
func (v *proving) begin(p *Prover, w witness.Witness) (err error) {
	v.p = p
	for i := range v.sums {
		v.sums[i].multiples = p.sums[i].multiples
	}
	v.s, err = p.solve(w)
	return err
}

// forget clears secrets.
func (v *proving) forget() {
	if v.s != nil {
		v.s.forget()
	}
}

// Name describes the proof.
func (v *proving) Name() string { return fmt.Sprintf("zk proof of %d constraints", v.constraints) }

// Class is X: points are normalized, and the same however they are added up.
func (v *proving) Class() workload.Class { return workload.Exact }

// Bind ties keys, the solved circuit and sums to memory.
func (v *proving) Bind() []weft.Binding {
	if v.s == nil {
		return nil
	}
	all := []weft.Binding{weft.Bind("a", v.s.a), weft.Bind("b", v.s.b), weft.Bind("c", v.s.c)}
	if !v.hosted {
		for i, name := range [...]string{tablesBack, tablesCoset, tablesDivide} {
			all = append(all, v.p.roots[i].As(name))
		}
	}
	seen := map[string]bool{"quotient": true}
	for i := range v.sums {
		m := &v.sums[i]
		if m.n == 0 {
			continue
		}
		if !seen[m.scalars] {
			seen[m.scalars] = true
			all = append(all, weft.Bind(m.scalars, v.s.wires[map[string]int{"wires A": 0, "wires B": 1, "wires K": 2}[m.scalars]]))
		}
		if m.second {
			if v.sums2 == nil {
				v.sums2 = make([]bn254.G2Affine, m.sumsBytes()/m.pointBytes())
			}
			all = append(all, v.p.points2.As(m.name), weft.Bind("sums of "+m.name, v.sums2))
			continue
		}
		if v.sums1[i] == nil {
			v.sums1[i] = make([]bn254.G1Affine, m.sumsBytes()/m.pointBytes())
		}
		all = append(all, v.p.points1[i].As(m.name), weft.Bind("sums of "+m.name, v.sums1[i]))
	}
	return all
}

// Check is nothing: whoever asks for a proof verifies it.
func (v *proving) Check() error { return nil }

// Rate is constraints a second.
func (v *proving) Rate(d time.Duration) string {
	return fmt.Sprintf("%.1f k constraints/s", float64(v.constraints)/d.Seconds()/1e3)
}

// assemble makes the proof of the sums, with random r and s.
func (v *proving) assemble() (*groth16.Proof, error) {
	r, s, err := v.p.draw()
	if err != nil {
		return nil, fmt.Errorf("zk: random numbers: %w", err)
	}
	pk, proof := v.p.pk, v.s.proofOf()
	var minus fr.Element
	minus.Mul(&r, &s).Neg(&minus)
	deltas := bn254.BatchScalarMultiplicationG1(&pk.G1.Delta, []fr.Element{r, s, minus})
	var rInt, sInt big.Int
	r.BigInt(&rInt)
	s.BigInt(&sInt)

	var total [numSums]bn254.G1Affine
	for i := range total {
		total[i] = msm.Total(v.sums1[i])
	}
	total2 := msm.Total(v.sums2)
	var a, b, k, by bn254.G1Jac
	a.FromAffine(&total[sumA])
	a.AddMixed(&pk.G1.Alpha).AddMixed(&deltas[0])
	b.FromAffine(&total[sumB1])
	b.AddMixed(&pk.G1.Beta).AddMixed(&deltas[1])
	k.FromAffine(&total[sumK])
	k.AddMixed(&total[sumZ]).AddMixed(&deltas[2])
	k.AddAssign(by.ScalarMultiplication(&a, &sInt))
	k.AddAssign(by.ScalarMultiplication(&b, &rInt))

	var b2, delta2 bn254.G2Jac
	delta2.FromAffine(&pk.G2.Delta)
	delta2.ScalarMultiplication(&delta2, &sInt)
	b2.FromAffine(&total2)
	b2.AddMixed(&pk.G2.Beta).AddAssign(&delta2)

	proof.Ar.FromJacobian(&a)
	proof.Krs.FromJacobian(&k)
	proof.Bs.FromJacobian(&b2)
	return proof, nil
}
