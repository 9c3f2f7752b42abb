// Blurs images with a filter, a block to a row. What lies outside of an image is black.
//params: graph.Conv2D
struct Params {
	unsigned n, c, h, w; // images, and their channels, rows and columns
	unsigned k, r, s; // filters, and their rows and columns
	unsigned stride, pad; // from one result to the next, and zeros on each side of an image
};

extern "C" __global__ void blur(const float *image, const float *weight, float *smoothed, Params p) {
	int w = p.w, h = p.h, pad = p.pad, row = blockIdx.x, first = blockIdx.z * h * w;
	for (int column = threadIdx.x; column < w; column += blockDim.x) {
		float sum = 0;
		for (int i = 0; i < (int)p.r; i++)
			for (int j = 0; j < (int)p.s; j++) {
				int y = row + i - pad, x = column + j - pad;
				if (y >= 0 && y < h && x >= 0 && x < w)
					sum += image[first + y * w + x] * weight[i * (int)p.s + j];
			}
		smoothed[first + row * w + column] = sum;
	}
}
