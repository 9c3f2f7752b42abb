package vulkan

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/weft-run/weft/graph"
)

// shader is what a SPIR-V module says of one of its entry points. Drivers believe
// a module without looking, and end the process over one that is broken: so it is
// read here first, as far as its use can be checked.
type shader struct {
	words        []uint32
	capabilities []uint32
	size         [3]uint32 // of a group
	open         [3]bool   // where the launch sets it, by specialization constants 0, 1 and 2
	bindings     int       // one more than the highest
	pushBytes    int       // of the push constants it declares
	pushAlign    int       // what they are a multiple of in C: the size of the largest
	// shared is the memory a group shares, at the least: how parts of it are
	// aligned is the driver's affair. sharedBy is what comes to it for each unit of
	// the group's size, where arrays are as long as that.
	shared   int
	sharedBy [3]int
}

// sized reports whether some of the group's size is the launch's.
func (s *shader) sized() bool { return s.open != [3]bool{} }

// group is the size of the groups of a launch that asks for a size.
func (s *shader) group(asked [3]uint32) [3]uint32 {
	out := s.size
	for i := range out {
		if s.open[i] {
			out[i] = asked[i]
		}
	}
	return out
}

// sharedBytes is the memory that groups of a size share, at the least.
func (s *shader) sharedBytes(group [3]uint32) int {
	n := s.shared
	for i, by := range s.sharedBy {
		n += times(by, group[i])
	}
	return n
}

// maxPushAlign bounds the alignment of a push constant: that of four numbers.
const maxPushAlign = 16

// checkParams refuses parameters of another length than the shader's push constants,
// as they are or as a structure of C. A shader without any may have been given some by
// its source: compilers leave out what it does not use.
func (s *shader) checkParams(given int) error {
	if s.pushBytes == 0 || given == s.pushBytes {
		return nil
	}
	align := max(s.pushAlign, 1)
	return graph.CheckParams((s.pushBytes+align-1)/align*align, given)
}

// times multiplies sizes. A broken shader can have any: those that no device has
// are all one.
func times(a int, b uint32) int { return min(a*int(b), 1<<31) }

const spirvMagic = 0x07230203

// Instructions of SPIR-V that matter here.
const (
	opEntryPoint     = 15
	opExecutionMode  = 16
	opCapability     = 17
	opTypeBool       = 20
	opTypeInt        = 21
	opTypeFloat      = 22
	opTypeVector     = 23
	opTypeMatrix     = 24
	opTypeArray      = 28
	opTypeStruct     = 30
	opTypePointer    = 32
	opConstant       = 43
	opComposite      = 44
	opSpecConstant   = 50
	opSpecComposite  = 51
	opFunction       = 54
	opFunctionEnd    = 56
	opVariable       = 59
	opDecorate       = 71
	opMemberDecorate = 72
)

// readShader reads a module and finds an entry point in it.
func readShader(source []byte, entry string) (*shader, error) {
	if len(source) < 20 || len(source)%4 != 0 || binary.LittleEndian.Uint32(source) != spirvMagic {
		return nil, errors.New("its source is no SPIR-V")
	}
	s := &shader{words: make([]uint32, len(source)/4)}
	for i := range s.words {
		s.words[i] = binary.LittleEndian.Uint32(source[4*i:])
	}
	if v := s.words[1]; v > 0x10500 {
		return nil, fmt.Errorf("its SPIR-V is of version %d.%d, and Vulkan 1.2 knows 1.5; compile it with --target-env=vulkan1.2", v>>16, v>>8&0xff)
	}
	type member struct{ id, index uint32 }
	var (
		main     uint32 // the entry point
		names    []string
		specs    = map[uint32]uint32{} // numbers of specialization constants
		groups   uint32                // the constant that is the group size
		sizes    = map[uint32]int{}
		elements = map[uint32]int{}    // of arrays as long as a specialization constant
		lengths  = map[uint32]uint32{} // and its number
		first    [3]uint32             // what constants 0, 1 and 2 are unless set
		shares   = map[uint32]uint32{} // pointers to shared memory, by type
		offsets  = map[member]int{}
		structs  = map[uint32][]uint32{}
		pushes   = map[uint32]uint32{} // pointers to push constants, by type
		values   = map[uint32]uint32{}
		open     bool // within a function
		function = map[uint32]bool{}
	)
	for at := 5; at < len(s.words); {
		n, op := int(s.words[at]>>16), s.words[at]&0xffff
		if n == 0 || n > len(s.words)-at {
			return nil, fmt.Errorf("its SPIR-V is broken at word %d", at)
		}
		w := s.words[at+1 : at+n]
		at += n
		switch {
		case op == opCapability && len(w) == 1:
			s.capabilities = append(s.capabilities, w[0])
		case op == opEntryPoint && len(w) >= 3:
			const compute = 5
			name := literal(w[2:])
			if w[0] == compute {
				names = append(names, name)
				if name == entry {
					main = w[1]
				}
			}
		case op == opExecutionMode && len(w) == 5 && w[0] == main:
			const localSize = 17
			if w[1] == localSize {
				s.size = [3]uint32(w[2:])
			}
		case op == opDecorate && len(w) >= 2:
			const specID, builtIn, binding, workgroupSize = 1, 11, 33, 25
			switch {
			case w[1] == specID && len(w) == 3:
				specs[w[0]] = w[2]
			case w[1] == builtIn && len(w) == 3 && w[2] == workgroupSize:
				groups = w[0]
			case w[1] == binding && len(w) == 3:
				s.bindings = max(s.bindings, int(min(w[2], 1<<20))+1)
			}
		case op == opMemberDecorate && len(w) == 4:
			const offset = 35
			if w[2] == offset {
				offsets[member{w[0], w[1]}] = int(w[3])
			}
		case op == opTypeBool && len(w) == 1:
			sizes[w[0]] = 4
		case (op == opTypeInt || op == opTypeFloat) && len(w) >= 2:
			sizes[w[0]] = int(w[1] / 8)
		case (op == opTypeVector || op == opTypeMatrix) && len(w) == 3:
			sizes[w[0]] = times(sizes[w[1]], w[2])
		case op == opConstant && len(w) >= 3:
			values[w[1]] = w[2]
		case op == opSpecConstant && len(w) >= 3:
			values[w[1]] = w[2]
			if n, ok := specs[w[1]]; ok && n < 3 {
				first[n] = w[2]
			}
		case (op == opComposite || op == opSpecComposite) && len(w) == 5 && w[1] == groups:
			for i, part := range w[2:] {
				n, spec := specs[part]
				s.size[i], s.open[i] = values[part], spec && n == uint32(i)
			}
		case op == opTypeArray && len(w) == 3:
			sizes[w[0]] = times(sizes[w[1]], values[w[2]])
			if n, ok := specs[w[2]]; ok && n < 3 {
				elements[w[0]], lengths[w[0]] = sizes[w[1]], n
			}
		case op == opTypeStruct && len(w) >= 1:
			structs[w[0]] = w[1:]
			for _, typ := range w[1:] {
				sizes[w[0]] = min(sizes[w[0]]+sizes[typ], 1<<31)
			}
		case op == opTypePointer && len(w) == 3:
			const workgroup, pushConstant = 4, 9
			switch w[1] {
			case workgroup:
				shares[w[0]] = w[2]
			case pushConstant:
				pushes[w[0]] = w[2]
			}
		case op == opVariable && len(w) >= 3:
			if pointed, ok := pushes[w[0]]; ok {
				for i, typ := range structs[pointed] {
					s.pushBytes = max(s.pushBytes, offsets[member{pointed, uint32(i)}]+sizes[typ])
					s.pushAlign = max(s.pushAlign, min(sizes[typ], maxPushAlign))
				}
			}
			if pointed, ok := shares[w[0]]; ok {
				if n, by := lengths[pointed]; by {
					s.sharedBy[n] = min(s.sharedBy[n]+elements[pointed], 1<<31)
				} else {
					s.shared = min(s.shared+sizes[pointed], 1<<31)
				}
			}
		case op == opFunction && len(w) == 4:
			open, function[w[1]] = true, true
		case op == opFunctionEnd:
			open = false
		}
	}
	switch {
	case len(names) == 0:
		return nil, errors.New("its SPIR-V has no compute shader")
	case main == 0:
		return nil, fmt.Errorf("its SPIR-V has no entry %q; it has %q", entry, names)
	case open || !function[main]:
		return nil, errors.New("its SPIR-V ends too early")
	}
	for i, open := range s.open {
		if !open { // nobody sets it
			s.shared, s.sharedBy[i] = min(s.shared+times(s.sharedBy[i], first[i]), 1<<31), 0
		}
	}
	return s, nil
}

// literal reads a string.
func literal(words []uint32) string {
	var b []byte
	for _, w := range words {
		for range 4 {
			if byte(w) == 0 {
				return string(b)
			}
			b = append(b, byte(w))
			w >>= 8
		}
	}
	return string(b)
}
