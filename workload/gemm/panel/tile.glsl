// Rows of the product of two row-major matrices: a group of 64 invocations computes
// ROWS × 64·COLS elements, an invocation a column of ROWS in each of COLS places.
// Elements of A are the same for all of a group. Whoever includes this defines
// START and STEP(acc, a, b), which takes a term into a sum.
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer A { float a[]; };
layout(std430, binding = 1) readonly buffer B { float b[]; };
layout(std430, binding = 2) writeonly buffer C { float c[]; };
layout(push_constant) uniform Sizes { uint m, k, n; };

#define DEPTH 4
#define TERM(p) { \
	float right[COLS]; \
	for (uint j = 0; j < COLS; j++) \
		right[j] = b[(p) * n + at[j]]; \
	for (uint i = 0; i < ROWS; i++) { \
		float left = a[from[i] + (p)]; \
		for (uint j = 0; j < COLS; j++) \
			STEP(acc[i][j], left, right[j]); \
	} \
}

void main() {
	uint row = gl_WorkGroupID.x * ROWS, column = gl_WorkGroupID.y * 64 * COLS + gl_LocalInvocationID.x;
	precise float acc[ROWS][COLS];
	for (uint i = 0; i < ROWS; i++)
		for (uint j = 0; j < COLS; j++)
			acc[i][j] = START;
	// What lies outside is read as the last inside, and not written.
	uint from[ROWS], at[COLS];
	for (uint i = 0; i < ROWS; i++)
		from[i] = min(row + i, m - 1) * k;
	for (uint j = 0; j < COLS; j++)
		at[j] = min(column + 64 * j, n - 1);
	uint p = 0;
	// lavapipe ends all loops of a shader after 65535 rounds in total, so a round
	// is several terms.
	for (; p + DEPTH <= k; p += DEPTH)
		for (uint d = 0; d < DEPTH; d++)
			TERM(p + d)
	for (; p < k; p++)
		TERM(p)
	for (uint i = 0; i < ROWS; i++)
		for (uint j = 0; j < COLS; j++)
			if (row + i < m && column + 64 * j < n)
				c[(row + i) * n + column + 64 * j] = acc[i][j];
}
