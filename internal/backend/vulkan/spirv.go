package vulkan

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/weft-run/weft/graph"
)

// shader holds the properties of one entry point of a SPIR-V module. Drivers believe a
// module without looking, and end the process over one that is broken: so it is checked
// here first, as far as possible.
type shader struct {
	words        []uint32
	capabilities []uint32
	size         [3]uint32 // of a group
	open         [3]bool   // where the launch sets it, by specialization constants 0, 1 and 2
	bindings     int       // one more than the highest
	pushBytes    int       // where the push constants it declares end
	pushAlign    int       // the size of the largest number among them
	pushOpen     bool      // some are no numbers but vectors, arrays and the like
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

// checkParams refuses parameters that end before the shader's push constants do. If
// these are all numbers, it also refuses parameters that are longer than the same
// structure in C; the length that vectors, arrays and structures have in C depends on
// how they are aligned there. A shader without push constants takes any parameters: a
// compiler removes a block that the shader does not use.
func (s *shader) checkParams(given int) error {
	switch {
	case s.pushBytes == 0 || given == s.pushBytes || s.pushOpen && given > s.pushBytes:
		return nil
	case s.pushOpen:
		return graph.CheckParams(s.pushBytes, given)
	}
	align := max(s.pushAlign, 1)
	return graph.CheckParams((s.pushBytes+align-1)/align*align, given)
}

// times multiplies sizes. A broken shader can have any: those that no device has
// are all one.
func times(a int, b uint32) int { return min(a*int(b), 1<<31) }

// bounded is an offset or a stride, with the same bound.
func bounded(w uint32) int { return int(min(w, 1<<31)) }

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
	r := &spirvReader{
		shader: s, entry: entry, specs: map[uint32]uint32{}, values: map[uint32]uint32{}, functions: map[uint32]bool{},
		sizes: map[uint32]int{}, numbers: map[uint32]bool{}, lengths: map[uint32]uint32{}, matrices: map[uint32]matrix{},
		arrays: map[uint32]openArray{}, strides: map[uint32]int{}, structs: map[uint32][]uint32{}, offsets: map[member]int{},
		matrixStrides: map[member]int{}, byRows: map[member]bool{}, shares: map[uint32]uint32{}, pushes: map[uint32]uint32{},
	}
	for at := 5; at < len(s.words); {
		n, op := int(s.words[at]>>16), s.words[at]&0xffff
		if n == 0 || n > len(s.words)-at {
			return nil, fmt.Errorf("its SPIR-V is broken at word %d", at)
		}
		w := s.words[at+1 : at+n]
		at += n
		if op >= opTypeBool && op <= opTypePointer {
			r.declare(op, w)
		} else {
			r.instruction(op, w)
		}
	}
	switch {
	case len(r.names) == 0:
		return nil, errors.New("its SPIR-V has no compute shader")
	case r.main == 0:
		return nil, fmt.Errorf("its SPIR-V has no entry %q; it has %q", entry, r.names)
	case r.within || !r.functions[r.main]:
		return nil, errors.New("its SPIR-V ends too early")
	}
	for i, open := range s.open {
		if !open { // the constant keeps its default
			s.shared, s.sharedBy[i] = min(s.shared+times(s.sharedBy[i], r.first[i]), 1<<31), 0
		}
	}
	return s, nil
}

// spirvReader reads the instructions of a module in their order. Its maps are by
// the ids that instructions refer to.
type spirvReader struct {
	*shader
	entry     string
	main      uint32   // the entry point
	names     []string // of all entry points
	within    bool     // a function
	functions map[uint32]bool
	values    map[uint32]uint32 // of constants
	specs     map[uint32]uint32 // numbers of specialization constants
	first     [3]uint32         // what constants 0, 1 and 2 are unless set
	groups    uint32            // the constant that is the group size
	sizes     map[uint32]int    // of types, in bytes
	numbers   map[uint32]bool   // types that are integers or floating-point numbers
	lengths   map[uint32]uint32 // of vectors
	matrices  map[uint32]matrix // types of matrices, and of arrays of them
	arrays    map[uint32]openArray
	strides   map[uint32]int      // bytes from an element of an array to the next
	structs   map[uint32][]uint32 // types of members
	offsets   map[member]int
	// matrixStrides are the bytes from a column of a matrix to the next, or from row to
	// row where byRows.
	matrixStrides map[member]int
	byRows        map[member]bool
	shares        map[uint32]uint32 // pointers to shared memory, by type
	pushes        map[uint32]uint32 // pointers to push constants, by type
}

type member struct{ structure, index uint32 }

type matrix struct {
	columns, rows uint32
	bytes         int // of an element
}

// openArray is an array as long as a specialization constant.
type openArray struct {
	bytes int    // of an element
	spec  uint32 // number of the constant
}

// instruction reads an instruction that declares no type.
func (r *spirvReader) instruction(op uint32, w []uint32) {
	switch {
	case op == opCapability && len(w) == 1:
		r.capabilities = append(r.capabilities, w[0])
	case op == opEntryPoint && len(w) >= 3:
		const compute = 5
		if w[0] == compute {
			r.names = append(r.names, literal(w[2:]))
			if r.names[len(r.names)-1] == r.entry {
				r.main = w[1]
			}
		}
	case op == opExecutionMode && len(w) == 5 && w[0] == r.main:
		const localSize = 17
		if w[1] == localSize {
			r.size = [3]uint32(w[2:])
		}
	case op == opDecorate && len(w) == 3:
		const specID, arrayStride, builtIn, workgroupSize, binding = 1, 6, 11, 25, 33
		switch {
		case w[1] == specID:
			r.specs[w[0]] = w[2]
		case w[1] == arrayStride:
			r.strides[w[0]] = bounded(w[2])
		case w[1] == builtIn && w[2] == workgroupSize:
			r.groups = w[0]
		case w[1] == binding:
			r.bindings = max(r.bindings, int(min(w[2], 1<<20))+1)
		}
	case op == opMemberDecorate && len(w) >= 3:
		r.decorate(member{w[0], w[1]}, w[2:])
	case op == opConstant && len(w) >= 3:
		r.values[w[1]] = w[2]
	case op == opSpecConstant && len(w) >= 3:
		r.values[w[1]] = w[2]
		if n, ok := r.specs[w[1]]; ok && n < 3 {
			r.first[n] = w[2]
		}
	case (op == opComposite || op == opSpecComposite) && len(w) == 5 && w[1] == r.groups:
		for i, part := range w[2:] {
			n, spec := r.specs[part]
			r.size[i], r.open[i] = r.values[part], spec && n == uint32(i)
		}
	case op == opVariable && len(w) >= 3:
		r.variable(w[0])
	case op == opFunction && len(w) == 4:
		r.within, r.functions[w[1]] = true, true
	case op == opFunctionEnd:
		r.within = false
	}
}

// decorate reads a decoration of a structure's member.
func (r *spirvReader) decorate(m member, w []uint32) {
	const rowMajor, matrixStride, offset = 4, 7, 35
	switch {
	case w[0] == rowMajor:
		r.byRows[m] = true
	case w[0] == matrixStride && len(w) == 2:
		r.matrixStrides[m] = bounded(w[1])
	case w[0] == offset && len(w) == 2:
		r.offsets[m] = bounded(w[1])
	}
}

// declare reads the declaration of a type. Decorations stand before it.
func (r *spirvReader) declare(op uint32, w []uint32) {
	switch {
	case op == opTypeBool && len(w) == 1:
		r.sizes[w[0]] = 4
	case (op == opTypeInt || op == opTypeFloat) && len(w) >= 2:
		r.sizes[w[0]], r.numbers[w[0]] = int(w[1]/8), true
	case op == opTypeVector && len(w) == 3:
		r.sizes[w[0]], r.lengths[w[0]] = times(r.sizes[w[1]], w[2]), w[2]
	case op == opTypeMatrix && len(w) == 3:
		rows := max(r.lengths[w[1]], 1)
		r.sizes[w[0]], r.matrices[w[0]] = times(r.sizes[w[1]], w[2]), matrix{w[2], rows, r.sizes[w[1]] / int(rows)}
	case op == opTypeArray && len(w) == 3:
		r.array(w[0], w[1], w[2])
	case op == opTypeStruct && len(w) >= 1:
		r.structure(w[0], w[1:])
	case op == opTypePointer && len(w) == 3:
		const workgroup, pushConstant = 4, 9
		switch w[1] {
		case workgroup:
			r.shares[w[0]] = w[2]
		case pushConstant:
			r.pushes[w[0]] = w[2]
		}
	}
}

// array reads an array as long as a constant. Its size ends with its last element: what
// would fill that up to the stride does not count.
func (r *spirvReader) array(id, element, length uint32) {
	each, stride := r.sizes[element], r.sizes[element]
	if n, ok := r.strides[id]; ok {
		stride = n
	}
	r.sizes[id] = 0
	if n := r.values[length]; n > 0 {
		r.sizes[id] = min(times(stride, n-1)+each, 1<<31)
	}
	if m, ok := r.matrices[element]; ok {
		r.matrices[id] = m
	}
	if n, ok := r.specs[length]; ok && n < 3 {
		r.arrays[id] = openArray{stride, n}
	}
}

// structure reads a structure. Its size ends with its last member. Members without an
// offset, as shared memory has them, follow one another.
func (r *spirvReader) structure(id uint32, members []uint32) {
	r.structs[id] = members
	size := 0
	for i, typ := range members {
		m := member{id, uint32(i)}
		at, ok := r.offsets[m]
		if !ok {
			at = size
		}
		size = min(max(size, at+r.sizes[typ]+r.gaps(m, typ)), 1<<31)
	}
	r.sizes[id] = size
}

// gaps returns the bytes between the columns or rows of a member that is a matrix, or
// the last of an array of matrices.
func (r *spirvReader) gaps(m member, typ uint32) int {
	of, ok := r.matrices[typ]
	stride := r.matrixStrides[m]
	if !ok || stride == 0 {
		return 0
	}
	vectors, length := of.columns, of.rows
	if r.byRows[m] {
		vectors, length = length, vectors
	}
	return times(max(stride-times(of.bytes, length), 0), max(vectors, 1)-1)
}

// variable counts what a variable takes of push constants or shared memory.
func (r *spirvReader) variable(pointer uint32) {
	if typ, ok := r.pushes[pointer]; ok {
		r.pushBytes = max(r.pushBytes, r.sizes[typ])
		for _, of := range r.structs[typ] {
			if r.numbers[of] {
				r.pushAlign = max(r.pushAlign, r.sizes[of])
			} else {
				r.pushOpen = true
			}
		}
	}
	if typ, ok := r.shares[pointer]; ok {
		if a, open := r.arrays[typ]; open {
			r.sharedBy[a.spec] = min(r.sharedBy[a.spec]+a.bytes, 1<<31)
		} else {
			r.shared = min(r.shared+r.sizes[typ], 1<<31)
		}
	}
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
