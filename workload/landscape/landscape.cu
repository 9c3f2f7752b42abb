// Rows of the energy landscape in float64. A thread sums the pairs of a row at
// one angle, in the order and with the operations of the Go kernel: the same
// bits. What a pair needs for all angles is computed once for all threads of a
// block.
#include "../device.cuh"

//params: params
struct Rows {
	unsigned beads;
	unsigned first, rows; // or parts of rows
	unsigned from_pair; // where a shader begins in its rows
	double energy; // of the native structure
};

enum : u32 { Angles = 1000, Share = 250, Span = 4, Batch = 256 };

struct Vector {
	double x, y, z;
};

INLINE Vector operator-(Vector a, Vector b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
INLINE double dot(Vector a, Vector b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
INLINE Vector cross(Vector a, Vector b) { return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x}; }
INLINE Vector bead(const double *native, u32 i) { return {native[3 * i], native[3 * i + 1], native[3 * i + 2]}; }

// Pair is what two beads need to know for all angles. Contacts attract at any
// distance; the others repel each other up to the cutoff.
struct Pair {
	double constant, cosine, sine, size2;
	bool contact;
};

// landscape_rows: grid (rows, angles) cut by 1 and Share, 256 threads. A thread
// that has no angle of its own takes angle zero, which all need.
KERNEL(256, 4) landscape_rows(const double *__restrict native, const double *__restrict turns, double *__restrict out, Rows r) {
	__shared__ Pair pairs[Batch];
	__shared__ double zero;
	u32 row = r.first + BLOCK_X, n = r.beads, k = BLOCK_Y * Share + THREAD;
	bool own = THREAD < Share && k < Angles;
	if (!own)
		k = 0;
	double cosine = turns[k], sine = turns[Angles + k], sum = 0;
	Vector origin = bead(native, row + 1), axis = origin - bead(native, row);
	double scale = 1 / __nvvm_sqrt_rn_d(dot(axis, axis));
	axis = {axis.x * scale, axis.y * scale, axis.z * scale};
	// Beads a up to row+1 meet beads b behind it: as many for each a, but that
	// beads too close along the chain do not count.
	u32 behind = n - row - 2, all = (row + 2) * behind;
	for (u32 first = 0; first < all; first += Batch) {
		u32 count = min(Batch, all - first);
		__syncthreads();
		if (THREAD < count) {
			u32 a = (first + THREAD) / behind, b = row + 2 + (first + THREAD) % behind;
			Pair p = {-1, 0, 0, 0, false};
			if (b >= a + Span) {
				Vector va = bead(native, a) - origin, vb = bead(native, b) - origin;
				double along = dot(va, axis) * dot(vb, axis);
				p.constant = dot(va, va) + dot(vb, vb) - 2 * along;
				p.cosine = 2 * (dot(va, vb) - along);
				p.sine = 2 * dot(va, cross(axis, vb));
				Vector d = bead(native, a) - bead(native, b);
				p.size2 = dot(d, d);
				p.contact = p.size2 < 8.0 * 8.0;
				if (!p.contact)
					p.size2 = 4.0 * 4.0;
			}
			pairs[THREAD] = p;
		}
		__syncthreads();
		for (u32 i = 0; i < count; i++) {
			const Pair &p = pairs[i];
			double d2 = p.constant - p.cosine * cosine - p.sine * sine;
			if (p.constant < 0 || (!p.contact && !(d2 < 12.0 * 12.0)))
				continue;
			double q = p.size2 / d2, q2 = q * q;
			double six = p.contact ? 5 : 1, five = p.contact ? 6 : 0;
			sum += q2 * q2 * q * (six * q - five);
		}
	}
	if (THREAD == Share)
		zero = sum;
	__syncthreads();
	if (!own)
		return;
	sum += r.energy - zero;
	if (row > 0)
		sum += 1 - cosine + 0.5 * (1 - turns[3 * k % Angles]);
	out[(u64)BLOCK_X * Angles + k] = sum;
}
