// Package phase computes the phase states of a protein as the project defines them that they come
// from (PRCT of ARES-51): an N × N matrix of complex numbers from the C-alpha atoms of N residues.
// They are a well-defined computation with a product of N³ operations. No physical claim is made of
// them.
//
//	Ψᵢⱼ(t) = αᵢⱼ exp(i(ωᵢⱼ t + φᵢⱼ)) χᵢⱼ τᵢⱼ, Ψᵢᵢ = 1
//
// With d the distance of two residues in angstrom, s how far apart they are in the chain, and t the
// time in picoseconds:
//
//   - ω = 2π ln(1 + d/3.8)
//   - E = 332.0636 exp(-d/10)/d + 2((3.8/d)¹² - (3.8/d)⁶), and for d from 2.5 to 3.5 also
//     2(5(2.9/d)¹² - 6(2.9/d)¹⁰)
//   - α = |E| |cos(ωt)| exp(-d/10 - |E|/(0.001987·300)), scaled so that the sum of α² is 1
//   - ψᵢⱼ = r(1 + i sin(2πs/N + d/38)), r = exp(-d/3.8)/(1+s), ψᵢᵢ = 1, every row scaled to length 1;
//     beyond 2622 Å r is zero
//   - φ = arg(Σₖ conj(ψᵢₖ) ψⱼₖ) + πs/d
//   - χ is 1.2 for a pair with glycine, else 0.8 with proline, 1.1 for two alanines, 0.9 for two
//     valines, isoleucines or leucines, 1.3 for glutamate with lysine and aspartate with arginine
//   - τ is 1.2, 1.0 or 0.8 by the cosine c of the angle between the planes of residues i, i+1, j
//     and i+1, j, j+1: above 0.5, between, below -0.5; 1.2 where there is no plane and 1 at the
//     end of the chain
//
// Rows of ψ and of the factors beside the phase of the product are made first. The rows of ψ then
// go to all devices, which multiply those of theirs with all of them. Every number is made on one
// device in one order: the result is the same bits on any number of devices, class R. All is
// float64: α is as small as 10⁻⁴⁰ for neighbours in the chain.
//
// Files: job.go (configuration and graph), kernel.go (its kernels), check.go, of.go (the call).
//
// The phase of a complex number is the number over its size: no kernel computes an angle from it.
package phase
