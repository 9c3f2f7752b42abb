// Runs fold_host on what comes in: how many ints, reals, values of the ladder, of the state and of
// what is seen, and of the workspace, as u64; the parameters; the ints, reals, ladder and state. The
// state after it and what is seen go out.
#include <cstdio>
#include <vector>

#include "../fold.cu"

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
