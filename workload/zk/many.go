package zk

import (
	"context"
	"iter"

	groth16 "github.com/consensys/gnark/backend/groth16/bn254"
	"github.com/consensys/gnark/backend/witness"
)

// Proved is one of the proofs of [Prover.ProveAll].
type Proved struct {
	// Witness is the one that was given; it is the caller's, who may want to [Forget] it.
	Witness witness.Witness
	Proof   *groth16.Proof
	Err     error // why there is no proof
}

// ProveAll proves statements with all witnesses, and yields a result for each in their order. An
// error that comes with a witness is its result. Prover.Together proofs are in progress at a time.
// One that fails does not end the others. When the context ends no further witnesses are taken. If
// the caller wants no more results, witnesses that were taken and not yielded are cleared.
func (p *Prover) ProveAll(ctx context.Context, all iter.Seq2[witness.Witness, error]) iter.Seq[Proved] {
	return func(yield func(Proved) bool) {
		ctx, cancel := context.WithCancel(ctx)
		under := make(chan chan Proved, p.Together()-1) // and one that the loop below waits for
		go func() {
			defer close(under)
			for w, err := range all {
				one := make(chan Proved, 1)
				under <- one
				go func() {
					r := Proved{Witness: w, Err: err}
					if err == nil {
						r.Proof, r.Err = p.Prove(ctx, w)
					}
					one <- r
				}()
				if ctx.Err() != nil {
					return
				}
			}
		}()
		defer func() {
			cancel()
			for one := range under {
				Forget((<-one).Witness)
			}
		}()
		for one := range under {
			if !yield(<-one) {
				return
			}
		}
	}
}

// Together is the number of proofs to have in progress: as many as devices have room for, and one
// more, whose circuit is solved meanwhile.
func (p *Prover) Together() int {
	devices := len(p.rt.Devices())
	s := p.shape
	s.devices = devices
	return max(1, devices/s.shares()) + 1
}
