// Runs products for NVIDIA GPUs on the host.
#include "../clifford.cu"

int main() {
	return serve(sizeof(Params), [] {
		clifford_product((float *)buffer[0], (float *)buffer[1], (u32 *)buffer[2], (float *)buffer[3], *(Params *)params);
	});
}
