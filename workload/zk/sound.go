package zk

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/consensys/gnark/constraint"
	cs "github.com/consensys/gnark/constraint/bn254"
)

// gnark takes a circuit as it is read, and decodes and solves it in goroutines of its own, where an index out of
// range ends the program. A circuit from a file is given to gnark only if its layout is good, and is used only
// if it is sound.

// circuit reads a circuit. After its length and gnark's version it has levels, instructions, call data and the
// rest in CBOR, whose lengths stand before all of them, and coefficients.
func (l *layout) circuit() {
	all := l.word()
	l.take(3 * 8)
	l.short = l.short || all != uint64(len(l.left))
	var lengths [4]uint64
	for i := range lengths {
		lengths[i] = l.word()
	}
	var parts [4]layout
	for i, n := range lengths {
		parts[i].left = l.take(n)
	}
	if !l.short {
		parts[0].levels()
		parts[1].instructions()
		parts[2].callData()
	}
	for i := range parts {
		l.short = l.short || parts[i].short
	}
	if n := l.word(); n <= uint64(len(l.left)) {
		l.take(n * scalarBytes)
	} else {
		l.short = true
	}
}

// word reads a number of 8 bytes, the lowest first.
func (l *layout) word() uint64 {
	if b := l.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// levels reads lists of instructions.
func (l *layout) levels() {
	n := l.word()
	l.short = l.short || n > uint64(len(l.left))
	for ; n > 0 && !l.short; n-- {
		l.packed(4)
	}
}

// instructions reads what instructions have, in four lists that are equally long.
func (l *layout) instructions() {
	n := l.packed(4)
	for _, size := range []uint64{4, 4, 8} {
		l.short = l.packed(size) != n || l.short
	}
}

// callData reads numbers of variable length.
func (l *layout) callData() {
	n := l.word()
	l.short = l.short || n > uint64(len(l.left))
	for ; n > 0 && !l.short; n-- {
		_, size := binary.Uvarint(l.left[:min(len(l.left), binary.MaxVarintLen64)])
		l.short = size <= 0
		l.take(uint64(max(size, 0)))
	}
}

// packed reads a list of numbers of 4 or 8 bytes as package intcomp packs them, and returns the number of values.
// The list is blocks that begin with the number of their values and of their own words. The last word is the
// length of the last block.
func (l *layout) packed(size uint64) (values uint64) {
	n := l.word()
	if l.short = l.short || n > uint64(len(l.left)); l.short || n == 0 {
		return 0
	}
	text := l.take(n * size)
	if l.short {
		return 0
	}
	words := make([]uint64, n-1)
	for i := range words {
		if size == 4 {
			words[i] = uint64(binary.LittleEndian.Uint32(text[4*i:]))
		} else {
			words[i] = binary.LittleEndian.Uint64(text[8*i:])
		}
	}
	for len(words) > 0 {
		count, length, head := words[0]&math.MaxUint32, words[0]>>32, uint64(1)
		if size == 4 {
			if len(words) < 2 {
				l.short = true
				return 0
			}
			length, head = words[1], 2
		}
		if l.short = length < head || length > uint64(len(words)) || count > math.MaxInt32; l.short {
			return 0
		}
		if perBlock := 32 * size; count < perBlock {
			l.short = variable(words[head:length], size) != count
		} else {
			// The first value stands before the blocks.
			l.short = count%perBlock != 0 || length == head || !blocks(words[head+1:length], count/perBlock, 8*size)
		}
		if l.short {
			return 0
		}
		values += count
		words = words[length:]
	}
	return values
}

// variable is the number of values of variable length in words: bytes that do not say that more follow.
func variable(words []uint64, size uint64) (n uint64) {
	for _, w := range words {
		for i := range size {
			if w>>(8*i)&0x80 == 0 {
				n++
			}
		}
	}
	return n
}

// blocks reports whether words are some blocks: four groups of as many values as a word has bits. The first word
// has the bits of a value of each, and the group has as many words.
func blocks(words []uint64, n, most uint64) bool {
	for ; n > 0; n-- {
		if len(words) == 0 {
			return false
		}
		length := uint64(1)
		for i := range 4 {
			bits := words[0] >> (8 * i) & 0x7f
			if bits > most {
				return false
			}
			length += bits
		}
		if length > uint64(len(words)) {
			return false
		}
		words = words[length:]
	}
	return len(words) == 0
}

// tree has the levels of internal wires: when each is solved. It panics where a circuit cannot be solved.
type tree struct {
	inputs uint32 // wires before
	levels []constraint.Level
	single bool // one wire may be unknown
	made   int  // wires that an instruction solves
}

// HasWire reports whether a wire is an internal one. The constant is the last of all numbers.
func (t *tree) HasWire(wire uint32) bool {
	if wire < t.inputs || wire == math.MaxUint32 {
		return false
	}
	_ = t.levels[wire-t.inputs]
	return true
}

// GetWireLevel returns the level of an internal wire.
func (t *tree) GetWireLevel(wire uint32) constraint.Level {
	level := t.levels[wire-t.inputs]
	if level == constraint.LevelUnset && !t.single {
		panic("it is not known")
	}
	return level
}

// InsertWire says that an instruction solves a wire.
func (t *tree) InsertWire(wire uint32, level constraint.Level) {
	if t.levels[wire-t.inputs] != constraint.LevelUnset {
		panic("it is solved twice")
	}
	t.levels[wire-t.inputs] = level
	if t.made++; t.single && t.made > 1 {
		panic("two are not known")
	}
}

// wiresPerWord bounds the internal wires of a circuit by its call data, before there is memory for them.
const wiresPerWord = 64

// sound reports whether gnark can solve a circuit that was read: wires and coefficients are there, each wire is
// solved once, and its levels are those that gnark finds when it compiles.
func sound(c *cs.R1CS) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	if len(c.Public) == 0 || c.NbInternalVariables < 0 || c.NbInternalVariables > wiresPerWord*len(c.CallData) {
		return false
	}
	t := &tree{inputs: uint32(len(c.Public) + len(c.Secret)), levels: make([]constraint.Level, c.NbInternalVariables)}
	for i := range t.levels {
		t.levels[i] = constraint.LevelUnset
	}
	constraints := 0
	var levels [][]uint32
	for i, packed := range c.Instructions {
		kind, inst := c.Blueprints[packed.BlueprintID], packed.Unpack(&c.System)
		terms(c, t, kind, inst)
		if int(inst.ConstraintOffset) != constraints {
			return false
		}
		constraints += kind.NbConstraints()
		_, t.single = kind.(constraint.BlueprintR1C)
		t.made = 0
		level := int(kind.UpdateInstructionTree(inst, t))
		if level == len(levels) {
			levels = append(levels, nil)
		}
		levels[level] = append(levels[level], uint32(i))
	}
	for _, info := range c.CommitmentInfo.(constraint.Groth16Commitments) {
		for _, i := range slices.Concat(info.PublicAndCommitmentCommitted, info.PrivateCommitted, []int{info.CommitmentIndex}) {
			if i < 0 || i >= int(t.inputs)+len(t.levels) {
				return false
			}
		}
	}
	return constraints == c.NbConstraints && slices.EqualFunc(levels, c.Levels, slices.Equal[[]uint32]) && !slices.Contains(t.levels, constraint.LevelUnset)
}

// terms panics unless the terms of an instruction have wires and coefficients that are there.
func terms(c *cs.R1CS, t *tree, kind constraint.Blueprint, inst constraint.Instruction) {
	check := func(e constraint.LinearExpression) {
		for _, term := range e {
			_ = c.Coefficients[term.CID]
			if t.HasWire(term.VID) && t.levels[term.VID-t.inputs] == constraint.LevelUnset && term.CID == constraint.CoeffIdZero {
				panic("it cannot be solved")
			}
		}
	}
	list := func(words []uint32, n uint32) {
		for ; n > 0; n-- {
			length := words[0]
			words = words[1:]
			for range length {
				_ = c.Coefficients[words[0]]
				t.HasWire(words[1])
				words = words[2:]
			}
		}
	}
	switch kind := kind.(type) {
	case constraint.BlueprintR1C:
		var r constraint.R1C
		kind.DecompressR1C(&r, inst)
		check(r.L)
		check(r.R)
		check(r.O)
	case *constraint.BlueprintGenericHint:
		list(inst.Calldata[3:], inst.Calldata[2])
	case *constraint.BlueprintLookupHint[constraint.U64]:
		list(inst.Calldata[3:], inst.Calldata[2])
		list(kind.EntriesCalldata, inst.Calldata[1])
	}
}
