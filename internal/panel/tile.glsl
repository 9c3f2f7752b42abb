// Rows of the product of two row-major matrices: a group of 64 invocations computes
// ROWS × 256·COLS elements. Elements of A are the same for all of a group. Whoever
// includes this defines START and, for numbers T, STEP(T, acc, a, b), which takes a
// term into a sum.
//
// Drivers like four numbers at once. Where rows have no multiple of four, numbers
// are taken one by one, with the same result.
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer A { float a[]; };
layout(std430, binding = 0) readonly buffer A4 { vec4 a4[]; };
layout(std430, binding = 1) readonly buffer B { float b[]; };
layout(std430, binding = 1) readonly buffer B4 { vec4 b4[]; };
layout(std430, binding = 2) writeonly buffer C { float c[]; };
layout(std430, binding = 2) writeonly buffer C4 { vec4 c4[]; };
//params: graph.MatMul
layout(push_constant) uniform Sizes {
	uint m, k, n;
};

// What lies outside is read as the last inside, and not written. lavapipe ends all
// loops of a shader after 65535 rounds in total, so a round is four terms,
// whose own loop is unrolled: left to itself it would count as well.

// fours computes four columns side by side in each of COLS places.
void fours(uint row, uint column) {
	uint w = n / 4, from[ROWS], at[COLS];
	precise vec4 acc[ROWS][COLS];
	for (uint i = 0; i < ROWS; i++)
		from[i] = min(row + i, m - 1) * (k / 4);
	for (uint j = 0; j < COLS; j++)
		at[j] = min(column + 64 * j, w - 1);
	for (uint i = 0; i < ROWS; i++)
		for (uint j = 0; j < COLS; j++)
			acc[i][j] = vec4(START);
	for (uint p = 0; p < k / 4; p++) {
		vec4 left[ROWS];
		for (uint i = 0; i < ROWS; i++)
			left[i] = a4[from[i] + p];
		[[unroll]] for (uint d = 0; d < 4; d++)
			for (uint j = 0; j < COLS; j++) {
				vec4 right = b4[(p * 4 + d) * w + at[j]];
				for (uint i = 0; i < ROWS; i++)
					STEP(vec4, acc[i][j], vec4(left[i][d]), right)
			}
	}
	for (uint i = 0; i < ROWS; i++)
		for (uint j = 0; j < COLS; j++)
			if (row + i < m && column + 64 * j < w)
				c4[(row + i) * w + column + 64 * j] = acc[i][j];
}

#define TERM(p) { \
	float right[4]; \
	for (uint j = 0; j < 4; j++) \
		right[j] = b[(p) * n + at[j]]; \
	for (uint i = 0; i < ROWS; i++) { \
		float left = a[from[i] + (p)]; \
		for (uint j = 0; j < 4; j++) \
			STEP(float, acc[i][j], left, right[j]) \
	} \
}

// ones computes four columns that stand 64 apart.
void ones(uint row, uint column) {
	uint from[ROWS], at[4];
	precise float acc[ROWS][4];
	for (uint i = 0; i < ROWS; i++)
		from[i] = min(row + i, m - 1) * k;
	for (uint j = 0; j < 4; j++)
		at[j] = min(column + 64 * j, n - 1);
	for (uint i = 0; i < ROWS; i++)
		for (uint j = 0; j < 4; j++)
			acc[i][j] = START;
	uint p = 0;
	for (; p + 4 <= k; p += 4)
		[[unroll]] for (uint d = 0; d < 4; d++)
			TERM(p + d)
	for (; p < k; p++)
		TERM(p)
	for (uint i = 0; i < ROWS; i++)
		for (uint j = 0; j < 4; j++)
			if (row + i < m && column + 64 * j < n)
				c[(row + i) * n + column + 64 * j] = acc[i][j];
}

void main() {
	uint row = gl_WorkGroupID.x * ROWS;
	if ((k | n) % 4 == 0) {
		fours(row, gl_WorkGroupID.y * 64 * COLS + gl_LocalInvocationID.x);
		return;
	}
	for (uint part = 0; part < COLS; part++)
		ones(row, (gl_WorkGroupID.y * COLS + part) * 256 + gl_LocalInvocationID.x);
}
