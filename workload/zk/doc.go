// Package zk proves that a prover knows a witness of a circuit, without telling it: Groth16 over
// the curve BN254, with circuits, keys and proofs of gnark. A [Prover] keeps a proving key on the
// devices of a runtime. Of each proof gnark solves the circuit on the CPU; number-theoretic
// transforms and multi-scalar multiplications are one graph of tasks over all devices. gnark's
// groth16.Verify accepts the proof.
//
// A witness is secret: the memory that a proof takes for it is cleared when the proof is made, on
// devices too (graph.Data.Secret), it is in no checkpoint, and errors do not say its values.
//
// gnark writes a log of what it compiles, solves and verifies to standard output, unless the
// program sets another with gnark's package logger. This package leaves that to the program.
//
// Files: prover.go and many.go (proofs), solve.go (solved circuits), graph.go (the tasks),
// kernel.go (what they compute), setup.go (how keys are made), key.go (keys and their files),
// witness.go and witnessjson.go (witnesses as JSON), circuits.go (circuits that are shipped),
// job.go (a proof as a workload).
//
// # The graph of a proof
//
// A task for each of a, b and c takes its values from the roots of unity to their coset, one
// computes the quotient (ab − c) ÷ (xᴺ − 1), and each of the five sums of points times scalars (A,
// B in G1, B in G2, K, Z) has a task for each range. Only Z needs the quotient, so that the others
// fill devices meanwhile. The key is resident, with Z in the natural order, since transforms on
// GPUs keep it. On cores transforms are those of gnark-crypto; on GPUs they are passes of package
// ntt whose last tables also divide. The few partial sums come home and are added up there with r
// and s, which devices never see.
//
// Where all devices compute in host memory, what transforms make is bound to memory of the prover,
// which clears it. Device memory of a witness is overwritten when it is freed.
//
// A proof whose deadline is within ten seconds has tasks of higher priority, by a step for each 100
// ms that it is nearer. If all devices are lost that the rule chose, the graph is made again for
// all devices.
package zk
