// Package relativity computes four kinds of particle systems, in units where the gravitational
// constant and the speed of light are one.
//
// Orbits of test particles around a black hole of mass one (Schwarzschild), in float64 and proper
// time τ:
//
//	r″ = −1/r² + L²/r³ − 3L²/r⁴    φ′ = L/r²
//
// by the method of Runge and Kutta of order four with a fixed step, or with one that is halved and
// doubled to keep an error. An orbit ends at a periapsis, which is found to the last digits, and
// one that falls in is reported as such. The energy E² = r′² + (1 − 2/r)(1 + L²/r²) is conserved
// but for the error of the method, which each orbit states; the angular momentum L = r²φ′ is a
// constant of these equations, so that its drift is none.
//
// Rays of light that pass the black hole with an impact parameter b, or are captured if that is
// below 3√3, in float64 and the angle φ, with u for b/r:
//
//	d²u/dφ² = 3u²/b − u
//
// by the same method with a fixed step. A ray ends far away, at an angle that is found to the last
// digits.
//
// Boosts, which are Lorentz transformations of events into frames that move, with the Minkowski
// products of pairs of events, in float64.
//
// Bodies that attract one another (Newton), in float32, all pairs of them at every step. After each
// step every device has the positions of all bodies, 12 bytes each: an all-gather, which the
// runtime does as it copies what the next tasks read.
//
// A particle is computed in one order of operations wherever it is: class R. What is not a number
// makes all that depends on it none.
//
// Files: config.go (problems), orbits.go, light.go, boosts.go, bodies.go (a job each), check.go and
// light_check.go (references), call.go (calls), wide_amd64.s (bodies, eight at a time).
//
// The check of light compares with elliptic integrals, and rays that are captured with an integral
// up to their last radius. The check of bodies follows each step in float64.
package relativity
