package zk

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/consensys/gnark-crypto/ecc"
	"github.com/consensys/gnark-crypto/ecc/bn254"
	groth16 "github.com/consensys/gnark/backend/groth16/bn254"
	"github.com/consensys/gnark/backend/witness"
	"github.com/consensys/gnark/constraint"
	cs "github.com/consensys/gnark/constraint/bn254"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload"
)

// Config describes the proof.
type Config struct {
	Circuit     string // one of Circuits
	Constraints int    // about as many, and those of the smallest circuit at least
	Seed        uint64 // what the witness is drawn from
	// VerifyEach has gnark verify the proof of every run, and not of the last one only.
	VerifyEach bool
}

// maxConstraints is the most that a key is made for here: a setup of more takes hours.
const maxConstraints = 1 << 24

// Validate returns an error for a configuration that cannot be proved.
func (c Config) Validate() error {
	if _, err := findCircuit(c.Circuit); err != nil {
		return err
	}
	if c.Constraints < 1 || c.Constraints > maxConstraints {
		return fmt.Errorf("zk: %d constraints: %w: there must be 1 to %d", c.Constraints, workload.ErrConfig, maxConstraints)
	}
	return nil
}

// Bytes is the host memory that keys, witness and transforms take, about.
func (c Config) Bytes() float64 {
	n := float64(max(c.Constraints, 1))
	if k, err := findCircuit(c.Circuit); err == nil {
		n = max(n, float64(k.unit)) + 2
	}
	size := math.Exp2(math.Ceil(math.Log2(n)))
	const point1, point2 = bn254.SizeOfG1AffineUncompressed, bn254.SizeOfG2AffineUncompressed
	sums := min(size, 1<<10) * (4*point1 + point2)
	return (7*scalarBytes+point1)*size + 1.02*(3*(scalarBytes+point1)+point2)*n + sums + 3*scalarBytes*(256+4*math.Sqrt(2*size))
}

// Job is one circuit with a witness, which every run proves anew.
type Job struct {
	c Config
	proving
	keys   *Keys
	w      witness.Witness
	public witness.Witness
	proof  *groth16.Proof
}

// New compiles a circuit, makes keys and draws a witness. It ends soon after ctx does.
func New(ctx context.Context, c Config) (*Job, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	compiled, w, err := shippedWhile(ctx.Err, c.Circuit, c.Constraints, c.Seed)
	if err != nil {
		return nil, err
	}
	keys, err := Setup(ctx, compiled)
	if err != nil {
		return nil, err
	}
	j, err := NewJob(keys, w)
	if err != nil {
		return nil, err
	}
	j.c = c
	return j, nil
}

// Outline is the proof of a circuit as a job that has the graph of New's and cannot be run: no keys are made, which
// takes far longer than a proof.
func Outline(c Config) (workload.Job, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	compiled, _, err := Shipped(c.Circuit, c.Constraints, c.Seed)
	if err != nil {
		return nil, err
	}
	r1cs := compiled.(*cs.R1CS)
	a, b := used(r1cs)
	n := r1cs.GetNbConstraints()
	size := ecc.NextPowerOfTwo(uint64(n))
	private := wiresOf(r1cs) - count(notPrivate(r1cs, r1cs.CommitmentInfo.(constraint.Groth16Commitments)))
	s := newShape(n, bits.TrailingZeros64(size), [numSums]int{
		sumA: count(a), sumB1: count(b), sumB2: count(b), sumK: private, sumZ: int(size) - 1,
	})
	return outlined{&proving{shape: s}, c.Circuit}, nil
}

// outlined is a proof that cannot be run.
type outlined struct {
	*proving
	circuit string
}

// Name returns the name of the job.
func (o outlined) Name() string { return nameOf(o.circuit, o.constraints) }

// NewJob is the proof of a witness with keys that are there, as a job.
func NewJob(keys *Keys, w witness.Witness) (*Job, error) {
	if _, err := checkWitness(keys.Circuit, w); err != nil {
		return nil, err
	}
	public, err := w.Public()
	if err != nil {
		return nil, fmt.Errorf("zk: %w", err)
	}
	return &Job{keys: keys, w: w, public: public, proving: proving{shape: shapeOf(keys)}}, nil
}

// shapeOf is the size of proofs with keys.
func shapeOf(k *Keys) shape {
	pk := k.Proving
	return newShape(k.Circuit.GetNbConstraints(), bits.TrailingZeros64(pk.Domain.Cardinality), [numSums]int{
		sumA: len(pk.G1.A), sumB1: len(pk.G1.B), sumB2: len(pk.G2.B), sumK: len(pk.G1.K), sumZ: len(pk.G1.Z),
	})
}

// Name describes the proof.
func (j *Job) Name() string {
	if j.c.Circuit == "" {
		return j.proving.Name()
	}
	return nameOf(j.c.Circuit, j.constraints)
}

func nameOf(circuit string, constraints int) string {
	return fmt.Sprintf("zk proof of circuit %s, %d constraints", circuit, constraints)
}

// Begin puts the proving key on devices, the first time, and solves the circuit.
func (j *Job) Begin(ctx context.Context, rt *weft.Runtime) (err error) {
	if j.p == nil {
		if j.p, err = newProverOn(ctx, rt, j.keys.Circuit, j.keys.Proving); err != nil {
			return err
		}
	}
	j.forget()
	j.proof = nil
	if err := ctx.Err(); err != nil {
		return err
	}
	return j.begin(j.p, j.w)
}

// End makes the proof of what devices computed, and verifies it if every proof is to be.
func (j *Job) End(context.Context) (err error) {
	j.proof, err = j.assemble()
	j.forget()
	if err == nil && j.c.VerifyEach {
		err = j.Check()
	}
	return err
}

// Release gives the proving key up.
func (j *Job) Release() {
	if j.p == nil {
		return
	}
	j.p.Release()
	j.p = nil
	j.forget()
}

// Check has gnark verify the proof.
func (j *Job) Check() error {
	if j.proof == nil {
		return errors.New("zk: nothing was proved")
	}
	return Verify(j.keys.Verifying, j.proof, j.public)
}

// Misses is nothing: a proof with something wrong in it is accepted with a chance of about one
// to the order of the group.
func (j *Job) Misses() []workload.Miss {
	return []workload.Miss{{What: "one wrong bit of the proof", Chance: 0}}
}

// Proof is the proof of the last run, nil without one.
func (j *Job) Proof() *groth16.Proof { return j.proof }

// Summary is the beginning of the proof.
func (j *Job) Summary() string {
	if j.proof == nil {
		return "no proof"
	}
	var b bytes.Buffer
	if _, err := j.proof.WriteTo(&b); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("proof %s… of %d bytes", hex.EncodeToString(b.Bytes()[:16]), b.Len())
}
