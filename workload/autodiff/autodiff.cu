// Values and derivatives, as package autodiff has them: a point to a thread, which runs the
// whole program.
#include "../device.cuh"
#include "language.h"
#define ROOT(x) __nvvm_sqrt_rn_d(x)
#include "functions.h"

//params: params
struct Params {
	unsigned n; // points
	unsigned variables; // numbers of a point
	unsigned outputs; // values at a point
	unsigned columns; // derivatives of a value
	unsigned from, to; // the instructions
	unsigned slots; // values that are kept at once
};

template <u32 Slots> INLINE void program(const double *__restrict points, const uint4 *__restrict code, const double *__restrict numbers, double *__restrict values, double *__restrict derivatives, const Params &p) {
	u64 at = (u64)BLOCK_X * THREADS + THREAD;
	if (at >= p.n)
		return;
	points += at * p.variables;
	values += at * p.outputs;
	derivatives += at * p.outputs * p.columns;
	double slot[Slots];
	for (u32 i = p.from; i < p.to; i++) {
		uint4 c = code[i];
		double v = 0;
		switch (c.x & 0xff) {
#define A slot[c.y & (Slots - 1)]
#define B slot[c.z & (Slots - 1)]
#define C slot[c.w & (Slots - 1)]
#define NUMBER numbers[c.z]
#include "cases.h"
		case OP_VARIABLE:
			v = points[c.y];
			break;
		case OP_VALUE:
			values[c.z] = A;
			continue;
		case OP_DERIVATIVE:
			derivatives[c.z] = A;
			continue;
		}
		slot[c.x >> 8 & (Slots - 1)] = v;
	}
}

KERNEL(128, 1) autodiff_program(const double *__restrict points, const uint4 *__restrict code, const double *__restrict numbers, double *__restrict values, double *__restrict derivatives, Params p) {
	program<64>(points, code, numbers, values, derivatives, p);
}

KERNEL(128, 1) autodiff_large(const double *__restrict points, const uint4 *__restrict code, const double *__restrict numbers, double *__restrict values, double *__restrict derivatives, Params p) {
	program<256>(points, code, numbers, values, derivatives, p);
}
