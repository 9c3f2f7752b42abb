package zk

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/consensys/gnark-crypto/ecc/bn254"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr"

	"github.com/weft-run/weft/internal/workloadtest"
)

func noLook() error { return nil }

// With the same random numbers the keys are gnark's, byte by byte: of all circuits, and of one with commitments.
func TestSetupSameAsGnark(t *testing.T) {
	old := rand.Reader
	defer func() { rand.Reader = old }()
	of := func(keys ...io.WriterTo) []byte {
		var b bytes.Buffer
		for _, k := range keys {
			if _, err := k.WriteTo(&b); err != nil {
				t.Fatal(err)
			}
		}
		return b.Bytes()
	}
	for name, make := range map[string]func() *statement{
		Chain: func() *statement { return shipped(t, Chain, 1, 5) }, Range: func() *statement { return shipped(t, Range, 3, 5) },
		Member: func() *statement { return shipped(t, Member, 2, 5) }, "commitments": func() *statement { return cube(t) },
	} {
		rand.Reader = &counter{}
		s := make()
		rand.Reader = &counter{}
		k, err := Setup(t.Context(), s.ccs)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(of(k.Proving, k.Verifying), of(&s.pk, &s.vk)) {
			t.Errorf("%s: the keys are not gnark's", name)
		}
		if err := checkKey(s.ccs, k.Proving); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Without random numbers there are no keys.
func TestSetupWithoutRandom(t *testing.T) {
	s := shipped(t, Range, 1, 5)
	old := rand.Reader
	defer func() { rand.Reader = old }()
	for _, bytes := range []int64{0, 32, 5*32 - 1} {
		rand.Reader = io.LimitReader(&counter{}, bytes)
		if _, err := Setup(t.Context(), s.ccs); err == nil {
			t.Errorf("there are keys of %d random bytes", bytes)
		}
	}
}

// Multiples of generators are those of gnark-crypto.
func TestFixedBase(t *testing.T) {
	by := make([]fr.Element, 600)
	for i := range by {
		if _, err := by[i].SetRandom(); err != nil {
			t.Fatal(err)
		}
	}
	by[0].SetZero()
	by[1].SetOne()
	by[2].SetInt64(-1)
	by[3].SetUint64(256)
	_, _, g1, g2 := bn254.Generators()
	got1, err := newBase(&g1, (*bn254.G1Jac).AddMixed, (*bn254.G1Affine).FromJacobian).times(t.Context(), by)
	if err != nil {
		t.Fatal(err)
	}
	got2, err := newBase(&g2, (*bn254.G2Jac).AddMixed, (*bn254.G2Affine).FromJacobian).times(t.Context(), by)
	if err != nil {
		t.Fatal(err)
	}
	want1, want2 := bn254.BatchScalarMultiplicationG1(&g1, by), bn254.BatchScalarMultiplicationG2(&g2, by)
	for i := range by {
		if got1[i] != want1[i] || got2[i] != want2[i] {
			t.Errorf("multiple %d by %s is wrong", i, by[i].String())
		}
	}
}

// looked is a context that ends when it has been looked at so often.
type looked struct {
	context.Context
	most int64
	n    atomic.Int64
}

func (c *looked) Err() error {
	if c.n.Add(1) > c.most {
		return context.Canceled
	}
	return nil
}

func (c *looked) Deadline() (time.Time, bool) { return time.Time{}, false }

// Making a job and putting its key on devices look at the context all the time, and end wherever that ends: of n
// constraints there are some n/300 looks while the circuit is compiled, and n/30 while keys are made.
func TestCancelled(t *testing.T) {
	c := Config{Circuit: Chain, Constraints: 3000, Seed: 1}
	whole := &looked{Context: t.Context(), most: 1 << 40}
	j, err := New(whole, c)
	if err != nil {
		t.Fatal(err)
	}
	looks := whole.n.Load()
	if least := int64(c.Constraints/330 + 6*c.Constraints/setupBlock); looks < least {
		t.Errorf("the context was looked at %d times, want %d", looks, least)
	}
	for _, share := range []int64{0, 1, 10, 50, 90, 99} {
		at := &looked{Context: t.Context(), most: looks * share / 100}
		if _, err := New(at, c); !errors.Is(err, context.Canceled) {
			t.Errorf("after %d %% of its looks: %v", share, err)
		}
		// One look for each goroutine, and those on the way out.
		if more := at.n.Load() - at.most; more > 64+int64(runtime.GOMAXPROCS(0)) {
			t.Errorf("after %d %% of its looks the context was looked at %d times more", share, more)
		}
	}
	rt := workloadtest.Open(t, 1, Funcs())
	put := &looked{Context: t.Context(), most: 1 << 40}
	if err := j.Begin(put, rt); err != nil {
		t.Fatal(err)
	}
	j.Release()
	for most := range put.n.Load() {
		if err := j.Begin(&looked{Context: t.Context(), most: most}, rt); !errors.Is(err, context.Canceled) {
			t.Errorf("after look %d: %v", most, err)
		}
		j.Release()
	}
}
