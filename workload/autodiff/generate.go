package autodiff

import (
	_ "embed" // for what sources begin with
	"fmt"
	"math"
	"strings"

	"github.com/weft-run/weft/graph"
)

// language and common are the first two parts of every generated source. The kernels that run
// programs include the same files.
//
//go:embed language.h
var language string

//go:embed functions.h
var common string

const (
	// generateOps is the least number of operations for which source is generated: compiling it can
	// take seconds, and the kernels that run programs finish smaller jobs in less than one.
	generateOps = 1 << 32
	// maxGenerated is the most instructions that are compiled, and maxInline the most functions
	// among them that are compiled to SPIR-V, where each is inline.
	maxGenerated, maxInline = 4096, 12
	// threads is the number of threads of a block.
	threads = 64
)

// kernel returns the kernel of pass i: one generated for it if generate is set, else one that runs
// programs.
func (p *program) kernel(i int, generate bool) *graph.Kernel {
	ps := p.passes[i]
	k := kernel
	if ps.slots > fewSlots {
		k = largeKernel
	}
	if !generate || ps.to-ps.from > maxGenerated {
		return k
	}
	ps.once.Do(func() {
		impl := func(d graph.Dialect, entry, source string) graph.Impl {
			return graph.Impl{Dialect: d, Entry: entry, Source: []byte(source), Block: [3]uint32{threads}, Per: [3]uint32{threads}}
		}
		functions := 0
		for _, in := range ps.source {
			if in.op >= opExp && in.op <= opTanh {
				functions++
			}
		}
		ps.generated = &graph.Kernel{Name: k.Name, Impls: []graph.Impl{
			impl(graph.CUDAC, "autodiff_generated", cudaHead+language+common+cudaKernel+ps.statements()+"}\n"),
		}}
		if functions <= maxInline { // listed before SPIR-V, which is for devices without glslc
			ps.generated.Impls = append(ps.generated.Impls, impl(graph.GLSL, "main", glslHead+language+common+glslKernel+ps.statements()+"}\n"))
		}
		ps.generated.Impls = append(ps.generated.Impls, k.Impls...)
	})
	return ps.generated
}

// cudaHead makes numbers of CUDA C a type whose products are rounded before they are added:
// NVRTC would fuse them.
const cudaHead = `typedef double real;
struct num {
	real v;
	__device__ num() {}
	__device__ num(real x) : v(x) {}
	__device__ explicit num(int x) : v(x) {}
	__device__ explicit num(unsigned x) : v(x) {}
	__device__ explicit operator int() const { return (int)v; }
};
static __device__ __forceinline__ num operator+(num a, num b) { return __dadd_rn(a.v, b.v); }
static __device__ __forceinline__ num operator-(num a, num b) { return __dsub_rn(a.v, b.v); }
static __device__ __forceinline__ num operator*(num a, num b) { return __dmul_rn(a.v, b.v); }
static __device__ __forceinline__ num operator/(num a, num b) { return __ddiv_rn(a.v, b.v); }
static __device__ __forceinline__ num operator-(num a) { return -a.v; }
static __device__ __forceinline__ num &operator+=(num &a, num b) { return a = a + b; }
static __device__ __forceinline__ num &operator*=(num &a, num b) { return a = a * b; }
static __device__ __forceinline__ bool operator<(num a, num b) { return a.v < b.v; }
static __device__ __forceinline__ bool operator>(num a, num b) { return a.v > b.v; }
static __device__ __forceinline__ bool operator>=(num a, num b) { return a.v >= b.v; }
static __device__ __forceinline__ bool operator==(num a, num b) { return a.v == b.v; }
static __device__ __forceinline__ bool operator!=(num a, num b) { return a.v != b.v; }
#define RTC
#define ROOT(x) num(__dsqrt_rn((x).v))
`

const cudaKernel = `
struct Params {
	unsigned n, variables, outputs, columns, from, to, slots;
};

extern "C" __global__ void autodiff_generated(const real *__restrict__ points, const unsigned *, const real *, real *__restrict__ values, real *__restrict__ derivatives, Params p) {
	unsigned long long at = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
	if (at >= p.n)
		return;
	points += at * p.variables;
	values += at * p.outputs;
	derivatives += at * p.outputs * p.columns;
#define VARIABLE(i) num(points[i])
#define VALUE(i, x) values[i] = num(x).v
#define DERIVATIVE(i, x) derivatives[i] = num(x).v
`

const glslHead = `#version 450
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer Points { double points[]; };
layout(std430, binding = 1) readonly buffer Code { uvec4 code[]; };
layout(std430, binding = 2) readonly buffer Numbers { double numbers[]; };
layout(std430, binding = 3) writeonly buffer Values { double values[]; };
layout(std430, binding = 4) writeonly buffer Derivatives { double derivatives[]; };
layout(push_constant) uniform Params { uint n, variables, outputs, columns, from, to, slots; };
#define GLSL
`

const glslKernel = `
#define VARIABLE(i) points[at * variables + i]
#define VALUE(i, x) values[at * outputs + i] = x
#define DERIVATIVE(i, x) derivatives[at * outputs * columns + i] = x
void main() {
	uint at = gl_GlobalInvocationID.x;
	if (at >= n)
		return;
`

// statements are the instructions of a pass, in what both languages have in common.
func (ps *pass) statements() string {
	var b strings.Builder
	for _, in := range ps.source {
		bits := math.Float64bits(in.number)
		number := fmt.Sprintf("N(0x%08xu, 0x%08xu)", uint32(bits>>32), uint32(bits))
		var is string
		switch in.op {
		case opValue:
			fmt.Fprintf(&b, "\tVALUE(%d, v%d);\n", in.index, in.a)
			continue
		case opDerivative:
			fmt.Fprintf(&b, "\tDERIVATIVE(%d, v%d);\n", in.index, in.a)
			continue
		case opNumber:
			is = number
		case opVariable:
			is = fmt.Sprintf("VARIABLE(%d)", in.index)
		case opAddNumber:
			is = fmt.Sprintf("v%d + %s", in.a, number)
		case opSubNumber:
			is = fmt.Sprintf("%s - v%d", number, in.a)
		case opMulNumber:
			is = fmt.Sprintf("v%d * %s", in.a, number)
		case opDivNumber:
			is = fmt.Sprintf("%s / v%d", number, in.a)
		case opMulAdd:
			is = fmt.Sprintf("v%d * v%d + v%d", in.a, in.b, in.c)
		case opMulAddNumber:
			is = fmt.Sprintf("v%d * %s + v%d", in.a, number, in.c)
		case opAdd, opSub, opMul, opDiv:
			is = fmt.Sprintf("v%d %c v%d", in.a, "+-*/"[in.op-opAdd], in.b)
		default:
			is = fmt.Sprintf(calls[in.op], in.a)
		}
		fmt.Fprintf(&b, "\tNUM v%d = %s;\n", in.to, is)
	}
	return b.String()
}

// calls are functions of a value.
var calls = map[op]string{
	opNeg: "-v%d", opAbs: "ad_abs(v%d)", opSign: "ad_sign(v%d)", opSqrt: "ROOT(v%d)", opExp: "ad_exp(v%d)", opLog: "ad_log(v%d)",
	opSin: "ad_circular(OP_SIN, v%d)", opCos: "ad_circular(OP_COS, v%d)", opTan: "ad_circular(OP_TAN, v%d)",
	opAsin: "ad_arc(OP_ASIN, v%d)", opAcos: "ad_arc(OP_ACOS, v%d)", opAtan: "ad_arc(OP_ATAN, v%d)",
	opSinh: "ad_hyperbolic(OP_SINH, v%d)", opCosh: "ad_hyperbolic(OP_COSH, v%d)", opTanh: "ad_hyperbolic(OP_TANH, v%d)",
}
