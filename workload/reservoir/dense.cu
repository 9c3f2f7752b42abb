// Steps of a reservoir whose weights are stored with their zeros, for NVIDIA GPUs from
// Hopper on. Sums are taken in another order than by the kernels of sparse weights.
//target: sm_90 ptx80
#include "../../internal/philox/philox.cuh"

//params: call
struct Call {
	unsigned size, inputs; // neurons of the reservoir, channels
	unsigned first, neurons; // whose weights there are
	unsigned pattern, batch; // first of the patterns there are, and how many
	unsigned block; // patterns of a block
	unsigned step, steps;
	unsigned seed;
	float leak, noise;
};

enum : u32 { NoiseStream = 3 };

// A row of weights has the recurrent ones, those of the channels from driven on, and zeros
// between and behind: depth in all.
INLINE u32 driven(const Call &c) { return (c.size + 63) / 64 * 64; }
INLINE u32 depth(const Call &c) { return driven(c) + (c.inputs + 31) / 32 * 32; }

// drawn is the noise of a neuron in a step of a pattern. It is called: inlined for every
// state of a tile it would be most of the code.
static __device__ __attribute__((noinline)) float drawn(u32 seed, u32 pattern, u32 step, u32 neuron) {
	uint4 counter = {pattern, 0, step, neuron / 4};
	uint4 words = philox(counter, seed, NoiseStream);
	return symmetric(neuron % 4 == 0 ? words.x : neuron % 4 == 1 ? words.y : neuron % 4 == 2 ? words.z : words.w);
}

// Lane is where the states and inputs of a pattern lie: in blocks of patterns.
struct Lane {
	u32 width;
	u64 state, input; // of neuron 0; of channel 0 in step 0
};
INLINE Lane lane_of(const Call &c, u32 at) {
	u32 begin = at / c.block * c.block, width = min(c.block, c.batch - begin);
	return {width, (u64)begin * c.size + at - begin, (u64)begin * c.inputs * c.steps + at - begin};
}

// relaxed is a state after a step, from what it was and its sum. tanh is that of device.cuh
// with fused operations, and a quotient that may be off by a rounding more.
INLINE float relaxed(const Call &c, float x, float sum) {
	const float shift = 3 << 22, high = 0x1.62ep-1f, low = (float)(0x1.62e42fefa39efp-1 - 0x1.62ep-1);
	float y = 2 * (sum < -9.02f ? -9.02f : sum > 9.02f ? 9.02f : sum); // a NaN stays
	float m = __builtin_fmaf(y, 0x1.71547652b82fep+0f, shift), n = m - shift;
	float r = __builtin_fmaf(-n, low, __builtin_fmaf(-n, high, y));
	float p = __builtin_fmaf(r, 1.0f / 5040, 1.0f / 720);
	p = __builtin_fmaf(r, p, 1.0f / 120);
	p = __builtin_fmaf(r, p, 1.0f / 24);
	p = __builtin_fmaf(r, p, 1.0f / 6);
	p = __builtin_fmaf(r, p, 0.5f);
	p = __builtin_fmaf(r * r, p, r);
	float s = number((bits(m) << 23) + 0x3f800000); // 2ⁿ
	float e = __builtin_fmaf(s, p, s - 1), d = e + 2, over;
	asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(over) : "f"(d));
	float q = e * over;
	q = __builtin_fmaf(__builtin_fmaf(-q, d, e), over, q);
	return __builtin_fmaf(c.leak, q, (1 - c.leak) * x);
}

typedef __attribute__((address_space(3))) void shared;
INLINE u32 address(const void *p) { return (u32)(u64)(shared *)p; }

// Copies to shared memory that go on in the background, or fill in zeros.
INLINE void fetch16(u32 to, const void *from, bool there) {
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}
INLINE void fetch4(u32 to, const void *from, bool there) {
	asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(there ? 4 : 0) : "memory");
}
INLINE void fetched() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> INLINE void arrived() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

INLINE float swap(float x, u32 by) { return number(__nvvm_shfl_sync_bfly_i32(~0u, bits(x), by, 31)); }

extern __shared__ __attribute__((aligned(16))) float4 memory[];

// A cluster of blocks has all weights on chip, in registers and shared memory, and takes
// P patterns through all steps. Every block has 64 neurons, and the states of all; after a
// step it sends those of its own to the others. The lanes of a warp share out the weights
// of a neuron.

enum : u32 { Blocks = 16, Rows = 64, Across = Blocks * Rows };

INLINE u32 rank() { u32 r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
INLINE u32 cluster() { u32 r; asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(r)); return r; }
INLINE void come() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
INLINE void meet() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
INLINE u32 there(u32 at, u32 block) {
	u32 out;
	asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(out) : "r"(at), "r"(block));
	return out;
}
// send copies shared memory to the same place of another block, and counts the bytes at
// its barrier.
INLINE void send(u32 at, u32 bytes, u32 barrier, u32 block) {
	asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
		"r"(there(at, block)), "r"(at), "r"(bytes), "r"(there(barrier, block)) : "memory");
}
INLINE void expect(u32 barrier, u32 bytes) {
	asm volatile("{ .reg .b64 t; mbarrier.arrive.expect_tx.shared::cta.b64 t, [%0], %1; }" ::"r"(barrier), "r"(bytes) : "memory");
}
INLINE void await(u32 barrier, u32 parity) {
	asm volatile("{ .reg .pred p;\nAGAIN_%=:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n@!p bra AGAIN_%=; }" ::"r"(barrier), "r"(parity) : "memory");
}

// place is where a state lies in a buffer. Eight patterns are shifted so that the lanes of
// a warp read from different banks.
template <int P> INLINE u32 place(u32 k, u32 p) { return k * P + (P == 8 ? p ^ (k & 4) : p); }

// load reads the states of P patterns of a neuron or channel.
template <int P> INLINE void load(const float *x, u32 k, float *v) {
	if constexpr (P % 4 == 0) {
#pragma unroll
		for (int p = 0; p < P; p += 4) {
			float4 a = *(const float4 *)(x + place<P>(k, p));
			v[p] = a.x, v[p + 1] = a.y, v[p + 2] = a.z, v[p + 3] = a.w;
		}
	} else if constexpr (P % 2 == 0) {
#pragma unroll
		for (int p = 0; p < P; p += 2) {
			float2 a = *(const float2 *)(x + place<P>(k, p));
			v[p] = a.x, v[p + 1] = a.y;
		}
	} else
		v[0] = x[k];
}

// fold adds up N sums over the lanes of a warp. A lane has those from first on in the end,
// up to last.
template <int Off, int N> INLINE void fold(float *sum, u32 lane, u32 &first, u32 &last) {
	if constexpr (Off > 0) {
		static_assert(N % 2 == 0 || N == 1 || Off == 1, "only the last halves may differ");
		constexpr int low = (N + 1) / 2, high = N / 2;
		if constexpr (N > 1) {
			bool upper = lane & Off;
			first += upper ? low : 0;
			last = first + (upper ? high : low);
#pragma unroll
			for (int j = 0; j < low; j++) {
				float other = j < high ? sum[j + low] : 0;
				u32 a = bits(sum[j]), b = bits(other), flip = upper ? a ^ b : 0;
				sum[j] = number(a ^ flip) + swap(number(b ^ flip), Off);
			}
		} else
			sum[0] += swap(sum[0], Off);
		fold<Off / 2, low>(sum, lane, first, last);
	}
}

// whole: W warps, each of some neurons whose first Held turns of 32 weights are in registers.
template <int P, int W, int Held> INLINE void whole(const float *weights, const float *bias, const float *input,
		const float *start, float *end, float *mean, const Call &c) {
	constexpr int R = Rows / W, All = R * P, Own = All <= 32 ? 1 : All <= 64 ? 2 : 3;
	const u32 lane = THREAD % 32, warp = THREAD / 32, neuron = rank() * Rows + warp * R, turns = Across / 32 + (c.inputs + 31) / 32;
	float4 *stored = memory + 1; // weights of turns from Held on
	float *x = (float *)(stored + (turns - Held) * (W * 32) * (R / 4)), *inputs = x + Across * P; // inputs of two steps
	const u32 room = (turns * 32 - Across) * P, barrier = address(memory);
	float4 held[Held][R / 4];
	// Weights on their way to shared memory while the others come to registers.
	const u32 from = driven(c), stride = depth(c);
	auto column = [&](u32 k) { return k < Across ? k : from + k - Across; };
	auto is = [&](u32 row, u32 k) { return row < c.size && (k >= Across || k < from); };
	for (u32 i = Held; i < turns; i++)
#pragma unroll
		for (int r = 0; r < R; r++) {
			u32 row = neuron + r, k = 32 * i + lane;
			const bool in = is(row, k);
			fetch4(address(stored + ((i - Held) * (R / 4) + r / 4) * (W * 32) + THREAD) + r % 4 * 4, weights + (in ? (u64)row * stride + column(k) : 0), in);
		}
#pragma unroll
	for (int i = 0; i < Held; i++)
#pragma unroll
		for (int r = 0; r < R; r++)
			held[i][r / 4][r % 4] = is(neuron + r, 32 * i + lane) ? weights[(u64)(neuron + r) * stride + column(32 * i + lane)] : 0;
	for (u32 i = THREAD; i < (Across * P + 2 * room) / 4; i += W * 32)
		((float4 *)x)[i] = float4{0, 0, 0, 0};
	__nvvm_bar_sync(0);
	// The states at the start, and the inputs of the first step. A thread brings some of
	// those of one pattern.
	const u32 group = cluster() * P, rows = W * 32 / P, mine = THREAD % P;
	const Lane fed = lane_of(c, min(group + mine, c.batch - 1));
	const bool feeds = THREAD / P < rows && group + mine < c.batch;
	auto feed = [&](float *to, u32 step) {
		for (u32 k = THREAD / P; k < c.inputs; k += rows)
			fetch4(address(to + place<P>(k, mine)), input + fed.input + ((u64)step * c.inputs + k) * fed.width, true);
	};
	if (feeds) {
		for (u32 k = THREAD / P; k < c.size; k += rows)
			fetch4(address(x + place<P>(k, mine)), start + fed.state + (u64)k * fed.width, true);
		feed(inputs, 0);
	}
	fetched();
	arrived<0>();
	if (THREAD == 0)
		asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
	asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
	come();
	meet();
	float average[Own] = {};
	const float each = 1 / (float)c.steps;
	for (u32 s = 0; s < c.steps; s++) {
		const bool more = s + 1 < c.steps;
		if (more && feeds)
			feed(inputs + (~s & 1) * room, s + 1);
		// The next states and weights are on their way while these are multiplied.
		const float *fresh = inputs + (s & 1) * room - Across * P;
		float sum[All] = {}, v[2][P];
		float4 w[2][R / 4];
		auto bring = [&](int to, u32 i) {
			load<P>(i < Across / 32 ? x : fresh, 32 * i + lane, v[to]);
#pragma unroll
			for (int r = 0; r < R / 4; r++)
				w[to][r] = stored[((i - Held) * (R / 4) + r) * (W * 32) + THREAD];
		};
		auto multiply = [&](const float4 *w, const float *v) {
#pragma unroll
			for (int r = 0; r < R; r++)
#pragma unroll
				for (int p = 0; p < P; p++)
					sum[r * P + p] = __builtin_fmaf(w[r / 4][r % 4], v[p], sum[r * P + p]);
		};
		constexpr int even = Held % 2, odd = 1 - even;
		load<P>(x, lane, v[0]);
#pragma unroll
		for (int i = 0; i < Held; i++) {
			if (i + 1 < Held)
				load<P>(x, 32 * (i + 1) + lane, v[(i + 1) % 2]);
			else
				bring(even, Held);
			multiply(held[i], v[i % 2]);
		}
		u32 i = Held;
#pragma unroll 1
		for (; i + 2 < turns; i += 2) {
			bring(odd, i + 1);
			multiply(w[even], v[even]);
			bring(even, i + 2);
			multiply(w[odd], v[odd]);
		}
		if (i + 1 < turns)
			bring(odd, i + 1);
		multiply(w[even], v[even]);
		if (i + 1 < turns)
			multiply(w[odd], v[odd]);
		if (more)
			come(); // this block has read all states
		u32 first = 0, last = 1;
		fold<16, All>(sum, lane, first, last);
		const bool speaks = lane % (All < 32 ? 32 / All : 1) == 0;
		float was[Own];
#pragma unroll
		for (int j = 0; j < Own; j++) {
			u32 e = min(first + j, All - 1), row = neuron + e / P;
			was[j] = x[place<P>(row, e % P)];
			sum[j] += bias[min(row, c.size - 1)];
			if (c.noise > 0)
				sum[j] += c.noise * drawn(c.seed, c.pattern + group + e % P, s, row);
		}
#pragma unroll
		for (int j = 0; j < Own; j++) {
			was[j] = relaxed(c, was[j], sum[j]);
			average[j] = __builtin_fmaf(was[j], each, average[j]);
		}
		if (more)
			meet(); // and so have the others
#pragma unroll
		for (int j = 0; j < Own; j++) {
			u32 e = first + j, row = neuron + e / P, at = group + e % P;
			if (!speaks || e >= last || row >= c.size)
				continue;
			if (more)
				x[place<P>(row, e % P)] = was[j];
			else if (at < c.batch) {
				Lane l = lane_of(c, at);
				u64 to = l.state + (u64)row * l.width;
				end[to] = was[j], mean[to] = average[j];
			}
		}
		if (!more)
			break;
		// Everybody's states are needed for the next step.
		fetched();
		arrived<0>();
		asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
		__nvvm_bar_sync(0);
		const u32 bytes = Rows * P * 4;
		if (THREAD < Blocks) {
			if (THREAD == 0)
				expect(barrier, (Blocks - 1) * bytes);
			if (THREAD != rank())
				send(address(x + rank() * Rows * P), bytes, barrier, THREAD);
		}
		await(barrier, s & 1);
	}
	come();
	meet(); // nobody leaves while its states are under way
}

// reservoir_whole_P: a cluster of 16 blocks for every P patterns.
#define WHOLE(P, W, Held) \
	KERNEL(W * 32, 1) reservoir_whole_##P(const float *__restrict weights, const float *__restrict bias, const float *__restrict input, \
			const float *__restrict start, float *__restrict end, float *__restrict mean, Call c) { \
		whole<P, W, Held>(weights, bias, input, start, end, mean, c); \
	}
WHOLE(1, 8, 24)
WHOLE(2, 8, 22)
WHOLE(4, 8, 20)
WHOLE(8, 8, 13)
WHOLE(10, 8, 12)

// A step of many patterns on tensor cores, in three products of numbers of 11 bits: each
// number is the sum of two. Their sums are taken in float32 after every 16 weights, since
// tensor cores cut off what they add up.

INLINE void product(float *sum, const u32 *a, const u32 *b) {
	asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
		: "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// split returns the upper bits, rounded, and sets the others, which are not a number where
// x is none.
INLINE u32 split(float x, u32 &low) {
	u32 high = (bits(x) + 0x1000) & ~0x1fffu;
	low = bits(x - number(high));
	return high;
}

// tile: M neurons of N patterns, by warps of TM·TN each; in every K weights, G groups of warps
// have a part each.
template <int M, int N, int TM, int TN, int G, int K, int Stages> INLINE void tile(const float *weights, const float *bias, const float *input,
		const float *x, float *next, float *mean, const Call &c) {
	constexpr u32 Warps = M / TM * (N / TN), Threads = Warps * G * 32, A = K + 4, B = N + 8, Stage = M * A + K * B;
	constexpr int I = TM / 16, J = TN / 8, JG = J / G;
	const u32 row = BLOCK_X * M, at = BLOCK_Y * N, base = address(memory), stride = depth(c), from = driven(c);
	float *buffer = (float *)memory;
	// A thread brings the same patterns every time, four at once where it can.
	const bool four = c.block % 4 == 0 && c.batch % 4 == 0 && aligned(x) && aligned(input);
	const u32 own = four ? THREAD % (N / 4) * 4 : THREAD % N;
	const bool is = at + own < c.batch;
	const Lane fed = lane_of(c, is ? at + own : 0);
	const float *states = x + fed.state, *inputs = input + fed.input + (u64)c.step * c.inputs * fed.width;
	auto bring = [&](u32 turn) {
		u32 k0 = turn * K, to = base + 4 * (turn % Stages * Stage);
#pragma unroll
		for (u32 j = 0; j < M * (K / 4); j += Threads) {
			u32 r = (j + THREAD) / (K / 4), k = THREAD % (K / 4) * 4;
			fetch16(to + 4 * (r * A + k), weights + (u64)min(row + r, c.size - 1) * stride + k0 + k, k0 + k < stride);
		}
		to += 4 * (M * A + own);
		auto source = [&](u32 k, bool &there) {
			u32 channel = k - from;
			there = is && (k < c.size || channel < c.inputs);
			return there ? (k < c.size ? states + (u64)k * fed.width : inputs + (u64)channel * fed.width) : x;
		};
		bool there;
		if (four)
#pragma unroll
			for (u32 j = 0; j < K; j += Threads / (N / 4)) {
				u32 k = j + THREAD / (N / 4);
				const float *p = source(k0 + k, there);
				fetch16(to + 4 * k * B, p, there);
			}
		else
			for (u32 k = THREAD / N; k < K; k += Threads / N) {
				const float *p = source(k0 + k, there);
				fetch4(to + 4 * k * B, p, there);
			}
	};
	const u32 turns = (stride + K - 1) / K, lane = THREAD % 32, warp = THREAD / 32 % Warps, part_of = THREAD / 32 / Warps;
	const u32 m = warp % (M / TM) * TM + lane / 4, n = warp / (M / TM) * TN;
	for (u32 i = 0; i < Stages - 1; i++) {
		if (i < turns)
			bring(i);
		fetched();
	}
	float sum[I][J][4] = {};
	for (u32 turn = 0; turn < turns; turn++) {
		arrived<Stages - 2>();
		__nvvm_bar_sync(0);
		if (turn + Stages - 1 < turns)
			bring(turn + Stages - 1);
		fetched();
		const float *wide = buffer + turn % Stages * Stage + m * A + lane % 4, *deep = buffer + turn % Stages * Stage + M * A + lane % 4 * B + n + lane / 4;
		for (u32 k0 = part_of * (K / G); k0 < (part_of + 1) * (K / G); k0 += 16) {
			float part[I][J][4] = {};
#pragma unroll
			for (u32 k1 = 0; k1 < 16; k1 += 8) {
				const u32 k = k0 + k1;
				u32 ah[I][4], al[I][4], bh[J][2], bl[J][2];
#pragma unroll
				for (int i = 0; i < I; i++)
#pragma unroll
					for (int e = 0; e < 4; e++)
						ah[i][e] = split(wide[(16 * i + e % 2 * 8) * A + k + e / 2 * 4], al[i][e]);
#pragma unroll
				for (int j = 0; j < J; j++)
#pragma unroll
					for (int e = 0; e < 2; e++)
						bh[j][e] = split(deep[(k + 4 * e) * B + 8 * j], bl[j][e]);
#pragma unroll
				for (int i = 0; i < I; i++)
#pragma unroll
					for (int j = 0; j < J; j++)
						product(part[i][j], al[i], bh[j]);
#pragma unroll
				for (int i = 0; i < I; i++)
#pragma unroll
					for (int j = 0; j < J; j++)
						product(part[i][j], ah[i], bl[j]);
#pragma unroll
				for (int i = 0; i < I; i++)
#pragma unroll
					for (int j = 0; j < J; j++)
						product(part[i][j], ah[i], bh[j]);
			}
#pragma unroll
			for (int i = 0; i < I; i++)
#pragma unroll
				for (int j = 0; j < J; j++)
#pragma unroll
					for (int e = 0; e < 4; e++)
						sum[i][j][e] += part[i][j][e];
		}
	}
	if constexpr (G > 1) {
		// Every group adds up some patterns.
		arrived<0>();
		__nvvm_bar_sync(0);
		auto spot = [&](u32 g, u32 i, u32 j, u32 e) { return buffer + (((g * Warps + warp) * I + i) * J + j) * 128 + e * 32 + lane; };
#pragma unroll
		for (int i = 0; i < I; i++)
#pragma unroll
			for (int j = 0; j < J; j++)
#pragma unroll
				for (int e = 0; e < 4; e++)
					*spot(part_of, i, j, e) = sum[i][j][e];
		__nvvm_bar_sync(0);
#pragma unroll
		for (int i = 0; i < I; i++)
#pragma unroll
			for (int j = 0; j < JG; j++)
#pragma unroll
				for (int e = 0; e < 4; e++) {
					float all = 0;
#pragma unroll
					for (int g = 0; g < G; g++)
						all += *spot(g, i, part_of * JG + j, e);
					sum[i][j][e] = all;
				}
	}
	// All that is read comes before all that is written, so that one does not wait for the other.
	const float each = 1 / (float)c.steps;
	Lane to[JG][2];
	const u32 pattern = at + n + part_of * JG * 8 + lane % 4 * 2;
#pragma unroll
	for (int j = 0; j < JG; j++)
#pragma unroll
		for (int e = 0; e < 2; e++)
			to[j][e] = lane_of(c, min(pattern + 8 * j + e, c.batch - 1));
#pragma unroll
	for (int i = 0; i < I; i++) {
		float was[JG][4], average[JG][4];
#pragma unroll
		for (int j = 0; j < JG; j++)
#pragma unroll
			for (int e = 0; e < 4; e++) {
				const Lane &l = to[j][e % 2];
				u32 neuron = min(row + m + 16 * i + e / 2 * 8, c.size - 1);
				u64 here = l.state + (u64)neuron * l.width;
				was[j][e] = x[here], average[j][e] = c.step == 0 ? 0 : mean[here];
				sum[i][j][e] += bias[neuron];
				if (c.noise > 0)
					sum[i][j][e] += c.noise * drawn(c.seed, c.pattern + pattern + 8 * j + e % 2, c.step, neuron);
			}
#pragma unroll
		for (int j = 0; j < JG; j++)
#pragma unroll
			for (int e = 0; e < 4; e++) {
				float v = relaxed(c, was[j][e], sum[i][j][e]);
				was[j][e] = v, average[j][e] = __builtin_fmaf(v, each, average[j][e]);
			}
#pragma unroll
		for (int j = 0; j < JG; j++)
#pragma unroll
			for (int e = 0; e < 4; e++) {
				const Lane &l = to[j][e % 2];
				u32 neuron = row + m + 16 * i + e / 2 * 8;
				u64 here = l.state + (u64)neuron * l.width;
				if (neuron < c.size && pattern + 8 * j + e % 2 < c.batch)
					next[here] = was[j][e], mean[here] = average[j][e];
			}
	}
}

// line: a step of one pattern. A warp has two neurons, and its lanes share out their weights.
INLINE void line(const float *weights, const float *bias, const float *input, const float *x, float *next, float *mean, const Call &c) {
	const u32 lane = THREAD % 32, row = (BLOCK_X * 8 + THREAD / 32) * 2, stride = depth(c), from = driven(c);
	const float4 *w = (const float4 *)(weights + (u64)min(row, c.size - 1) * stride), *w2 = (const float4 *)(weights + (u64)min(row + 1, c.size - 1) * stride);
	const float *u = input + (u64)c.step * c.inputs;
	float4 sum = {}, sum2 = {};
	auto add = [&](const float *x, u32 k, u32 at, u32 end) {
		float4 a = w[k / 4], b = w2[k / 4];
#pragma unroll
		for (int i = 0; i < 4; i++) {
			float v = at + i < end ? x[at + i] : 0;
			sum[i] = __builtin_fmaf(a[i], v, sum[i]), sum2[i] = __builtin_fmaf(b[i], v, sum2[i]);
		}
	};
	u32 k = 4 * lane;
	if (aligned(x))
#pragma unroll 4
		for (; k + 4 <= c.size; k += 128) {
			float4 a = w[k / 4], b = w2[k / 4], v = *(const float4 *)(x + k);
#pragma unroll
			for (int i = 0; i < 4; i++)
				sum[i] = __builtin_fmaf(a[i], v[i], sum[i]), sum2[i] = __builtin_fmaf(b[i], v[i], sum2[i]);
		}
	for (; k < c.size; k += 128)
		add(x, k, k, c.size);
	for (k = 4 * lane; k < c.inputs; k += 128)
		add(u, from + k, k, c.inputs);
	float a = sum.x + sum.y + (sum.z + sum.w), b = sum2.x + sum2.y + (sum2.z + sum2.w);
#pragma unroll
	for (u32 by = 16; by > 0; by /= 2)
		a += swap(a, by), b += swap(b, by);
	const u32 neuron = row + lane;
	if (lane < 2 && neuron < c.size) {
		float all = (lane ? b : a) + bias[neuron], average = c.step == 0 ? 0 : mean[neuron];
		if (c.noise > 0)
			all += c.noise * drawn(c.seed, c.pattern, c.step, neuron);
		float v = relaxed(c, x[neuron], all);
		next[neuron] = v, mean[neuron] = __builtin_fmaf(v, 1 / (float)c.steps, average);
	}
}

// The states of a step take turns in the result and the workspace, so that the last are
// the result.
#define STEP(name, threads, blocks, body) \
	KERNEL(threads, blocks) reservoir_##name(const float *__restrict weights, const float *__restrict bias, const float *__restrict input, \
			const float *start, float *end, float *mean, float *between, Call c) { \
		bool last = (c.steps - c.step) % 2; \
		body(weights, bias, input, c.step == 0 ? start : last ? between : end, last ? end : between, mean, c); \
	}
STEP(line, 256, 4, line)
STEP(strip, 256, 2, (tile<32, 64, 32, 32, 4, 64, 3>))
STEP(tile, 256, 2, (tile<64, 64, 32, 32, 2, 32, 4>))
