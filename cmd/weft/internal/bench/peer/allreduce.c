/* MPI_Allreduce of float sums, timed as weft bench collective times its own:
 *
 *   mpirun -np N allreduce BYTES TIMES ROUNDS
 *
 * prints, for each round, the mean seconds of an operation over TIMES of them, that
 * of the slowest rank. It checks what it computes first. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
	MPI_Init(&argc, &argv);
	int rank, n;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &n);
	long count = argc == 4 ? atol(argv[1]) / 4 : 0;
	int times = argc == 4 ? atoi(argv[2]) : 0, rounds = argc == 4 ? atoi(argv[3]) : 0;
	float *in = malloc(4 * count + 1), *out = malloc(4 * count + 1);
	for (long i = 0; i < count; i++)
		in[i] = (float)(rank + i % 13), out[i] = 0;
	MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	for (long i = 0; i < count; i++) {
		if (out[i] != (float)(n * (n - 1) / 2 + n * (i % 13))) {
			fprintf(stderr, "element %ld is wrong\n", i);
			MPI_Abort(MPI_COMM_WORLD, 1);
		}
	}
	for (int r = 0; r < rounds; r++) {
		MPI_Barrier(MPI_COMM_WORLD);
		double began = MPI_Wtime(), took, most;
		for (int k = 0; k < times; k++)
			MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		took = (MPI_Wtime() - began) / times;
		MPI_Reduce(&took, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
		if (rank == 0)
			printf("%.9f\n", most);
	}
	MPI_Finalize();
	return 0;
}
