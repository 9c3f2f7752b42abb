// Runs steps of the kernels for GPUs on the host, an item at a time, for a test that compares.
// Standard input has the words of points, scalars, sums and workspace as numbers, the points and
// the scalars, and for each step the name of its kernel in 32 bytes, the grid and the parameters.
// Standard output gets the sums.
#include "../msm.cu"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void Kernel(const u32 *, const u32 *, u32 *, u32 *, Params);

#define NAMED(name) {#name, msm_##name}
static const struct {
	const char *name;
	Kernel *kernel;
} kernels[] = {
	NAMED(clear), NAMED(count), NAMED(chunks), NAMED(offsets), NAMED(starts), NAMED(scatter),
	NAMED(g1_points), NAMED(g1_sums), NAMED(g1_weigh), NAMED(g1_fold), NAMED(g1_pairs), NAMED(g1_finish),
	NAMED(g2_points), NAMED(g2_sums), NAMED(g2_weigh), NAMED(g2_fold), NAMED(g2_pairs), NAMED(g2_finish),
};

enum : u32 { Guard = 64, Uncleared = 0xa5a5a5a5 };

// buffer has words that are read or have any value, and others on both sides that nobody may
// write.
static u32 *buffer(u32 words, bool filled) {
	u32 *b = (u32 *)aligned_alloc(256, ((u64)words + 2 * Guard + 63) / 64 * 256);
	if (!b)
		exit(1);
	for (u64 i = 0; i < (u64)words + 2 * Guard; i++)
		b[i] = Uncleared;
	if (filled && fread(b + Guard, 4, words, stdin) != words)
		exit(1);
	return b + Guard;
}

static bool guarded(u32 *b, u32 words) {
	bool good = true;
	for (u32 i = 1; i <= Guard; i++)
		good = good && b[-(int)i] == Uncleared && b[(u64)words + i - 1] == Uncleared;
	free(b - Guard);
	return good;
}

int main() {
	u32 words[4];
	if (fread(words, sizeof words, 1, stdin) != 1)
		return 1;
	u32 *points = buffer(words[0], true), *scalars = buffer(words[1], true), *sums = buffer(words[2], false), *work = buffer(words[3], false);
	struct {
		char name[32];
		u32 grid[2];
		Params p;
	} step;
	while (fread(&step, sizeof step, 1, stdin) == 1) {
		Kernel *kernel = 0;
		for (auto &k : kernels)
			if (!strcmp(k.name, step.name + 4))
				kernel = k.kernel;
		if (!kernel) {
			fprintf(stderr, "no kernel %s\n", step.name);
			return 1;
		}
		// As many more items as the last block of a launch may have.
		for (item_y = 0; item_y < step.grid[1]; item_y++)
			for (item_x = 0; item_x < (step.grid[0] + 127) / 128 * 128; item_x++)
				kernel(points, scalars, sums, work, step.p);
	}
	bool written = fwrite(sums, 4, words[2], stdout) == words[2];
	return !written || !guarded(points, words[0]) || !guarded(scalars, words[1]) || !guarded(sums, words[2]) || !guarded(work, words[3]);
}
