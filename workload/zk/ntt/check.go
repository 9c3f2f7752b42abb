package ntt

import (
	"errors"
	"fmt"
	"slices"

	"github.com/consensys/gnark-crypto/ecc/bn254/fr"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr/fft"

	"github.com/weft-run/weft/workload"
)

// errWrong is returned by [job.Check] for a result that is not the transform.
var errWrong = errors.New("not the transform")

// reference is the transform by gnark-crypto alone, as it does it in one piece.
func reference(x []fr.Element, t Transform) []fr.Element {
	out := slices.Clone(x)
	if len(x) == 1 {
		return out
	}
	d := fft.NewDomain(uint64(len(x)), fft.WithoutPrecompute())
	var options []fft.Option
	if t.Coset {
		options = append(options, fft.OnCoset())
	}
	if t.Inverse {
		d.FFTInverse(out, fft.DIF, options...)
	} else {
		d.FFT(out, fft.DIF, options...)
	}
	fft.BitReverse(out)
	return out
}

// Check compares every element with the transform by gnark-crypto.
func (j *job) Check() error {
	want := reference(j.x, j.c.Transform)
	for k, got := range j.out {
		if got != want[k] {
			return fmt.Errorf("%s: element %d is %x, want %x: %w", j.Name(), k, got, want[k], errWrong)
		}
	}
	return nil
}

// Misses is nothing: every element is compared.
func (j *job) Misses() []workload.Miss {
	return []workload.Miss{{What: "one wrong element", Chance: 0}}
}
