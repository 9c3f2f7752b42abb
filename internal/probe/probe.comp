// The probes for Vulkan: one invocation for each of n items.
//: probe_empty  -DEMPTY
//: probe_fp32   -DREAL=float -DSTEP(x)=x=fma(x,0.5,1.0);
//: probe_fp64   -DREAL=double -DSTEP(x)=x=fma(x,0.5LF,1.0LF);
//: probe_int32  -DREAL=uint -DSTEP(x)=x=(x+0x9e3779b9u)^0x7f4a7c15u;
//: probe_stream -DSTREAM
//: probe_check  -DCHECK
#version 450
layout(local_size_x = 128) in;
//params: Params
layout(push_constant) uniform Count {
	uint n; // items
};

#ifdef EMPTY
void main() {}
#elif defined STREAM
layout(std430, binding = 0) readonly buffer In { uvec4 from[]; };
layout(std430, binding = 1) writeonly buffer Out { uvec4 to[]; };
void main() {
	uint i = gl_GlobalInvocationID.x;
	if (i < n)
		to[i] = from[i];
}
#elif defined CHECK
layout(std430, binding = 0) readonly buffer In { uvec4 from[]; };
layout(std430, binding = 1) writeonly buffer Out { uvec4 to[]; };
// The arithmetic of a check: see Check in probe.go.
void main() {
	uint i = gl_GlobalInvocationID.x;
	if (i >= n)
		return;
	uvec4 v = from[i];
	for (uint k = 0; k < 8; k++) {
		v.x += ((v.y << 7) | (v.y >> 25)) ^ v.z;
		v.w ^= v.x * 0x9e3779b1u;
		float x = float(v.x >> 20), y = float(v.w >> 20), z = float(v.y >> 20);
		uint more = uint(x * y + z), less = uint(int((x - y) * z));
		v = uvec4(v.y ^ more * 0x85ebca6bu, ((v.z << 11) | (v.z >> 21)) + less, v.w, v.x);
	}
	to[i] = v;
}
#else
// 16 bytes for each item, of which one result takes the first.
layout(std430, binding = 0) writeonly buffer Out { REAL to[]; };

// Operations of an item, and of a round: eight chains of two.
const uint rounds = 65536 / 16;

void main() {
	uint i = gl_GlobalInvocationID.x;
	if (i >= n)
		return;
	// Chains begin differently, or the compiler would keep one of them.
	REAL a = REAL(i), b = a + REAL(1), c = a + REAL(2), d = a + REAL(3), e = a + REAL(4), f = a + REAL(5), g = a + REAL(6), h = a + REAL(7);
	for (uint k = 0; k < rounds; k++) {
		STEP(a) STEP(b) STEP(c) STEP(d) STEP(e) STEP(f) STEP(g) STEP(h)
	}
	to[i * 2] = a + b + c + d + e + f + g + h;
}
#endif
