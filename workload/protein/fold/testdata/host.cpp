// Runs fold_host on what comes in: how many ints, reals, values of the ladder, of the state and of
// what is seen, and of the workspace, as u64; the parameters; the ints, reals, ladder and state. The
// state after it and what is seen go out.
#include <cstdio>
#include <vector>

#include "../fold.cu"

// hostShort does a replica of a short chain.
static void hostShort(const Chain &c, const Replica &r, const Motion &m, u32 steps) {
	static Links<64> links;
	static Scene<64> scene;
	static Vector v[64], f[64];
	static u64 repels[64], bits[64];
	static Part parts[64];
	u32 n = c.n;
	for (u32 i = 0; i < n; i++) {
		linkBead(c, links, i);
		load(r, i, scene.x[i], v[i]);
		repels[i] = repelsOf(c, i);
	}
	scene.x[n] = {1e6, 1e6, 1e6};
	bool gone = true;
	for (u32 s = 0;; s++) {
		for (u32 i = 0; gone && i < n; i++)
			bits[i] = look(scene, repels[i], i, n);
		for (u32 i = 0; gone && i < n; i++)
			list(scene, bits[i], i, n);
		for (u32 k = 0; k < c.contacts; k++)
			pullAt(links, scene, k);
		for (u32 k = 0; k < scene.begin[n]; k++)
			repel(scene, k);
		for (u32 i = 0; i < n; i++) {
			gather(links, scene, i);
			f[i] = bend(links, scene, i);
			scene.noise[i] = normal(m.seed, i, m.replica, r.step + s);
		}
		gone = false;
		for (u32 i = 0; i < n; i++) {
			f[i] = forceOf(scene, f[i], i);
			if (s > 0)
				v[i] = v[i] + m.half * f[i];
			if (s < steps) {
				scene.x[i] = drift(m, scene.x[i], v[i], f[i], scene.noise[i]);
				gone |= far(scene.x[i], scene.listed[i]);
			}
		}
		if (s == steps)
			break;
	}
	for (u32 i = 0; i < n; i++) {
		store(r, i, scene.x[i], v[i]);
		parts[i] = partOf(c, links.terms[i], scene.x, i);
	}
	observe(c, scene.x, parts, r.seen);
}

// fold_host does all replicas as fold_two and fold_one do, or, with a workspace, as fold_long does.
static void fold_host(const int *ints, const double *reals, const double *ladder, const double *before, double *after, double *seen, double *work, Params p) {
	Chain c = chainOf(ints, reals, p);
	u32 n = p.beads;
	for (u32 k = 0; k < p.groups * Lanes; k++) {
		Motion m;
		Replica r = replicaOf(p, ladder, before, after, seen, k / Lanes, k % Lanes, m);
		if (!work) {
			hostShort(c, r, m, p.steps);
			continue;
		}
		Work w = workOf(work, p, k);
		for (u32 i = 0; i < n; i++) {
			w.terms[i] = termsOf(c, i);
			load(r, i, w.x[i], w.v[i]);
		}
		bool far = true;
		for (u32 s = 0;; s++) {
			for (u32 i = 0; far && i < n; i++)
				list(c, w, i);
			for (u32 i = 0; i < n; i++)
				forceLong(c, w, i);
			for (u32 i = 0; i < n; i++)
				finishLong(w, i, s > 0 ? m.half : 0);
			if (s == p.steps)
				break;
			far = false;
			for (u32 i = 0; i < n; i++)
				far |= driftLong(m, w, i, r.step + s);
		}
		for (u32 i = 0; i < n; i++) {
			store(r, i, w.x[i], w.v[i]);
			w.parts[i] = partOf(c, w.terms[i], w.x, i);
		}
		observe(c, w.x, w.parts, r.seen);
	}
}

template <class T> static std::vector<T> take(size_t n) {
	std::vector<T> v(n);
	if (fread(v.data(), sizeof(T), n, stdin) != n)
		throw "too little";
	return v;
}

int main() {
	auto sizes = take<u64>(6);
	Params p = take<Params>(1)[0];
	auto ints = take<int>(sizes[0]);
	auto reals = take<double>(sizes[1]), ladder = take<double>(sizes[2]), before = take<double>(sizes[3]);
	std::vector<double> after(sizes[3]), seen(sizes[4]), work(sizes[5]);
	fold_host(ints.data(), reals.data(), ladder.data(), before.data(), after.data(), seen.data(), work.empty() ? nullptr : work.data(), p);
	fwrite(after.data(), 8, after.size(), stdout);
	fwrite(seen.data(), 8, seen.size(), stdout);
}
