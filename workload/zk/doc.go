// Package zk proves that a prover knows a witness of a circuit, without telling it: Groth16
// over the curve BN254, with circuits, keys and proofs of gnark. A [Prover] keeps a proving key
// on the devices of a runtime. Of each proof gnark solves the circuit on the CPU; number-theoretic
// transforms and multi-scalar multiplications are one graph of tasks over all devices. gnark's
// groth16.Verify accepts the proof.
//
// A witness is secret: the memory that a proof takes for it is cleared when the proof is made, on
// devices too (graph.Data.Secret), it is in no checkpoint, and errors do not say its values.
//
// gnark writes a log of what it compiles, solves and verifies to standard output, unless the program sets
// another with gnark's package logger. This package leaves that to the program.
//
// Files: prover.go and many.go (proofs), solve.go (solved circuits), graph.go (the tasks), kernel.go (what
// they compute), setup.go (how keys are made), key.go (keys and their files), witness.go and witnessjson.go (witnesses as JSON), circuits.go
// (circuits that are shipped), job.go (a proof as a workload).
package zk
