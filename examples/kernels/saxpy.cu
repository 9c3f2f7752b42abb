//params: params
struct Params {
	unsigned n; // elements
	float k;
};

extern "C" __global__ void saxpy(const float *x, float *y, Params p) {
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < p.n)
		y[i] += p.k * x[i];
}
