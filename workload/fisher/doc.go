// Package fisher computes the Fisher information matrix of a logistic regression: F = Xᵀ diag(p(1 −
// p)) X ÷ n for n points X with d features, where p is the model's probability of each. [Of] does
// so for a caller's points on the devices of a runtime.
//
// The points are cut into shards. Each shard's device adds up what its points bring, and an
// all-reduce gives every shard the sum, as an optimiser that goes on from there needs it. With
// shards of features as well (hybrid), a device has only some rows of the matrix, and the
// all-reduce is among those that have the same.
//
// How many shards there are does not depend on the devices, which have several each or one, and
// sums are added in the order of shards: so the result is the same bits on any number of devices,
// class R. A feature or a model that is not a number makes every entry that depends on it none, on
// all backends.
//
// It also computes Bregman divergences of pairs of vectors, in float64 and each pair on its own:
// class R. [Divergences] does so for a caller's vectors. Terms of close numbers are taken from
// series, so that all digits but the last few are right.
//
// Files: job.go, check.go and of.go (the information), divergence.go and divergence_check.go
// (divergences), geometry.go (closed forms).
//
// The check of a divergence is the remainder of Taylor's formula, by integration.
package fisher
