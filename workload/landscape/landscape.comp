// Rows of the energy landscape in float64. An invocation sums the pairs of a row
// at one angle, in the order and with the operations of the Go kernel. What a pair
// needs for all angles is computed once for all of a group.
//
// lavapipe ends all loops of an invocation after 65535 rounds in total. So a round is
// several pairs, and of long chains a launch (PART) adds up Most pairs, others go on
// where it ended, and the last (FINISH) makes energies of the sums.
//: landscape_rows
//: landscape_part -DPART
//: landscape_finish -DFINISH
#version 450
#extension GL_EXT_control_flow_attributes : require
layout(local_size_x = 128) in;
layout(std430, binding = 0) readonly buffer Native { double native[]; };
layout(std430, binding = 1) readonly buffer Turns { double turns[]; };
layout(std430, binding = 2) buffer Out { double to[]; };
//params: params
layout(push_constant) uniform Rows {
	uint beads;
	uint first, rows; // or parts of rows
	uint from_pair; // where a shader begins in its rows
	double energy; // of the native structure
};

const uint Angles = 1000, Share = 125, Span = 4, Batch = 128, Round = 8;
const uint Most = 1 << 18; // shaderPairs of the Go code

dvec3 bead(uint i) { return dvec3(native[3 * i], native[3 * i + 1], native[3 * i + 2]); }

// Products and sums by themselves, so that their order is Go's.
double along(dvec3 a, dvec3 b) {
	precise double d = a.x * b.x + a.y * b.y + a.z * b.z;
	return d;
}
dvec3 across(dvec3 a, dvec3 b) {
	precise dvec3 c = dvec3(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x);
	return c;
}

// energyOf returns the energy at an angle, from the sum of its pairs and that at angle
// zero.
double energyOf(double sum, double atZero, uint row, uint k) {
	precise double rest = energy - atZero;
	precise double all = sum + rest;
	if (row > 0) {
		precise double turn = 1.0LF - turns[k] + 0.5LF * (1.0LF - turns[3 * k % Angles]);
		all += turn;
	}
	return all;
}

#ifdef FINISH
// A group has a row.
void main() {
	uint at = gl_WorkGroupID.x * Angles;
	double atZero = to[at];
	memoryBarrierBuffer(); // before it is written
	barrier();
	for (uint k = gl_LocalInvocationID.x; k < Angles; k += 128)
		to[at + k] = energyOf(to[at + k], atZero, first + gl_WorkGroupID.x, k);
}
#else
// What two beads need to know for all angles: the parts of their squared distance,
// and their size squared. Contacts, whose size is negated, attract at any distance;
// the others repel each other up to the cutoff. A constant below zero is no pair.
shared dvec4 pairs[Batch];
shared double atZero;

void main() {
	uint row = first + gl_WorkGroupID.x, me = gl_LocalInvocationID.x, k = gl_WorkGroupID.y * Share + me;
	// Who has no angle of its own takes angle zero, which all need.
	bool own = me < Share && k < Angles;
	if (!own)
		k = 0;
	double cosine = turns[k], sine = turns[Angles + k];
	uint at = gl_WorkGroupID.x * Angles + k;
	precise double sum = 0;
#ifdef PART
	if (from_pair > 0 && own)
		sum = to[at];
#endif
	dvec3 origin = bead(row + 1), axis = origin - bead(row);
	precise double scale = 1.0LF / sqrt(along(axis, axis));
	precise dvec3 u = axis * scale;
	// Beads a up to row+1 meet beads b behind it: as many for each a, but that
	// beads too close along the chain do not count.
	uint behind = beads - row - 2, all = (row + 2) * behind;
#ifdef PART
	all = min(all, from_pair + Most);
#endif
	for (uint from = from_pair; from < all; from += Batch) {
		barrier();
		dvec4 p = dvec4(-1, 0, 0, 0);
		if (from + me < all) {
			uint a = (from + me) / behind, b = row + 2 + (from + me) % behind;
			if (b >= a + Span) {
				dvec3 va = bead(a) - origin, vb = bead(b) - origin, d = bead(a) - bead(b);
				precise double both = along(va, u) * along(vb, u);
				precise double constant = along(va, va) + along(vb, vb) - 2.0LF * both;
				precise double c = 2.0LF * (along(va, vb) - both), s = 2.0LF * along(va, across(u, vb));
				double size2 = along(d, d);
				p = dvec4(constant, c, s, size2 < 8.0LF * 8.0LF ? -size2 : 4.0LF * 4.0LF);
			}
		}
		pairs[me] = p;
		barrier();
		for (uint i = 0; i < Batch; i += Round)
			[[unroll]] for (uint j = 0; j < Round; j++) {
				dvec4 q = pairs[i + j];
				bool contact = q.w < 0.0LF;
				precise double d2 = q.x - q.y * cosine - q.z * sine;
				if (q.x >= 0.0LF && (contact || d2 < 12.0LF * 12.0LF)) {
					precise double t = abs(q.w) / d2, t2 = t * t;
					precise double e = contact ? 5.0LF * t - 6.0LF : t;
					sum += t2 * t2 * t * e;
				}
			}
	}
#ifdef PART
	if (own)
		to[at] = sum;
#else
	if (me == Share)
		atZero = sum;
	barrier();
	if (own)
		to[at] = energyOf(sum, atZero, row, k);
#endif
}
#endif
