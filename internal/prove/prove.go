// Package prove is the service that weft serve has for proofs: circuits with their keys, which stay
// on devices, and proofs of them within limits. Proofs wait for their turn, and the one whose deadline
// is nearest is made first; those of jobs, which have none, wait no longer than a client may. Witnesses
// are secret: they are cleared after use and never logged.
package prove

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/consensys/gnark/backend/witness"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload/zk"
)

// Limits bound what clients can take.
type Limits struct {
	Constraints int           // of a circuit
	Concurrent  int           // proofs at a time
	Queue       int           // proofs of clients that may wait
	Time        time.Duration // of a proof, and of a client's request with its wait
}

// Errors of a service. Those about a witness that does not satisfy the circuit wrap ErrWitness; of one
// that is not for the circuit at all they wrap ErrInvalid too.
var (
	ErrNotFound = errors.New("no such circuit")
	ErrInvalid  = errors.New("bad request")
	ErrWitness  = zk.ErrWitness
	ErrBusy     = errors.New("too many proofs wait")
	ErrClosed   = errors.New("the server is ending")
)

// Circuit describes a circuit.
type Circuit struct {
	Name        string
	Constraints int
	Public      int // values
	Secret      int
	// ForTests says that one program made the keys, so that proofs prove nothing to others.
	ForTests bool
}

// Proof is a proof with its public values and times.
type Proof struct {
	Proof  []byte            // as gnark writes it
	Public map[string]string // values by the names of variables
	Queued time.Duration
	Took   time.Duration
}

// Stats are the figures of a circuit since the start.
type Stats struct {
	Circuit                           string
	Proved, Refused, Failed, Verified uint64
	Seconds                           float64 // that proofs took
	Waiting, Running                  int     // now
}

// circuit is a circuit with its keys, on devices.
type circuit struct {
	Circuit
	keys   *zk.Keys
	prover *zk.Prover
	stats  Stats
}

// Keys are circuits of a folder, before they are on devices.
type Keys map[string]*zk.Keys

// isName matches the names that circuits may have.
var isName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)

// ReadKeys reads the circuits of a folder, which has a folder for each, as weft zk setup makes it.
func ReadKeys(dir string, l Limits) (Keys, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("circuits: %w: weft zk setup %s makes it, with keys for tests", err, filepath.Join(dir, "NAME"))
	}
	if err != nil {
		return nil, fmt.Errorf("circuits: %w", err)
	}
	out := make(Keys)
	for _, e := range entries {
		at := filepath.Join(dir, e.Name())
		if info, err := os.Stat(at); err != nil || !info.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if !isName.MatchString(e.Name()) {
			return nil, fmt.Errorf("circuits: %s: name it by letters, digits, dots, dashes and underscores", at)
		}
		k, err := zk.ReadKeys(at, true)
		if err != nil {
			return nil, fmt.Errorf("circuits: %w", err)
		}
		if n := k.Circuit.GetNbConstraints(); n > l.Constraints {
			return nil, fmt.Errorf("circuits: %s: the circuit has %d constraints, and %d are the most: raise proofs.constraints", at, n, l.Constraints)
		}
		out[e.Name()] = k
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("circuits: %s has no folder with keys: weft zk setup %s makes one", dir, filepath.Join(dir, "NAME"))
	}
	return out, nil
}

// Service makes proofs. It is safe for concurrent use.
type Service struct {
	limits   Limits
	circuits map[string]*circuit
	ctx      context.Context // ends when proofs under way are to be cut off
	cut      context.CancelFunc

	mu      sync.Mutex
	closed  bool
	running int
	waiting []*turn
	of      map[string]int // proofs under way and waiting of each client
	under   sync.WaitGroup
}

// New puts the keys on the devices of a runtime.
func New(rt *weft.Runtime, keys Keys, l Limits) (*Service, error) {
	s := &Service{limits: l, circuits: make(map[string]*circuit), of: make(map[string]int)}
	for name, k := range keys {
		p, err := zk.NewProver(rt, k.Circuit, k.Proving)
		if err != nil {
			s.release()
			return nil, fmt.Errorf("circuit %s: %w", name, err)
		}
		s.circuits[name] = &circuit{keys: k, prover: p, stats: Stats{Circuit: name}, Circuit: Circuit{
			Name: name, Constraints: k.Circuit.GetNbConstraints(), Public: k.Circuit.GetNbPublicVariables() - 1,
			Secret: k.Circuit.GetNbSecretVariables(), ForTests: k.ForTests,
		}}
	}
	s.ctx, s.cut = context.WithCancel(context.Background())
	return s, nil
}

func (s *Service) release() {
	for _, c := range s.circuits {
		c.prover.Release()
	}
}

// Close takes no more proofs and waits for those under way. Those that are when ctx ends are cut off,
// which is an error.
func (s *Service) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	stop := context.AfterFunc(ctx, s.cut)
	s.under.Wait()
	s.cut()
	s.release()
	if !stop() {
		return errors.New("proofs under way were cut off")
	}
	return nil
}

// Circuits lists the circuits by their names.
func (s *Service) Circuits() (out []Circuit) {
	for _, name := range slices.Sorted(maps.Keys(s.circuits)) {
		out = append(out, s.circuits[name].Circuit)
	}
	return out
}

func (s *Service) find(name string) (*circuit, error) {
	if c := s.circuits[name]; c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("%w %q; there is %s", ErrNotFound, name, strings.Join(slices.Sorted(maps.Keys(s.circuits)), ", "))
}

// Circuit describes a circuit.
func (s *Service) Circuit(name string) (Circuit, error) {
	c, err := s.find(name)
	if err != nil {
		return Circuit{}, err
	}
	return c.Circuit, nil
}

// Key returns the verifying key of a circuit, as gnark writes it.
func (s *Service) Key(name string) ([]byte, error) {
	c, err := s.find(name)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	_, err = c.keys.Verifying.WriteTo(&b)
	return b.Bytes(), err
}

// Stats returns the figures of all circuits, by their names.
func (s *Service) Stats() (out []Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.circuits)) {
		out = append(out, s.circuits[name].stats)
	}
	return out
}

// Statement is a circuit with a witness for it. Whoever has one calls Forget in the end.
type Statement struct {
	c *circuit
	w witness.Witness
}

// Read reads a witness of a circuit from JSON. Of the text nothing is kept.
func (s *Service) Read(name string, text []byte) (*Statement, error) {
	c, err := s.find(name)
	if err != nil {
		return nil, err
	}
	w, err := zk.ReadWitness(c.keys.Circuit, text)
	if err != nil {
		s.count(c, err, 0)
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return &Statement{c, w}, nil
}

// Forget clears the witness.
func (q *Statement) Forget() { zk.Forget(q.w) }

// Prove proves a statement for a client when its turn has come, and has gnark verify the proof. Limits
// and deadlines are those of the service and of ctx. A client of "" is the server itself, whose proofs
// are not refused for others that wait.
func (s *Service) Prove(ctx context.Context, client string, q *Statement) (*Proof, error) {
	begun := time.Now()
	if err := s.enter(client); err != nil {
		return nil, err
	}
	defer s.leave(client)
	if client != "" { // others have their time from when they begin
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.limits.Time)
		defer cancel()
	}
	if err := s.turn(ctx, q.c); err != nil {
		s.count(q.c, err, 0)
		return nil, fmt.Errorf("circuit %s: no proof was begun: %w", q.c.Name, err)
	}
	defer s.next(q.c)
	queued := time.Since(begun)
	ctx, cancel := context.WithTimeout(ctx, s.limits.Time)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	out, err := q.c.prove(ctx, q.w)
	if err != nil && s.ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", ErrClosed, err)
	}
	took := time.Since(begun) - queued
	s.count(q.c, err, took)
	if err != nil {
		return nil, err
	}
	out.Queued, out.Took = queued, took
	return out, nil
}

// prove makes a proof and has it verified.
func (c *circuit) prove(ctx context.Context, w witness.Witness) (*Proof, error) {
	proof, err := c.prover.Prove(ctx, w)
	if errors.Is(err, ErrWitness) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("circuit %s: %w", c.Name, err)
	}
	public, err := w.Public()
	if err != nil {
		return nil, err
	}
	if err := zk.Verify(c.keys.Verifying, proof, public); err != nil {
		return nil, fmt.Errorf("circuit %s: the proof that was made is wrong: %w", c.Name, err)
	}
	out := &Proof{}
	if out.Public, err = zk.PublicValues(c.keys.Circuit, w); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	_, err = proof.WriteTo(&b)
	out.Proof = b.Bytes()
	return out, err
}

// maxProof is the most bytes of a proof without commitments, and maxCommitment of each of those: points with
// both coordinates.
const (
	maxProof      = 3*64 + 128 + 4
	maxCommitment = 64
)

// Verify has gnark verify a proof of a circuit for public values, which are JSON. It returns why the
// proof is refused, or an error where there is nothing to verify.
func (s *Service) Verify(name string, proof, public []byte) (refused, err error) {
	c, err := s.find(name)
	if err != nil {
		return nil, err
	}
	values, err := zk.ReadPublic(c.keys.Circuit, public)
	if err != nil {
		return nil, fmt.Errorf("%w: public: %w", ErrInvalid, err)
	}
	s.mu.Lock()
	c.stats.Verified++
	s.mu.Unlock()
	if n, most := len(proof), maxProof+maxCommitment*len(c.keys.Verifying.PublicAndCommitmentCommitted); n > most {
		return fmt.Errorf("zk: %w: it has %d bytes, and %d are the most", zk.ErrProof, n, most), nil
	}
	p, err := zk.ReadProof(bytes.NewReader(proof))
	if err == nil {
		err = zk.Verify(c.keys.Verifying, p, values)
	}
	return err, nil
}

// count counts how a proof ended.
func (s *Service) count(c *circuit, err error, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		c.stats.Proved++
		c.stats.Seconds += took.Seconds()
	case errors.Is(err, zk.ErrWitness):
		c.stats.Refused++
	default:
		c.stats.Failed++
	}
}
