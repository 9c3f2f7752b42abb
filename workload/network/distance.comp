// Distances of nodes, their closeness and medoids: a group has a row of distances.
//: network_distances -DDISTANCES
//: network_paths -DPATHS
//: network_closeness -DCLOSENESS
//: network_assign -DASSIGN
//: network_spread -DSPREAD
//: network_medoids -DMEDOIDS
#version 450
layout(local_size_x = 64) in;
const uint Threads = 64;
uint me = gl_LocalInvocationID.x, group = gl_WorkGroupID.x;
//params: distanceParams
layout(push_constant) uniform Params {
	uint all; // nodes
	uint first; // node of this task
	uint rows; // nodes of this task
	uint k; // medoids
	float far;
};

#ifdef DISTANCES
layout(std430, binding = 0) readonly buffer Points { float points[]; };
layout(std430, binding = 1) writeonly buffer Distances { float distances[]; };

void main() {
	uint own = 3 * (first + group);
	for (uint j = me; j < all; j += Threads) {
		precise float x = points[3 * j] - points[own], y = points[3 * j + 1] - points[own + 1], z = points[3 * j + 2] - points[own + 2];
		precise float d = x * x + y * y + z * z;
		distances[group * all + j] = sqrt(d);
	}
}
#endif

#ifdef PATHS
layout(std430, binding = 0) readonly buffer Starts { uint starts[]; };
layout(std430, binding = 1) readonly buffer Columns { uint columns[]; };
layout(std430, binding = 2) coherent buffer Distances { float distances[]; };
shared bool reached;

void main() {
	uint row = group * all;
	for (uint j = me; j < all; j += Threads)
		distances[row + j] = j == first + group ? 0.0 : float(all);
	for (uint level = 0; level < all; level++) {
		memoryBarrierBuffer();
		barrier();
		if (me == 0)
			reached = false;
		barrier();
		for (uint j = me; j < all; j += Threads) {
			if (distances[row + j] != float(level))
				continue;
			for (uint e = starts[j]; e < starts[j + 1]; e++) {
				uint at = row + columns[e];
				if (distances[at] == float(all)) { // others may write the same
					distances[at] = float(level + 1);
					reached = true;
				}
			}
		}
		barrier();
		if (!reached)
			break;
	}
}
#endif

#if defined(CLOSENESS) || defined(SPREAD)
shared float parts[Threads];

// total adds up what the invocations of a group have.
float total(float mine) {
	barrier();
	parts[me] = mine;
	barrier();
	for (uint by = Threads / 2; by > 0; by /= 2) {
		if (me < by)
			parts[me] += parts[me + by];
		barrier();
	}
	return parts[0];
}
#endif

#ifdef CLOSENESS
layout(std430, binding = 0) readonly buffer Distances { float distances[]; };
layout(std430, binding = 1) writeonly buffer Closeness { float closeness[]; };

void main() {
	precise float sum = 0;
	float count = 0;
	for (uint j = me; j < all; j += Threads) {
		float d = distances[group * all + j];
		if (!(d >= far)) {
			sum += d;
			count++;
		}
	}
	sum = total(sum);
	count = total(count) - 1; // without itself
	if (me == 0)
		closeness[group] = count < 1 || sum == 0 ? 0 : (count / sum) * (count / float(all - 1));
}
#endif

#ifdef ASSIGN
layout(std430, binding = 0) readonly buffer Medoids { uint medoids[]; };
layout(std430, binding = 1) readonly buffer Distances { float distances[]; };
layout(std430, binding = 2) writeonly buffer Labels { uint labels[]; };

void main() {
	uint i = gl_GlobalInvocationID.x, best = 0;
	if (i >= rows)
		return;
	float least = uintBitsToFloat(0x7f800000u);
	for (uint m = 0; m < k; m++) {
		float d = distances[i * all + medoids[m]];
		if (d < least) {
			least = d;
			best = m;
		}
	}
	labels[i] = best;
}
#endif

#ifdef SPREAD
layout(std430, binding = 0) readonly buffer Labels { uint labels[]; };
layout(std430, binding = 1) readonly buffer Distances { float distances[]; };
layout(std430, binding = 2) writeonly buffer Sums { float sums[]; };

void main() {
	uint own = labels[first + group];
	precise float sum = 0;
	for (uint j = me; j < all; j += Threads) {
		if (labels[j] == own)
			sum += distances[group * all + j];
	}
	sum = total(sum);
	if (me == 0)
		sums[group] = sum;
}
#endif

#ifdef MEDOIDS
layout(std430, binding = 0) readonly buffer Labels { uint labels[]; };
layout(std430, binding = 1) readonly buffer Sums { float sums[]; };
layout(std430, binding = 2) readonly buffer Before { uint before[]; };
layout(std430, binding = 3) writeonly buffer Medoids { uint medoids[]; };
shared float least[Threads];
shared uint at[Threads];

void main() {
	float best = uintBitsToFloat(0x7f800000u);
	uint node = ~0u; // none
	for (uint i = me; i < all; i += Threads) {
		if (labels[i] == group && sums[i] < best) {
			best = sums[i];
			node = i;
		}
	}
	least[me] = best;
	at[me] = node;
	barrier();
	if (me > 0)
		return;
	for (uint t = 1; t < Threads; t++) {
		if (least[t] < best || least[t] == best && at[t] < node) {
			best = least[t];
			node = at[t];
		}
	}
	medoids[group] = node == ~0u ? before[group] : node;
}
#endif
