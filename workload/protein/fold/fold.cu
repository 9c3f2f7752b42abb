// Steps of replicas as package fold has them, in float64: a bead to a thread. A thread sums all
// forces on its beads in one order, so that a replica has the same bytes in every launch; that
// order is not the processors', products and sums are fused, and reciprocals and roots may be off
// in the last places, so that trajectories differ from the processors' by rounding. The
// random numbers are made of the same words.
//
// What a thread does between two barriers is a function of its bead. Compiled for a host, where
// device_test.go compares it with the reference, loops over beads take the place of threads
// (testdata/host.cpp).
#ifdef __CUDA__
#include "../../device.cuh"
#pragma clang fp contract(fast)
#else
#define INLINE static inline __attribute__((always_inline))
typedef unsigned int u32;
typedef unsigned long long u64;
#endif

//params: params
struct Params {
	unsigned beads, bonds, angles, dihedrals, contacts;
	unsigned degree;
	unsigned first, groups; // of all groups, those of the task
	unsigned replicas; // of all groups
	unsigned seed;
	unsigned steps;
	double dt, gamma;
	double c1; // exp(-gamma dt)
};

enum : u32 { Lanes = 8, Span = 4, Rungs = 3, Seen = 4, Large = 512 };

#include "chain.cuh"

// Short chains, of 64 beads or fewer, are in shared memory. Several threads work at a bead, each in a
// role: the first has its terms and moves it, the second the noise, and one of them the contacts; those
// of the last roles share the pairs that repel each other.
//
// Those pairs are listed within 13.5 angstrom, as chunks of four beads, or of eight where there are too
// many, that are near the same bead. The list is made anew once a bead has moved 0.75 angstrom: half of
// the margin to the cutoff, 12. A sum depends on which beads are listed beside each other in its last
// places, and so do trajectories on where launches begin.
template <u32 Beads> struct Links { // what replicas of a chain have in common
	enum : u32 { Most = 3 * Beads }; // contacts
	Terms terms[Beads];
	double size2[Most];
	unsigned short ends[2][Most]; // of each contact
	unsigned short begin[Beads + 1], entries[2 * Most]; // by bead: twice a contact's number, and one more at its second bead
};

#ifndef FOURS
#define FOURS (u32) s.Most // chunks of four beads, at most; a test has fewer
#endif

// Scene is what the threads of a replica tell each other.
template <u32 Beads> struct Scene {
	enum : u32 { Most = Beads * ((Beads + 7) / 8) }; // chunks
	Vector x[Beads + 1]; // the one beyond the last is far from all
	Vector tail[3][Beads], pull[Beads], noise[Beads], listed[Beads];
	Vector pulled[3 * Beads], sums[Most]; // of contacts and of chunks
	u32 near[2 * Most]; // the beads of chunks, four to a word
	unsigned short counts[Beads], begin[Beads + 1]; // of each bead: how many are near, and its chunks
	unsigned char owner[Most]; // of each chunk
	u32 words; // of a chunk
};

// linkBead sets what bead i has, and contacts with beads behind it.
template <u32 Beads> INLINE void linkBead(const Chain &c, Links<Beads> &l, u32 i) {
	l.terms[i] = termsOf(c, i);
	u32 at = c.rows[i];
	for (u32 k = 0; k < c.contacts; k++)
		at += (u32)c.upper[k] < i;
	l.begin[i] = at;
	for (u32 k = 0; k < c.contacts; k++)
		if ((u32)c.upper[k] == i)
			l.entries[at++] = 2 * k + 1;
	for (u32 k = c.rows[i]; k < (u32)c.rows[i + 1]; k++) {
		l.entries[at++] = 2 * k;
		l.ends[0][k] = i, l.ends[1][k] = c.upper[k], l.size2[k] = c.upper2[k];
	}
	l.begin[i + 1] = at; // as the next bead has it
}

// repelsOf are bits by bead of those that repel bead i.
INLINE u64 repelsOf(const Chain &c, u32 i) {
	u64 bits = 0;
	for (u32 j = 0; j < c.n; j++)
		bits |= (u64)apart(c, i, j) << j;
	return bits;
}

// look counts the beads that are near bead i and repel it, and returns their bits.
template <u32 Beads> INLINE u64 look(Scene<Beads> &s, u64 repels, u32 i, u32 n) {
	u64 bits = 0;
	Vector xi = s.x[i];
	s.listed[i] = xi;
#pragma clang loop unroll(disable)
	for (u32 j = 0; j < n; j++) {
		Vector d = xi - s.x[j];
		bits |= (u64)(dot(d, d) < 182.25) << j;
	}
	bits &= repels;
	s.counts[i] = __builtin_popcountll(bits);
	return bits;
}

// list makes the chunks of bead i, once all have looked.
template <u32 Beads> INLINE void list(Scene<Beads> &s, u64 bits, u32 i, u32 n) {
	u32 four = 0, at = 0, all = 0;
	for (u32 j = 0; j < n; j++)
		all += (s.counts[j] + 3u) / 4;
	u32 words = all <= FOURS ? 1 : 2, size = 4 * words;
	for (u32 j = 0; j < i; j++)
		at += (s.counts[j] + size - 1) / size;
	s.begin[i] = at;
	for (; bits != 0; at++) {
		s.owner[at] = i;
		for (u32 w = 0; w < words; w++) {
			four = 0;
			for (u32 k = 0; k < 32; k += 8, bits &= bits - 1)
				four |= (bits != 0 ? (u32)__builtin_ctzll(bits) : n) << k;
			s.near[at * words + w] = four;
		}
	}
	s.begin[i + 1] = at; // as the next bead has it
	s.words = words;
}

// repel computes chunk k.
template <u32 Beads> INLINE void repel(Scene<Beads> &s, u32 k) {
	Vector f = {0, 0, 0}, xi = s.x[s.owner[k]];
	u32 words = s.words;
#pragma clang loop unroll(disable)
	for (u32 w = 0; w < words; w++) {
		u32 four = s.near[k * words + w];
		for (u32 q = 0; q < 4; q++) {
			Vector d = xi - s.x[four >> (8 * q) & 255];
			double r2 = dot(d, d), o = over(r2), o3 = o * o * o, o7 = o3 * o3 * o;
			f = f + (near(r2) ? o7 : 0) * d;
		}
	}
	s.sums[k] = f;
}

// pullAt computes contact k.
template <u32 Beads> INLINE void pullAt(const Links<Beads> &l, Scene<Beads> &s, u32 k) {
	Vector d = s.x[l.ends[0][k]] - s.x[l.ends[1][k]];
	double o = over(dot(d, d)), q = l.size2[k] * o, q2 = q * q;
	s.pulled[k] = 60 * (q2 * q2 * q * (q - 1) * o) * d;
}

// gather sums the contacts of bead i.
template <u32 Beads> INLINE void gather(const Links<Beads> &l, Scene<Beads> &s, u32 i) {
	Vector f = {0, 0, 0};
	for (u32 k = l.begin[i], end = l.begin[i + 1]; k < end; k++) {
		u32 e = l.entries[k];
		f = f + (e & 1 ? -1.0 : 1.0) * s.pulled[e / 2];
	}
	s.pull[i] = f;
}

// bend computes the terms of bead i, and returns their force on it.
template <u32 Beads> INLINE Vector bend(const Links<Beads> &l, Scene<Beads> &s, u32 i) {
	Pulls p = pull(l.terms[i], s.x + i);
	for (u32 k = 0; k < 3; k++)
		s.tail[k][i] = p.on[k + 1];
	return p.on[0];
}

// forceOf is the force on bead i, given that of its terms.
template <u32 Beads> INLINE Vector forceOf(const Scene<Beads> &s, Vector f, u32 i) {
	f = f + s.pull[i];
	for (u32 k = 0; k < 3; k++)
		if (i > k)
			f = f + s.tail[k][i - k - 1];
	Vector r = {0, 0, 0};
	for (u32 k = s.begin[i], end = s.begin[i + 1]; k < end; k++)
		r = r + s.sums[k];
	return f + (double)Repels * r;
}

// far says whether a bead has gone too far from where it was listed.
INLINE bool far(Vector x, Vector listed) {
	Vector d = x - listed;
	return !(dot(d, d) <= 0.5625);
}

// Long chains: a replica is in the workspace, with a list of the pairs within 15 angstrom, as bits by
// bead. The list is made anew once a bead has moved 1.5 angstrom: half of the margin to the cutoff, 12.
struct Work {
	Vector *x, *v, *f, *listed, *tail[3];
	Terms *terms;
	Part *parts;
	u32 *pairs; // word w of bead i at w*n + i
};

INLINE Work workOf(double *work, const Params &p, u32 replica) {
	u32 n = p.beads, words = (n + 31) / 32;
	u64 size = (u64)28 * n + ((u64)n * words + 1) / 2;
	Vector *v = (Vector *)(work + size * replica);
	Terms *t = (Terms *)(v + 7 * n);
	Part *q = (Part *)(t + n);
	return {v, v + n, v + 2 * n, v + 3 * n, {v + 4 * n, v + 5 * n, v + 6 * n}, t, q, (u32 *)(work + size * replica + 28 * n)};
}

INLINE void list(const Chain &c, const Work &w, u32 i) {
	Vector xi = w.x[i];
	w.listed[i] = xi;
	for (u32 at = 0; 32 * at < c.n; at++) {
		u32 bits = 0, end = 32 * at + 32 < c.n ? 32 : c.n - 32 * at;
		for (u32 k = 0; k < end; k++) {
			Vector d = xi - w.x[32 * at + k];
			if (dot(d, d) < 225 && apart(c, i, 32 * at + k))
				bits |= 1u << k;
		}
		w.pairs[(u64)at * c.n + i] = bits;
	}
}

INLINE void forceLong(const Chain &c, const Work &w, u32 i) {
	Pulls p = pull(w.terms[i], w.x + i);
	for (u32 k = 0; k < 3; k++)
		w.tail[k][i] = p.on[k + 1];
	Vector f = {0, 0, 0}, xi = w.x[i];
	for (u32 at = 0; 32 * at < c.n; at++)
		for (u32 m = w.pairs[(u64)at * c.n + i]; m != 0; m &= m - 1) {
			Vector d = xi - w.x[32 * at + __builtin_ctz(m)];
			double r2 = dot(d, d);
			if (!near(r2))
				continue;
			double o = over(r2), o3 = o * o * o;
			f = f + o3 * o3 * o * d;
		}
	w.f[i] = p.on[0] + attracted(c, w.x, i) + (double)Repels * f;
}

INLINE void finishLong(const Work &w, u32 i, double kick) {
	Vector f = w.f[i] + bond(w.tail, i);
	w.f[i] = f;
	w.v[i] = w.v[i] + kick * f;
}

// driftLong returns whether the bead went too far for the list.
INLINE bool driftLong(const Motion &m, const Work &w, u32 i, u64 step) {
	Vector v = w.v[i], x = drift(m, w.x[i], v, w.f[i], normal(m.seed, i, m.replica, step)), d = x - w.listed[i];
	w.x[i] = x, w.v[i] = v;
	return !(dot(d, d) <= 2.25);
}

#ifdef __CUDA__
// meet is a barrier of so many threads: those of one role.
INLINE void meet(u32 threads) { asm volatile("bar.sync 1, %0;" : : "r"(threads) : "memory"); }

// short_chains: grid (groups, lanes), Count replicas of Beads beads or fewer to a block.
template <u32 Beads, u32 Count, u32 Roles> INLINE void short_chains(const int *ints, const double *reals, const double *ladder, const double *before, double *after, double *seen, const Params &p) {
	enum : u32 { Width = Count * Beads, Contacts = Roles > 2, Listed = Roles > 2 ? 2 : 1 }; // the role of contacts, and the first of pairs
	__shared__ Links<Beads> links;
	__shared__ Scene<Beads> scenes[Count];
	u32 n = p.beads, role = THREAD / Width, t = THREAD % Width, which = t / n, i = t - which * n;
	bool own = which < Count;
	if (!own)
		which = 0, i = 0;
	Chain c = chainOf(ints, reals, p);
	Motion m;
	Replica r = replicaOf(p, ladder, before, after, seen, BLOCK_X, BLOCK_Y * Count + which, m);
	Scene<Beads> &scene = scenes[which];
	u64 repels = 0;
	Vector x, v, f;
	bool moves = own && role == 0, gone = true;
	if (moves) {
		repels = repelsOf(c, i);
		load(r, i, x, v);
		scene.x[i] = x;
		if (which == 0)
			linkBead(c, links, i);
		if (i == 0)
			scene.x[n] = {1e6, 1e6, 1e6};
	}
	for (u32 s = 0;; s++) {
		if (__nvvm_bar0_or(gone)) {
			u64 bits = 0;
			if (moves)
				bits = look(scene, repels, i, n);
			__syncthreads();
			if (moves)
				list(scene, bits, i, n);
			__syncthreads();
		}
		if (role == Contacts) {
			for (u32 k = t; k < Count * c.contacts; k += Width) {
				u32 w = Count > 1 && k >= c.contacts;
				pullAt(links, scenes[w], k - w * c.contacts);
			}
			meet(Width);
			if (own)
				gather(links, scene, i);
		}
		if (moves)
			f = bend(links, scene, i);
		if (own && role == 1)
			scene.noise[i] = normal(m.seed, i, m.replica, r.step + s);
		if (role >= Listed) {
			u32 first = scenes[0].begin[n], all = Count > 1 ? first + scenes[Count - 1].begin[n] : first;
			for (u32 k = THREAD - Listed * Width; k < all; k += (Roles - Listed) * Width) {
				u32 w = Count > 1 && k >= first;
				repel(scenes[w], k - w * first);
			}
		}
		__syncthreads();
		gone = false;
		if (moves) {
			f = forceOf(scene, f, i);
			if (s > 0)
				v = v + m.half * f;
			if (s < p.steps) {
				scene.x[i] = x = drift(m, x, v, f, scene.noise[i]);
				gone = far(x, scene.listed[i]);
			}
		}
		if (s == p.steps)
			break;
	}
	__syncthreads();
	Part *parts = (Part *)scene.sums; // a vector is larger
	if (moves) {
		store(r, i, x, v);
		parts[i] = partOf(c, links.terms[i], scene.x, i);
	}
	__syncthreads();
	if (moves && i == 0)
		observe(c, scene.x, parts, r.seen);
}

KERNEL(192, 4) fold_two(const int *__restrict ints, const double *__restrict reals, const double *__restrict ladder, const double *__restrict before, double *__restrict after, double *__restrict seen, Params p) {
	short_chains<48, 2, 2>(ints, reals, ladder, before, after, seen, p);
}

KERNEL(256, 3) fold_one(const int *__restrict ints, const double *__restrict reals, const double *__restrict ladder, const double *__restrict before, double *__restrict after, double *__restrict seen, Params p) {
	short_chains<64, 1, 4>(ints, reals, ladder, before, after, seen, p);
}

// fold_long: grid (groups, lanes), a replica to a block.
KERNEL(512, 1) fold_long(const int *__restrict ints, const double *__restrict reals, const double *__restrict ladder, const double *__restrict before, double *__restrict after, double *__restrict seen, double *work, Params p) {
	Chain c = chainOf(ints, reals, p);
	Motion m;
	Replica r = replicaOf(p, ladder, before, after, seen, BLOCK_X, BLOCK_Y, m);
	Work w = workOf(work, p, BLOCK_X * Lanes + BLOCK_Y);
	for (u32 i = THREAD; i < p.beads; i += Large) {
		w.terms[i] = termsOf(c, i);
		load(r, i, w.x[i], w.v[i]);
	}
	bool far = true;
	for (u32 s = 0;; s++) {
		if (__nvvm_bar0_or(far))
			for (u32 i = THREAD; i < p.beads; i += Large)
				list(c, w, i);
		for (u32 i = THREAD; i < p.beads; i += Large)
			forceLong(c, w, i);
		__syncthreads();
		for (u32 i = THREAD; i < p.beads; i += Large)
			finishLong(w, i, s > 0 ? m.half : 0);
		if (s == p.steps)
			break;
		far = false;
		for (u32 i = THREAD; i < p.beads; i += Large)
			far |= driftLong(m, w, i, r.step + s);
	}
	for (u32 i = THREAD; i < p.beads; i += Large) {
		store(r, i, w.x[i], w.v[i]);
		w.parts[i] = partOf(c, w.terms[i], w.x, i);
	}
	__syncthreads();
	if (THREAD == 0)
		observe(c, w.x, w.parts, r.seen);
}
#endif
