package zk

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/consensys/gnark-crypto/ecc"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr"
	hash "github.com/consensys/gnark-crypto/ecc/bn254/fr/mimc"
	"github.com/consensys/gnark/backend/witness"
	"github.com/consensys/gnark/constraint"
	"github.com/consensys/gnark/frontend"
	"github.com/consensys/gnark/frontend/cs/r1cs"
	"github.com/consensys/gnark/std/hash/mimc"
	"github.com/consensys/gnark/std/math/bits"

	"github.com/weft-run/weft/workload"
)

// The circuits that are shipped.
const (
	// Chain is a chain of MiMC hashes: the prover knows its beginning.
	Chain = "mimc"
	// Range is numbers of 64 bits: the prover knows some that have a sum.
	Range = "range"
	// Member is leaves of a tree of MiMC hashes: the prover knows some under a root.
	Member = "merkle"
)

// circuit is a shipped circuit: the constraints of its smallest unit, and functions that make it with a
// number of units.
type circuit struct {
	name string
	unit int // constraints
	// make returns the circuit. To define it ends with an error soon after look returns that.
	make func(units int, look func() error) frontend.Circuit
	// assign returns the circuit with a witness drawn from a seed.
	assign func(units int, seed uint64) frontend.Circuit
}

var circuits = []circuit{
	{Chain, 330, func(units int, look func() error) frontend.Circuit {
		return &chainCircuit{links: units, look: look}
	}, assignChain},
	{Range, 65, func(units int, look func() error) frontend.Circuit {
		return &rangeCircuit{Values: make([]frontend.Variable, units), look: look}
	}, assignRange},
	{Member, 664, func(units int, look func() error) frontend.Circuit {
		c := newMember(units)
		c.look = look
		return c
	}, assignMember},
}

// Circuits are the names of the circuits that are shipped.
func Circuits() (names []string) {
	for _, c := range circuits {
		names = append(names, c.name)
	}
	return names
}

// findCircuit returns a circuit by its name.
func findCircuit(name string) (*circuit, error) {
	i := slices.IndexFunc(circuits, func(c circuit) bool { return c.name == name })
	if i < 0 {
		return nil, fmt.Errorf("zk: no circuit %q: %w: there is %s", name, workload.ErrConfig, strings.Join(Circuits(), ", "))
	}
	return &circuits[i], nil
}

// units returns the number of units in a number of constraints, at least one.
func (c *circuit) units(constraints int) int { return max(1, constraints/c.unit) }

// Compile compiles a circuit of gnark to constraints of rank 1 over BN254.
func Compile(c frontend.Circuit) (constraint.ConstraintSystem, error) {
	return frontend.Compile(ecc.BN254.ScalarField(), r1cs.NewBuilder, c)
}

// Shipped compiles a circuit by its name, with about as many constraints, and draws a witness
// of it from a seed.
func Shipped(name string, constraints int, seed uint64) (constraint.ConstraintSystem, witness.Witness, error) {
	return shippedWhile(func() error { return nil }, name, constraints, seed)
}

// shippedWhile is Shipped, which ends soon after look returns an error, with that.
func shippedWhile(look func() error, name string, constraints int, seed uint64) (constraint.ConstraintSystem, witness.Witness, error) {
	if err := (Config{Circuit: name, Constraints: constraints}).Validate(); err != nil {
		return nil, nil, err
	}
	k, err := findCircuit(name)
	if err != nil {
		return nil, nil, err
	}
	units := k.units(constraints)
	compiled, err := Compile(k.make(units, look))
	if err != nil {
		return nil, nil, fmt.Errorf("zk: %w", err)
	}
	w, err := frontend.NewWitness(k.assign(units, seed), ecc.BN254.ScalarField())
	if err != nil {
		return nil, nil, fmt.Errorf("zk: %w", err)
	}
	return compiled, w, nil
}

// source is a source of random numbers with a seed.
func source(seed uint64) *rand.Rand {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	return rand.New(rand.NewChaCha8(key))
}

// scalar draws a scalar.
func scalar(r *rand.Rand) (x fr.Element) {
	var text [fr.Bytes + 8]byte
	for i := 0; i < len(text); i += 8 {
		binary.LittleEndian.PutUint64(text[i:], r.Uint64())
	}
	x.SetBytes(text[:])
	return x
}

// hashOf is the MiMC hash of scalars.
func hashOf(xs ...fr.Element) (out fr.Element) {
	h := hash.NewMiMC()
	for i := range xs {
		text := xs[i].Bytes()
		h.Write(text[:])
	}
	out.SetBytes(h.Sum(nil))
	return out
}

// chainCircuit is a chain of hashes.
type chainCircuit struct {
	links int
	look  func() error
	Start frontend.Variable
	End   frontend.Variable `gnark:",public"`
}

// Define says that the chain from Start ends at End.
func (c *chainCircuit) Define(api frontend.API) error {
	h, err := mimc.NewMiMC(api)
	if err != nil {
		return err
	}
	x := c.Start
	for range c.links {
		if err := c.look(); err != nil {
			return err
		}
		h.Reset()
		h.Write(x)
		x = h.Sum()
	}
	api.AssertIsEqual(x, c.End)
	return nil
}

func assignChain(units int, seed uint64) frontend.Circuit {
	start := scalar(source(seed))
	end := start
	for range units {
		end = hashOf(end)
	}
	return &chainCircuit{links: units, Start: start, End: end}
}

// rangeCircuit is numbers below 2^64 with a sum.
type rangeCircuit struct {
	look   func() error
	Values []frontend.Variable
	Sum    frontend.Variable `gnark:",public"`
}

// Define says that the values have 64 bits and the sum.
func (c *rangeCircuit) Define(api frontend.API) error {
	sum := frontend.Variable(0)
	for _, v := range c.Values {
		if err := c.look(); err != nil {
			return err
		}
		bits.ToBinary(api, v, bits.WithNbDigits(64))
		sum = api.Add(sum, v)
	}
	api.AssertIsEqual(sum, c.Sum)
	return nil
}

func assignRange(units int, seed uint64) frontend.Circuit {
	c, r := &rangeCircuit{Values: make([]frontend.Variable, units)}, source(seed)
	var sum, x fr.Element
	for i := range c.Values {
		v := r.Uint64()
		c.Values[i] = v
		sum.Add(&sum, x.SetUint64(v))
	}
	c.Sum = sum
	return c
}

// maxDepth is the most levels of a tree. A larger circuit has several leaves.
const maxDepth = 20

// memberCircuit has leaves of a tree and the siblings on their paths to the root.
type memberCircuit struct {
	look   func() error
	Leaves []frontend.Variable
	Index  []frontend.Variable   // of the leaves
	Path   [][]frontend.Variable // from the leaves up
	Root   frontend.Variable     `gnark:",public"`
}

// newMember returns a circuit of Merkle paths whose lengths add up to about the given number of levels.
func newMember(units int) *memberCircuit {
	depth := min(units, maxDepth)
	n := units / depth
	c := &memberCircuit{Leaves: make([]frontend.Variable, n), Index: make([]frontend.Variable, n), Path: make([][]frontend.Variable, n)}
	for i := range c.Path {
		c.Path[i] = make([]frontend.Variable, depth)
	}
	return c
}

// Define says that every leaf is under the root.
func (c *memberCircuit) Define(api frontend.API) error {
	h, err := mimc.NewMiMC(api)
	if err != nil {
		return err
	}
	for i, node := range c.Leaves {
		if err := c.look(); err != nil {
			return err
		}
		side := bits.ToBinary(api, c.Index[i], bits.WithNbDigits(len(c.Path[i])))
		for j, beside := range c.Path[i] {
			h.Reset()
			h.Write(api.Select(side[j], beside, node), api.Select(side[j], node, beside))
			node = h.Sum()
		}
		api.AssertIsEqual(node, c.Root)
	}
	return nil
}

// assignMember makes a tree whose leaves are zero but for the members.
func assignMember(units int, seed uint64) frontend.Circuit {
	c, r := newMember(units), source(seed)
	depth := len(c.Path[0])
	level, at := make(map[uint64]fr.Element), make([]uint64, len(c.Leaves))
	for i := range at {
		at[i] = r.Uint64N(1 << depth)
		for level[at[i]] != (fr.Element{}) && len(level) < 1<<depth {
			at[i] = (at[i] + 1) % (1 << depth)
		}
		level[at[i]] = scalar(r)
		c.Index[i] = at[i]
	}
	for i := range at {
		c.Leaves[i] = level[at[i]]
	}
	var empty fr.Element // the node above zeros
	for j := range depth {
		node := func(i uint64) fr.Element {
			if x, ok := level[i]; ok {
				return x
			}
			return empty
		}
		above := make(map[uint64]fr.Element)
		for i := range at {
			c.Path[i][j] = node(at[i]>>j ^ 1)
		}
		for i := range level {
			if _, ok := above[i/2]; !ok {
				above[i/2] = hashOf(node(i&^1), node(i|1))
			}
		}
		empty = hashOf(empty, empty)
		level = above
	}
	c.Root = level[0]
	return c
}
