// Runs steps of ntt.cu on the host. Of each it reads a header, the parameters and the buffers,
// and writes the second buffer.
#include "../../field/testdata/blocks.h"
#include "../ntt.cu"

struct Header {
	u32 kernel, x, y, threads, params, buffers;
	u64 bytes[3];
};

static Fr *buffer[3];
static PassParams pass;
static MoveParams move;

int main() {
	Header h;
	while (fread(&h, sizeof h, 1, stdin) == 1) {
		void *params = read_all(h.params);
		if (h.buffers > 3 || h.params != (h.kernel == 0 ? sizeof pass : sizeof move))
			return 2;
		for (u32 i = 0; i < h.buffers; i++)
			buffer[i] = (Fr *)read_all(h.bytes[i]);
		if (h.kernel == 0) {
			pass = *(PassParams *)params;
			run_blocks(h.x, h.y, h.threads, [] { ntt_pass(buffer[0], buffer[1], buffer[2], pass); });
		} else {
			move = *(MoveParams *)params;
			run_blocks(h.x, h.y, h.threads, [] { ntt_move(buffer[0], buffer[1], move); });
		}
		if (fwrite(buffer[1], 1, h.bytes[1], stdout) != h.bytes[1] || fflush(stdout))
			return 3;
		for (u32 i = 0; i < h.buffers; i++)
			free(buffer[i]);
		free(params);
	}
	return 0;
}
