package serve

import (
	"context"
	"errors"

	"github.com/weft-run/weft/api"
)

// Prover makes and verifies proofs of circuits for a server. It is safe for concurrent use.
type Prover interface {
	// Circuits lists the circuits by their names.
	Circuits() []api.Circuit
	// Circuit describes a circuit.
	Circuit(name string) (api.Circuit, error)
	// Key returns the verifying key of a circuit, in the bytes that clients get.
	Key(circuit string) ([]byte, error)
	// Read reads a witness of a circuit from JSON. It keeps nothing of the text.
	Read(circuit string, witness []byte) (Statement, error)
	// Verify verifies a proof of a circuit for public values, which are JSON. It returns why the proof is
	// refused, or an error where there is nothing to verify.
	Verify(circuit string, proof, public []byte) (refused, err error)
	// Stats returns the figures of all circuits, by their names.
	Stats() []ProofStats
	// Close takes no more proofs and waits for those under way. Those that are when ctx ends are cut off,
	// which is an error.
	Close(ctx context.Context) error
}

// Statement is a circuit with a witness for it, which is secret. Whoever has one calls Forget in the end.
type Statement interface {
	// Prove proves the statement for a client, and has the proof verified. A client of "" is the server
	// itself, whose proofs are not refused for others that wait.
	Prove(ctx context.Context, client string) (api.Proof, error)
	// Forget clears the witness.
	Forget()
}

// ProofStats are the figures of a circuit since the start.
type ProofStats struct {
	Circuit                           string
	Proved, Refused, Failed, Verified uint64
	Seconds                           float64 // that proofs took
	Waiting, Running                  int     // now
}

// Errors of a Prover, for errors.Is.
var (
	// ErrNotFound says that there is no circuit by the name given.
	ErrNotFound = errors.New("no such circuit")
	// ErrInvalid says that a request does not fit its circuit.
	ErrInvalid = errors.New("bad request")
	// ErrWitness says that a witness does not satisfy its circuit.
	ErrWitness = errors.New("bad witness")
	// ErrBusy refuses a proof because too many wait already.
	ErrBusy = errors.New("too many proofs wait")
	// ErrClosed says that no more proofs are made.
	ErrClosed = errors.New("the server is ending")
)
