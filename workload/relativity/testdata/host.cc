// Runs steps of bodies for NVIDIA GPUs on the host.
#include "../relativity.cu"

int main() {
	return serve(sizeof(BodyParams), [] {
		relativity_bodies((float *)buffer[0], (float *)buffer[1], (float *)buffer[2], (float *)buffer[3], (float *)buffer[4], *(BodyParams *)params);
	});
}
