// A step of bodies, as package relativity has it: a body to an invocation.
//: relativity_bodies
#version 450
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer Places { float at[]; };
layout(std430, binding = 1) readonly buffer Masses { float mass[]; };
layout(std430, binding = 2) readonly buffer Velocities { float v[]; };
layout(std430, binding = 3) writeonly buffer To { float to[]; };
layout(std430, binding = 4) writeonly buffer Moved { float w[]; };
//params: bodyParams
layout(push_constant) uniform Params {
	uint all, first, n; // bodies, and those that move
	float step, soft2;
};

// PULL adds the pull of a body.
#define PULL(body) { \
	uint o = 3 * (body); \
	precise vec3 d = vec3(at[o], at[o + 1], at[o + 2]) - place; \
	precise float r2 = d.x * d.x + d.y * d.y + d.z * d.z + soft2; \
	precise float by = mass[body] / (r2 * sqrt(r2)); \
	pulls += by * d; \
}

void main() {
	uint i = gl_GlobalInvocationID.x, e = 3 * i;
	if (i >= n)
		return;
	vec3 place = vec3(at[3 * first + e], at[3 * first + e + 1], at[3 * first + e + 2]);
	precise vec3 pulls = vec3(0);
	uint j = 0;
	// Sixteen at a time, since lavapipe ends loops after 65,535 rounds.
	for (; j + 16 <= all; j += 16) {
		PULL(j) PULL(j + 1) PULL(j + 2) PULL(j + 3) PULL(j + 4) PULL(j + 5) PULL(j + 6) PULL(j + 7)
		PULL(j + 8) PULL(j + 9) PULL(j + 10) PULL(j + 11) PULL(j + 12) PULL(j + 13) PULL(j + 14) PULL(j + 15)
	}
	for (; j < all; j++) {
		PULL(j)
	}
	for (uint k = 0; k < 3; k++) {
		precise float moved = v[e + k] + step * pulls[k];
		precise float gone = place[k] + step * moved;
		w[e + k] = moved;
		to[e + k] = gone;
	}
}
