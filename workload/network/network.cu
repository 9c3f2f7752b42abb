// Steps of PageRank in float64, layers of graph convolution, and distances of nodes with their
// closeness and medoids. A block of threads has a block of rows, or a row of distances.
#include "../device.cuh"

enum : u32 { Threads = 128, Deep = 8, Per = 8, None = ~0u };
static const u32 Infinity = 0x7f800000;

//params: rankParams
struct RankParams {
	unsigned blocks; // of this task
	unsigned first; // row of this task
	unsigned rows; // of this task
	unsigned all; // nodes
	unsigned weighted; // whether edges have weights
	unsigned last; // whether it is the last step, whose changes are summed
	double damping; // probability to follow an edge
};

//params: gatherParams
struct GatherParams {
	unsigned blocks; // of this task
	unsigned rows; // of this task
	unsigned all; // nodes
	unsigned width; // features of a node
};

//params: transformParams
struct TransformParams {
	unsigned rows;
	unsigned inputs, outputs; // features of a row before and after
};

//params: distanceParams
struct DistanceParams {
	unsigned all; // nodes
	unsigned first; // node of this task
	unsigned rows; // nodes of this task
	unsigned k; // medoids
	float far;
};

// total adds up what the threads of a block have, in one order; room is for one number each.
template <typename T> INLINE T total(T mine, T *room) {
	__syncthreads();
	room[THREAD] = mine;
	__syncthreads();
	for (u32 by = Threads / 2; by > 0; by /= 2) {
		if (THREAD < by)
			room[THREAD] += room[THREAD + by];
		__syncthreads();
	}
	return room[0];
}

// from_lane returns the number of the lane whose place differs by a power of two.
INLINE double from_lane(double x, u32 by) {
	u64 b = __builtin_bit_cast(u64, x);
	u32 low = __nvvm_shfl_sync_bfly_i32(~0u, (u32)b, by, 31), high = __nvvm_shfl_sync_bfly_i32(~0u, (u32)(b >> 32), by, 31);
	return __builtin_bit_cast(double, (u64)high << 32 | low);
}

// among returns the sum over n neighbouring lanes, a power of two, to each of them.
INLINE double among(double mine, u32 n) {
	for (u32 by = n / 2; by > 0; by /= 2)
		mine += from_lane(mine, by);
	return mine;
}

// finish takes the step of a row. In the last step it returns the change of its rank.
INLINE double finish(u32 row, double sum, const double *given, const double *shares, double *to, RankParams p) {
	double share = shares[row], now = (1 + p.damping * sum) * share;
	to[row] = now;
	if (!p.last)
		return 0;
	double diff = now - given[p.first + row];
	return (diff < 0 ? -diff : diff) / share;
}

// along adds up what comes along up to N edges of a thread, every apart-th from k on, all of which it
// reads at once; instead of those from last on it reads the one before. Columns are read once in a step, and
// are not to take the place of ranks in caches.
template <u32 N> INLINE double along(u32 k, u32 apart, u32 last, const u32 *columns, const double *weights, const double *given, bool weighted) {
	u32 from[N];
	double values[N], sum = 0;
#pragma unroll
	for (u32 u = 0; u < N; u++)
		from[u] = read_once(columns + min(k + u * apart, last - 1));
#pragma unroll
	for (u32 u = 0; u < N; u++)
		values[u] = given[from[u]];
	if (weighted) {
#pragma unroll
		for (u32 u = 0; u < N; u++)
			values[u] = weights[min(k + u * apart, last - 1)] * values[u];
	}
#pragma unroll
	for (u32 u = 0; u < N; u++)
		if (k + u * apart < last)
			sum += values[u];
	return sum;
}

// network_rank: grid (blocks) cut by 1, 128 threads. A block with one row, which may be long, is
// added up by all threads. Each row of other blocks has as many threads as the block's first row, the longest,
// needs for Deep edges each, up to 32. The order of a sum depends on the block alone, not on devices.
KERNEL(128, 10) network_rank(const u32 *__restrict bounds, const u32 *__restrict starts, const u32 *__restrict columns, const double *__restrict weights, const double *__restrict given, const double *__restrict shares, double *__restrict to, double *__restrict changes, RankParams p) {
	__shared__ double sums[Threads];
	u32 from = bounds[BLOCK_X] - bounds[0], end = bounds[BLOCK_X + 1] - bounds[0], base = starts[0];
	double change = 0;
	if (end == from + 1) {
		u32 k = starts[from] - base + THREAD, last = starts[end] - base;
		double sum = 0;
		for (; k + 15 * Threads < last; k += 16 * Threads)
			sum += along<16>(k, Threads, last, columns, weights, given, p.weighted);
		for (; k < last; k += 4 * Threads)
			sum += along<4>(k, Threads, last, columns, weights, given, p.weighted);
		sum = among(sum, 32);
		if (THREAD % 32 == 0)
			sums[THREAD / 32] = sum;
		__syncthreads();
		if (THREAD == 0)
			changes[BLOCK_X] = finish(from, (sums[0] + sums[1]) + (sums[2] + sums[3]), given, shares, to, p);
		return;
	}
	u32 lanes = 1;
	while (lanes < 32 && starts[from + 1] - starts[from] > Deep * lanes)
		lanes *= 2;
	for (; from < end; from += Threads / lanes) {
		u32 row = from + THREAD / lanes;
		double sum = 0;
		if (row < end) {
			u32 last = starts[row + 1] - base;
			for (u32 k = starts[row] - base + THREAD % lanes; k < last; k += Deep * lanes)
				sum += along<Deep>(k, lanes, last, columns, weights, given, p.weighted);
		}
		sum = among(sum, lanes);
		if (row < end && THREAD % lanes == 0)
			change += finish(row, sum, given, shares, to, p);
	}
	if (p.last)
		change = total(change, sums);
	if (THREAD == 0)
		changes[BLOCK_X] = change;
}

// network_gather: grid (blocks) cut by 1, 128 threads. A thread has a feature of a row.
KERNEL(128, 8) network_gather(const u32 *__restrict bounds, const u32 *__restrict starts, const u32 *__restrict columns, const float *__restrict factors, const float *__restrict features, float *__restrict sums, GatherParams p) {
	u32 from = bounds[BLOCK_X] - bounds[0], end = bounds[BLOCK_X + 1] - bounds[0];
	for (u32 e = THREAD; e < (end - from) * p.width; e += Threads) {
		u32 row = from + e / p.width, f = e % p.width;
		u32 k = starts[row] - starts[0], last = starts[row + 1] - starts[0];
		float sum = 0;
#pragma unroll 4
		for (; k < last; k++)
			sum += factors[k] * features[(u64)columns[k] * p.width + f];
		sums[(u64)row * p.width + f] = sum;
	}
}

// network_transform: grid (rows) cut by 8, 128 threads. A thread has a feature of eight rows.
KERNEL(128, 8) network_transform(const float *__restrict rows, const float *__restrict weights, float *__restrict to, TransformParams p) {
	u32 begin = BLOCK_X * Per;
	for (u32 o = THREAD; o < p.outputs; o += Threads) {
		float sums[Per] = {};
		for (u32 i = 0; i < p.inputs; i++) {
			float w = weights[(u64)i * p.outputs + o];
#pragma unroll
			for (u32 r = 0; r < Per; r++)
				sums[r] += rows[(u64)min(begin + r, p.rows - 1) * p.inputs + i] * w;
		}
#pragma unroll
		for (u32 r = 0; r < Per; r++)
			if (begin + r < p.rows)
				to[(u64)(begin + r) * p.outputs + o] = sums[r] < 0 ? 0 : sums[r];
	}
}

// network_distances: grid (rows) cut by 1, 128 threads.
KERNEL(128, 8) network_distances(const float *__restrict points, float *__restrict distances, DistanceParams p) {
	const float *own = points + 3ull * (p.first + BLOCK_X);
	float *row = distances + (u64)BLOCK_X * p.all;
	for (u32 j = THREAD; j < p.all; j += Threads) {
		float x = points[3 * j] - own[0], y = points[3 * j + 1] - own[1], z = points[3 * j + 2] - own[2];
		row[j] = __nvvm_sqrt_rn_f(x * x + y * y + z * z);
	}
}

// network_paths: grid (rows) cut by 1, 128 threads. Threads share the nodes of a level.
KERNEL(128, 8) network_paths(const u32 *__restrict starts, const u32 *__restrict columns, float *distances, DistanceParams p) {
	__shared__ u32 reached;
	volatile float *row = distances + (u64)BLOCK_X * p.all;
	for (u32 j = THREAD; j < p.all; j += Threads)
		row[j] = j == p.first + BLOCK_X ? 0 : (float)p.all;
	for (u32 level = 0; level < p.all; level++) {
		__syncthreads();
		if (THREAD == 0)
			reached = 0;
		__syncthreads();
		for (u32 j = THREAD; j < p.all; j += Threads) {
			if (row[j] != (float)level)
				continue;
			for (u32 e = starts[j]; e < starts[j + 1]; e++) {
				if (row[columns[e]] == (float)p.all) { // others may write the same
					row[columns[e]] = (float)(level + 1);
					reached = 1;
				}
			}
		}
		__syncthreads();
		if (!reached)
			break;
	}
}

// network_closeness: grid (rows) cut by 1, 128 threads.
KERNEL(128, 8) network_closeness(const float *__restrict distances, float *__restrict closeness, DistanceParams p) {
	__shared__ float room[Threads];
	const float *row = distances + (u64)BLOCK_X * p.all;
	float sum = 0, count = 0;
	for (u32 j = THREAD; j < p.all; j += Threads) {
		if (!(row[j] >= p.far)) {
			sum += row[j];
			count++;
		}
	}
	sum = total(sum, room);
	count = total(count, room) - 1; // without itself
	if (THREAD == 0)
		closeness[BLOCK_X] = count < 1 || sum == 0 ? 0 : (count / sum) * (count / (float)(p.all - 1));
}

// network_assign: grid (rows) cut by 128, 128 threads.
KERNEL(128, 8) network_assign(const u32 *__restrict medoids, const float *__restrict distances, u32 *__restrict labels, DistanceParams p) {
	u32 i = BLOCK_X * Threads + THREAD, best = 0;
	if (i >= p.rows)
		return;
	float least = number(Infinity);
	for (u32 m = 0; m < p.k; m++) {
		float d = distances[(u64)i * p.all + medoids[m]];
		if (d < least) {
			least = d;
			best = m;
		}
	}
	labels[i] = best;
}

// network_spread: grid (rows) cut by 1, 128 threads.
KERNEL(128, 8) network_spread(const u32 *__restrict labels, const float *__restrict distances, float *__restrict sums, DistanceParams p) {
	__shared__ float room[Threads];
	const float *row = distances + (u64)BLOCK_X * p.all;
	u32 own = labels[p.first + BLOCK_X];
	float sum = 0;
	for (u32 j = THREAD; j < p.all; j += Threads)
		if (labels[j] == own)
			sum += row[j];
	sum = total(sum, room);
	if (THREAD == 0)
		sums[BLOCK_X] = sum;
}

// network_medoids: grid (k) cut by 1, 128 threads.
KERNEL(128, 8) network_medoids(const u32 *__restrict labels, const float *__restrict sums, const u32 *__restrict before, u32 *__restrict medoids, DistanceParams p) {
	__shared__ float least[Threads];
	__shared__ u32 at[Threads];
	float best = number(Infinity);
	u32 node = None;
	for (u32 i = THREAD; i < p.all; i += Threads) {
		if (labels[i] == BLOCK_X && sums[i] < best) {
			best = sums[i];
			node = i;
		}
	}
	least[THREAD] = best;
	at[THREAD] = node;
	__syncthreads();
	if (THREAD > 0)
		return;
	for (u32 t = 1; t < Threads; t++) {
		if (least[t] < best || (least[t] == best && at[t] < node)) {
			best = least[t];
			node = at[t];
		}
	}
	medoids[BLOCK_X] = node == None ? before[BLOCK_X] : node;
}
