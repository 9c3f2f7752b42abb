// Runs steps of PageRank for NVIDIA GPUs on the host.
#include "../network.cu"

int main() {
	return serve(sizeof(RankParams), [] {
		network_rank((u32 *)buffer[0], (u32 *)buffer[1], (u32 *)buffer[2], (double *)buffer[3], (double *)buffer[4], (double *)buffer[5], (double *)buffer[6], (double *)buffer[7], *(RankParams *)params);
	});
}
