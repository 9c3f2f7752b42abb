// Package msm adds up multiples of points of the curve BN254, s₁P₁ + s₂P₂ + …: multi-scalar
// multiplication, over its groups G1 and G2. Most of the time that a proof takes is spent here.
// [G1] and [G2] take a caller's points and scalars, as gnark-crypto has them:
//
//	rt, err := weft.Open(ctx, weft.Options{Funcs: msm.Funcs()})
//	...
//	sum, err := msm.G1(ctx, rt, points, scalars)
//
// The points of a key, which many sums have in common, are sent to devices once by [Put]. The
// devices share a sum by ranges of points; each adds up its range, and the few sums of ranges are
// added on the host. The result is a point of a finite group in affine coordinates, so its bytes
// are the same for every cut and on every kind of device: class X.
//
// Devices share ranges of points rather than windows of the scalars: with many devices one window
// more or less is a coarse share, each device would need all points, and on two cores both cuts
// take the same time.
//
// Files: msm.go (calls), bases.go (resident points), job.go (the job), sum.go (the tasks of a sum
// in any graph), kernel.go (kernels for CPUs), gpu.go (steps for GPUs, whose kernels are in
// curve.cuh and msm.cu, curve.glsl and msm.comp), draw.go (points that are drawn), check.go and
// naive.go (references).
//
// GPUs sort points by bucket, and a thread adds up a segment of the sorted list. Few points take a
// GPU as long as what is done one after another: 254 doublings above all. Resident points of up to
// 2¹⁷ therefore have up to 16 multiples each beside them, P, 2ˢP, 2²ˢP and so on, where a GPU has
// room: digits that are a multiple of s bits apart share buckets, and one sixteenth of the
// doublings is left. The number of multiples and the width of windows are chosen for the least
// predicted time (gpuTime).
package msm
