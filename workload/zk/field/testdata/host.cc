// Reads pairs of elements of a field and writes what its header computes of each, for a test
// that compares.
#include "../fp.cuh"
#include "../fr.cuh"
#include <stdio.h>

template <class F> static int run() {
	F in[2];
	while (fread(in, sizeof in, 1, stdin) == 1) {
		F a = in[0], b = in[1];
		F out[] = {add(a, b), sub(a, b), mul(a, b), neg(a), to_number(a), power(a, b.v[0]), inverse(a), doubled(a), square(a), from_number(to_number(a)), F::zero(), F::zero()};
		out[10].v[0] = equal(a, b);
		out[11].v[0] = is_zero(a);
		if (fwrite(out, sizeof out, 1, stdout) != 1)
			return 1;
	}
	return 0;
}

int main(int argc, char **argv) { return argc == 2 && argv[1][1] == 'p' ? run<Fp>() : run<Fr>(); }
