// Kernels for the tests of the cuda backend. stub.c has the same ones in C.
#define KERNEL extern "C" __attribute__((global)) void
typedef unsigned int u32;
typedef unsigned long long u64;

#define ITEM ((u32)(__nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + __nvvm_read_ptx_sreg_tid_x()))

//params: ../../cuda.count
struct Count {
	unsigned n;
};
//params: ../../backendtest.SaxpyParams
struct Saxpy {
	unsigned n;
	float k;
};
//params: ../../cuda.spinParams
struct Spin {
	unsigned long long ns;
};

KERNEL empty() {}

// add_one adds 1 to each of n numbers in place.
KERNEL add_one(u32 *x, Count p) {
	if (ITEM < p.n)
		x[ITEM] += 1;
}

// add_two does what two launches of add_one do.
KERNEL add_two(u32 *x, Count p) {
	if (ITEM < p.n)
		x[ITEM] += 2;
}

// saxpy: y = k·x + y.
KERNEL saxpy(const float *x, float *y, Saxpy p) {
	if (ITEM < p.n)
		y[ITEM] = p.k * x[ITEM] + y[ITEM];
}

// through copies x to y by way of scratch memory.
KERNEL through(const u32 *x, u32 *y, u32 *scratch, Count p) {
	if (ITEM < p.n) {
		scratch[ITEM] = ~x[ITEM];
		y[ITEM] = ~scratch[ITEM];
	}
}

// spin runs for a number of nanoseconds.
KERNEL spin(u32 *x, Spin p) {
	u64 begin, now;
	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
	do
		asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	while (now - begin < p.ns);
	if (ITEM == 0)
		x[0] += 1;
}

// spin_long runs four times as long.
KERNEL spin_long(u32 *x, Spin p) {
	u64 begin, now;
	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
	do
		asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	while (now - begin < 4 * p.ns);
	if (ITEM == 0)
		x[0] += 1;
}

// crash writes where nothing is.
KERNEL crash(u32 *x) {
	*(volatile u32 *)((u64)x ^ 0x100000000000ull) = 1;
}

// meet lets all blocks of a cooperative launch wait for one another: each notes
// how many had come when the last had.
KERNEL meet(u32 *x) {
	u32 blocks = __nvvm_read_ptx_sreg_nctaid_x();
	__nvvm_atom_add_gen_i((int *)x, 1);
	while (*(volatile u32 *)x < blocks)
		;
	x[1 + __nvvm_read_ptx_sreg_ctaid_x()] = *(volatile u32 *)x;
}

// large uses more shared memory than a launch has without asking.
extern __attribute__((shared)) u32 scratchpad[];
KERNEL large(u32 *x, Count p) {
	u32 last = p.n - 1 - ITEM;
	scratchpad[ITEM * 16] = x[ITEM];
	__nvvm_bar_sync(0);
	x[ITEM] = scratchpad[last * 16];
}

// The kernels of backendtest, which says what they compute.
//params: ../../backendtest.Params
struct Suite {
	unsigned n;
	unsigned k;
};
//params: ../../backendtest.LayoutParams
struct Layout {
	unsigned n;
	double a;
	int b;
	unsigned long long c;
	float d;
};

KERNEL noop() {}

KERNEL add(u32 *x, Suite p) {
	if (ITEM < p.n)
		x[ITEM] += p.k;
}

KERNEL spread(const u32 *in, u32 *, u32 *work, Suite p) {
	if (ITEM < p.n)
		work[ITEM] = 2 * in[ITEM];
}

KERNEL gather(const u32 *, u32 *out, const u32 *work, Suite p) {
	if (ITEM < p.n)
		out[ITEM] = work[p.n - 1 - ITEM] + p.k;
}

KERNEL slow(u32 *x, Suite p) {
	if (ITEM >= p.n)
		return;
	u32 v = x[ITEM];
	for (u32 i = 0; i < p.k; i++)
		v = v * 1664525 + 1013904223;
	x[ITEM] = v;
}

KERNEL layout(u32 *x, Layout p) {
	if (ITEM > 0)
		return;
	u64 a = __builtin_bit_cast(u64, p.a);
	x[0] = p.n;
	x[1] = a, x[2] = a >> 32;
	x[3] = p.b;
	x[4] = p.c, x[5] = p.c >> 32;
	x[6] = __builtin_bit_cast(u32, p.d);
}
