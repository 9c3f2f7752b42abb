package zk

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/consensys/gnark-crypto/ecc"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr"
	groth16 "github.com/consensys/gnark/backend/groth16/bn254"
	"github.com/consensys/gnark/backend/witness"
	"github.com/consensys/gnark/frontend"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/test/poll"
	"github.com/weft-run/weft/internal/workloadtest"
)

// sums returns witnesses of the circuit of two numbers, of which some are wrong.
func sums(t testing.TB, n int, wrong ...int) []witness.Witness {
	t.Helper()
	out := make([]witness.Witness, n)
	for i := range out {
		c := &rangeCircuit{Values: []frontend.Variable{i, 7}, Sum: i + 7}
		if slices.Contains(wrong, i) {
			c.Sum = 0
		}
		var err error
		if out[i], err = frontend.NewWitness(c, ecc.BN254.ScalarField()); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// Many proofs come in the order of their witnesses. One that fails leaves the others alone.
func TestProveAll(t *testing.T) {
	s := shipped(t, Range, 2, 3)
	p, err := NewProver(workloadtest.Open(t, 2, Funcs()), s.ccs, &s.pk)
	if err != nil {
		t.Fatal(err)
	}
	if n := p.Together(); n != 3 {
		t.Errorf("%d proofs are in progress at a time", n)
	}
	all, unread := sums(t, 6, 3), errors.New("for a test")
	source := func(yield func(witness.Witness, error) bool) {
		for i, w := range all {
			err := error(nil)
			if i == 1 {
				w, err = nil, unread
			}
			if !yield(w, err) {
				return
			}
		}
	}
	i := 0
	for r := range p.ProveAll(t.Context(), source) {
		switch i {
		case 1:
			if r.Err != unread {
				t.Errorf("a witness that was not read: %v", r.Err)
			}
		case 3:
			if !errors.Is(r.Err, ErrWitness) {
				t.Errorf("a wrong witness: %v", r.Err)
			}
		default:
			if r.Err != nil || r.Witness != all[i] {
				t.Fatalf("proof %d: %v", i, r.Err)
			}
			public, err := r.Witness.Public()
			if err != nil {
				t.Fatal(err)
			}
			if err := groth16.Verify(r.Proof, &s.vk, public.Vector().(fr.Vector)); err != nil {
				t.Errorf("gnark refuses proof %d: %v", i, err)
			}
		}
		i++
	}
	if i != len(all) {
		t.Errorf("%d results", i)
	}
}

// A caller that wants no more results, and a context that ends, take no more witnesses.
func TestProveAllEnds(t *testing.T) {
	s := shipped(t, Range, 2, 3)
	p, err := NewProver(workloadtest.Open(t, 1, Funcs()), s.ccs, &s.pk)
	if err != nil {
		t.Fatal(err)
	}
	var taken []witness.Witness
	endless := func(yield func(witness.Witness, error) bool) {
		for {
			w := sums(t, 1)[0]
			if taken = append(taken, w); !yield(w, nil) {
				return
			}
		}
	}
	n := 0
	for r := range p.ProveAll(t.Context(), endless) {
		if n++; r.Err != nil {
			t.Fatal(r.Err)
		}
		if n == 2 {
			break
		}
	}
	for i, w := range taken {
		if zero := !slices.ContainsFunc(w.Vector().(fr.Vector), func(x fr.Element) bool { return !x.IsZero() }); zero != (i >= n) {
			t.Errorf("witness %d of %d is cleared: %v", i, len(taken), zero)
		}
	}
	if most := n + p.Together() + 1; len(taken) > most {
		t.Errorf("%d witnesses were taken for 2 proofs", len(taken))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	well, cancelled := 0, 0
	for r := range p.ProveAll(ctx, iter.Seq2[witness.Witness, error](endless)) {
		switch {
		case r.Err == nil:
			well++
			cancel()
		case errors.Is(r.Err, context.Canceled):
			cancelled++
		default:
			t.Error(r.Err)
		}
	}
	if well == 0 || well+cancelled > 2*p.Together()+2 {
		t.Errorf("%d proofs, %d cancelled", well, cancelled)
	}
}

// due is a context with a deadline that does not end then.
type due struct {
	context.Context
	at time.Time
}

func (d due) Deadline() (time.Time, bool) { return d.at, true }

// Of proofs that wait for one device the one whose deadline is nearest is done first.
func TestNearestDeadline(t *testing.T) {
	s := shipped(t, Range, 2, 3)
	begin := make(chan struct{})
	var mu sync.Mutex
	var order []int // proofs by the tasks that were executed
	whose := make(map[string]int)
	funcs := Funcs()
	for _, name := range stages {
		right := Funcs()[name]
		funcs[name] = func(c *weft.Call, lo, hi int) {
			<-begin
			if lo == 0 {
				mu.Lock()
				who, ok := whose[string(c.Args[0])]
				if ok {
					order = append(order, who)
				}
				mu.Unlock()
			}
			right(c, lo, hi)
		}
	}
	rt := workloadtest.Open(t, 1, funcs)
	p, err := NewProver(rt, s.ccs, &s.pk)
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for i, left := range []time.Duration{0, 600 * time.Second, 9 * time.Second, 5 * time.Second} {
		w, err := frontend.NewWitness(assignRange(2, uint64(i)), ecc.BN254.ScalarField())
		if err != nil {
			t.Fatal(err)
		}
		of, err := p.solve(w)
		if err != nil {
			t.Fatal(err)
		}
		for _, xs := range [][]fr.Element{of.a, of.b, of.c} { // what is transformed tells proofs apart
			key := string(workloadtest.Bytes(xs))
			if other, ok := whose[key]; ok && other != i {
				t.Fatalf("proofs %d and %d transform the same numbers", other, i)
			}
			whose[key] = i
		}
		ctx := t.Context()
		if left > 0 {
			ctx = due{ctx, time.Now().Add(left)}
		}
		submitted := rt.Metrics().Runs.Submitted
		wait.Go(func() {
			if _, err := p.Prove(ctx, w); err != nil {
				t.Error(err)
			}
		})
		poll.True(t, "a proof is submitted", func() bool { return rt.Metrics().Runs.Submitted != submitted })
	}
	close(begin)
	wait.Wait()
	// The first has the device already. While the next task of a proof is not ready another goes on, so
	// that the first task of each tells, not the last.
	first := func(who int) int { return slices.Index(order, who) }
	if !(first(3) < first(2) && first(2) < first(1)) {
		t.Errorf("the quotients of proofs were made in the order %v", order)
	}
}

// A deadline that is near, or past, is a head start.
func TestUrgency(t *testing.T) {
	for left, want := range map[time.Duration]int{-time.Second: 100, 0: 100, time.Second: 90, 9900 * time.Millisecond: 1, 10 * time.Second: 0, time.Hour: 0} {
		if got := urgencyOf(left); got != want {
			t.Errorf("with %v left the priority is %d, want %d", left, got, want)
		}
	}
}

// If all devices are lost that a proof chose, others make it.
func TestAllChosenLost(t *testing.T) {
	s := shipped(t, Range, 2, 3)
	p, err := NewProver(workloadtest.Open(t, 1, Funcs()), s.ccs, &s.pk)
	if err != nil {
		t.Fatal(err)
	}
	want := s.proofBytes(t, p)
	rt := onFakes(t, "devices 3; revive standby fails; revive restart fails; revive reopen fails; on 0 lose launches; on 1 lose launches")
	if p, err = NewProver(rt, s.ccs, &s.pk); err != nil {
		t.Fatal(err)
	}
	given(p)
	p.per = (s.ccs.GetNbConstraints() + 1) / 2 // two devices
	proof, err := p.Prove(t.Context(), s.w)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := proof.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Error("the proof is another one")
	}
	if n := rt.Metrics().Losses; n != 2 {
		t.Errorf("%d devices were lost", n)
	}
}
