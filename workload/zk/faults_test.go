package zk

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	groth16 "github.com/consensys/gnark/backend/groth16/bn254"
	"github.com/consensys/gnark/frontend"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/fake"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload"
)

// counter counts instead of drawing random numbers.
type counter struct{ n byte }

func (c *counter) Read(b []byte) (int, error) {
	for i := range b {
		c.n += 37
		b[i] = c.n
	}
	return len(b), nil
}

// cubeCircuit commits to a secret, which gnark's commitments do beside the sums of a proof, and
// has a public wire that is on no left side.
type cubeCircuit struct {
	X    frontend.Variable
	Y, Z frontend.Variable `gnark:",public"`
}

func (c *cubeCircuit) Define(api frontend.API) error {
	api.AssertIsEqual(api.Mul(c.X, c.X, c.X), c.Y)
	x, err := api.(frontend.Committer).Commit(c.X, c.Y)
	if err != nil {
		return err
	}
	api.AssertIsDifferent(x, 0)
	y, err := api.(frontend.Committer).Commit(api.Mul(c.X, 3), x)
	if err != nil {
		return err
	}
	api.AssertIsDifferent(y, c.Z)
	return nil
}

func cube(t testing.TB) *statement {
	return state(t, &cubeCircuit{}, &cubeCircuit{X: 3, Y: 27, Z: 5})
}

// With the same random numbers gnark's own prover makes the same bytes.
func TestSameAsGnark(t *testing.T) {
	old := rand.Reader
	defer func() { rand.Reader = old }()
	for name, s := range map[string]*statement{"mimc": shipped(t, Chain, 1, 5), "commitments": cube(t)} {
		p, err := NewProver(workloadtest.Open(t, 2, Funcs()), s.ccs, &s.pk)
		if err != nil {
			t.Fatal(err)
		}
		p.per = 1
		write := func(proof *groth16.Proof, err error) []byte {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if _, err := proof.WriteTo(&b); err != nil {
				t.Fatal(err)
			}
			return b.Bytes()
		}
		rand.Reader = &counter{}
		got, err := p.Prove(t.Context(), s.w)
		ours := write(got, err)
		rand.Reader = &counter{}
		gnarks := write(groth16.Prove(s.ccs, &s.pk, s.w))
		rand.Reader = old
		if !bytes.Equal(ours, gnarks) {
			t.Errorf("%s: the proof is %x, and gnark's %x", name, ours, gnarks)
		}
		again, err := p.Prove(t.Context(), s.w)
		if bytes.Equal(write(again, err), ours) {
			t.Errorf("%s: two proofs have the same random numbers", name)
		}
	}
}

// onFakes opens devices with memory of their own that follow a script.
func onFakes(t *testing.T, script string) *weft.Runtime {
	t.Helper()
	return onFakesWith(t, script, Funcs())
}

func onFakesWith(t *testing.T, script string, funcs map[string]weft.Func) *weft.Runtime {
	t.Helper()
	o, err := fake.Parse("devices 2; memory 67108864; " + script)
	if err != nil {
		t.Fatal(err)
	}
	o.Funcs = funcs
	drv, err := fake.New(o)
	if err != nil {
		t.Fatal(err)
	}
	rt, err := weft.Open(t.Context(), weft.Options{Drivers: []driver.Driver{drv}, Partitioner: "equal", NoCalibrate: true, CacheDir: "off", Funcs: funcs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rt.Close() })
	return rt
}

// stages are the kernels of a proof.
var stages = []string{"zk.coset", "zk.quotient", "msm.g1", "msm.g2"}

// A proof that loses a device in any stage has the same bytes.
func TestLostDevice(t *testing.T) {
	s := shipped(t, Range, 2, 3)
	p, err := NewProver(workloadtest.Open(t, 1, Funcs()), s.ccs, &s.pk)
	if err != nil {
		t.Fatal(err)
	}
	want := s.proofBytes(t, p)
	for _, kernel := range stages {
		rt := onFakes(t, fmt.Sprintf("lose kernel %q times 1", kernel))
		p, err := NewProver(rt, s.ccs, &s.pk)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.proofBytes(t, p); !bytes.Equal(got, want) {
			t.Errorf("a device that is lost in %s changes the proof", kernel)
		}
		if rt.Metrics().Losses == 0 {
			t.Errorf("no device was lost in %s", kernel)
		}
	}
}

// A bit that is wrong in what any task computes makes gnark refuse the proof.
func TestWrongPartial(t *testing.T) {
	s := shipped(t, Range, 2, 3)
	public := s.public(t)
	for _, kernel := range stages {
		var calls, flip atomic.Int64
		right := Funcs()[kernel]
		funcs := workload.Funcs(Funcs(), map[string]weft.Func{kernel: func(c *weft.Call, lo, hi int) {
			right(c, lo, hi)
			out := c.Args[len(c.Args)-1]
			if strings.HasPrefix(kernel, "msm.") {
				out = c.Args[2]
			}
			if calls.Add(1) == flip.Load() {
				out[len(out)/3] ^= 4
			}
		}})
		p, err := NewProver(workloadtest.Open(t, 2, funcs), s.ccs, &s.pk)
		if err != nil {
			t.Fatal(err)
		}
		p.per = 1
		s.proofBytes(t, p)
		for i := range calls.Load() {
			calls.Store(0)
			flip.Store(i + 1)
			proof, err := p.Prove(t.Context(), s.w)
			if err != nil {
				t.Fatal(err)
			}
			if err := groth16.Verify(proof, &s.vk, public); err == nil {
				t.Errorf("a wrong bit in call %d of %s is not seen", i+1, kernel)
			}
		}
	}
}

// Scalars that tasks have read or written are cleared after a proof, however it ends: in host memory, and
// in the memory of devices.
func TestForgotten(t *testing.T) {
	t.Run("host", func(t *testing.T) {
		forgotten(t, func(funcs map[string]weft.Func) *weft.Runtime { return workloadtest.Open(t, 2, funcs) })
	})
	t.Run("device", func(t *testing.T) {
		forgotten(t, func(funcs map[string]weft.Func) *weft.Runtime { return onFakesWith(t, "", funcs) })
	})
}

func forgotten(t *testing.T, open func(map[string]weft.Func) *weft.Runtime) {
	s := shipped(t, Range, 2, 3)
	var seen sync.Map // memory of scalars: its length by a pointer to it
	var fail atomic.Bool
	funcs := Funcs()
	for name, fn := range Funcs() {
		funcs[name] = func(c *weft.Call, lo, hi int) {
			fn(c, lo, hi)
			scalars := c.Args[:0]
			switch name {
			case "zk.coset", "zk.quotient":
				scalars = c.Args
			case "msm.g1", "msm.g2":
				scalars = c.Args[1:2]
			}
			for _, x := range scalars {
				seen.Store(&x[0], len(x))
			}
			if name == "zk.quotient" && fail.Load() {
				c.Fail(errors.New("for a test"))
			}
		}
	}
	for _, fails := range []bool{false, true} {
		rt := open(funcs)
		p, err := NewProver(rt, s.ccs, &s.pk)
		if err != nil {
			t.Fatal(err)
		}
		fail.Store(fails)
		seen.Clear()
		if _, err := p.Prove(t.Context(), s.w); (err != nil) != fails {
			t.Fatal(err)
		}
		if err := rt.Close(); err != nil { // devices clear memory in their turn
			t.Fatal(err)
		}
		n := 0
		seen.Range(func(at, length any) bool {
			n++
			if left := bytes.Trim(unsafe.Slice(at.(*byte), length.(int)), "\x00"); len(left) > 0 {
				t.Errorf("%d bytes of a witness are left in memory", len(left))
			}
			return true
		})
		if n < 7 {
			t.Errorf("%d pieces of memory were seen", n)
		}
	}
	p, err := NewProver(open(funcs), s.ccs, &s.pk)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Prove(ctx, s.w); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// hintCircuit has a wire that a function computes which is not registered.
type hintCircuit struct {
	X frontend.Variable
	Y frontend.Variable `gnark:",public"`
}

func (c *hintCircuit) Define(api frontend.API) error {
	out, err := api.Compiler().NewHint(func(_ *big.Int, in, out []*big.Int) error {
		out[0].Set(in[0])
		return nil
	}, 1, c.X)
	if err != nil {
		return err
	}
	api.AssertIsEqual(out[0], c.Y)
	return nil
}

// tasksOf returns the number of tasks that devices have executed.
func tasksOf(rt *weft.Runtime) (n int64) {
	for _, d := range rt.Metrics().Devices {
		n += int64(d.Tasks)
	}
	return n
}

// An error in a witness or a key is reported before devices work, and without secrets.
func TestRefused(t *testing.T) {
	s := shipped(t, Chain, 1, 5)
	rt := workloadtest.Open(t, 1, Funcs())
	refuse := func(err, is error, says string) {
		t.Helper()
		if err == nil || !errors.Is(err, is) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %v that says %q", err, is, says)
		}
	}
	p, err := NewProver(rt, s.ccs, &s.pk)
	if err != nil {
		t.Fatal(err)
	}
	before := tasksOf(rt)
	wrong := state(t, &chainCircuit{links: 1, look: noLook}, &chainCircuit{links: 1, Start: 1234567, End: 7654321})
	_, err = p.Prove(t.Context(), wrong.w)
	refuse(err, ErrWitness, "does not satisfy the circuit")
	if strings.Contains(err.Error(), "1234567") || strings.Contains(err.Error(), "7654321") || strings.Contains(err.Error(), "!=") {
		t.Errorf("the error tells secrets: %v", err)
	}
	_, err = p.Prove(t.Context(), cube(t).w)
	refuse(err, ErrWitness, "takes 2")
	_, err = p.Prove(t.Context(), nil)
	refuse(err, ErrWitness, "none")
	large := shipped(t, Chain, 1, 6)
	values, err := checkWitness(p.r1cs, large.w)
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range modulus.Bits() {
		values[1][i] = uint64(w)
	}
	_, err = p.Prove(t.Context(), large.w)
	refuse(err, ErrWitness, "value 1 is no scalar")
	if after := tasksOf(rt); after != before {
		t.Errorf("devices ran %d tasks for bad witnesses", after-before)
	}
	hint := state(t, &hintCircuit{}, &hintCircuit{X: 5, Y: 5})
	if p, err = NewProver(rt, hint.ccs, &hint.pk); err != nil {
		t.Fatal(err)
	}
	_, err = p.Prove(t.Context(), hint.w)
	refuse(err, err, "solver.RegisterHint")
	for _, other := range []*statement{shipped(t, Chain, 2, 5), shipped(t, Range, 5, 5), cube(t)} {
		_, err = NewProver(rt, s.ccs, &other.pk)
		refuse(err, ErrKey, "another circuit")
	}
}
