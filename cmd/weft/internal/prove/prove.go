// Package prove is the serve.Prover of weft serve: circuits with their keys, which stay
// on devices, and proofs of them within limits. Proofs wait for their turn, and the one whose deadline
// is nearest is made first; those of jobs, which have none, wait no longer than a client may. Witnesses
// are secret: they are cleared after use and never logged.
//
// Proofs wait for their turn in the order of their deadlines, so that the few at work have the memory.
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
	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/serve"
	"github.com/weft-run/weft/workload/zk"
)

// circuit is a circuit with its keys, on devices.
type circuit struct {
	api.Circuit
	keys   *zk.Keys
	prover *zk.Prover
	stats  serve.ProofStats
}

// Keys are circuits of a folder, before they are on devices.
type Keys map[string]*zk.Keys

// isName matches the names that circuits may have.
var isName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)

// ReadKeys reads the circuits of a folder, which has a folder for each, as weft zk setup makes it.
func ReadKeys(dir string, l serve.Proofs) (Keys, error) {
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
	limits   serve.Proofs
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
func New(rt *weft.Runtime, keys Keys, l serve.Proofs) (*Service, error) {
	s := &Service{limits: l, circuits: make(map[string]*circuit), of: make(map[string]int)}
	for name, k := range keys {
		p, err := zk.NewProver(rt, k.Circuit, k.Proving)
		if err != nil {
			s.release()
			return nil, fmt.Errorf("circuit %s: %w", name, err)
		}
		s.circuits[name] = &circuit{keys: k, prover: p, stats: serve.ProofStats{Circuit: name}, Circuit: api.Circuit{
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
func (s *Service) Circuits() (out []api.Circuit) {
	for _, name := range slices.Sorted(maps.Keys(s.circuits)) {
		out = append(out, s.circuits[name].Circuit)
	}
	return out
}

func (s *Service) find(name string) (*circuit, error) {
	if c := s.circuits[name]; c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("%w %q; there is %s", serve.ErrNotFound, name, strings.Join(slices.Sorted(maps.Keys(s.circuits)), ", "))
}

// Circuit describes a circuit.
func (s *Service) Circuit(name string) (api.Circuit, error) {
	c, err := s.find(name)
	if err != nil {
		return api.Circuit{}, err
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
func (s *Service) Stats() (out []serve.ProofStats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.circuits)) {
		out = append(out, s.circuits[name].stats)
	}
	return out
}

// statement is a circuit with a witness for it.
type statement struct {
	s *Service
	c *circuit
	w witness.Witness
}

// Read reads a witness of a circuit from JSON. Of the text nothing is kept.
func (s *Service) Read(name string, text []byte) (serve.Statement, error) {
	c, err := s.find(name)
	if err != nil {
		return nil, err
	}
	w, err := zk.ReadWitness(c.keys.Circuit, text)
	if err != nil {
		s.count(c, err, 0)
		return nil, fmt.Errorf("%w: %w", serve.ErrInvalid, err)
	}
	return &statement{s, c, w}, nil
}

// Forget clears the witness.
func (q *statement) Forget() { zk.Forget(q.w) }

// Prove proves a statement for a client when its turn has come, and has gnark verify the proof. Limits
// and deadlines are those of the service and of ctx.
func (q *statement) Prove(ctx context.Context, client string) (out api.Proof, err error) {
	s := q.s
	begun := time.Now()
	if err := s.enter(client); err != nil {
		return out, err
	}
	defer s.leave(client)
	if client != "" { // others have their time from when they begin
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(s.limits.Time))
		defer cancel()
	}
	if err := s.turn(ctx, q.c); err != nil {
		s.count(q.c, err, 0)
		return out, fmt.Errorf("circuit %s: no proof was begun: %w", q.c.Name, err)
	}
	defer s.next(q.c)
	queued := time.Since(begun)
	ctx, cancel := context.WithTimeout(ctx, time.Duration(s.limits.Time))
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	proof, public, err := q.c.prove(ctx, q.w)
	if err != nil && s.ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", serve.ErrClosed, err)
	}
	took := time.Since(begun) - queued
	s.count(q.c, err, took)
	if err != nil {
		return out, err
	}
	c := &q.c.Circuit
	return api.Proof{
		Circuit: c.Name, Proof: proof, Public: public, Constraints: c.Constraints, ForTests: c.ForTests,
		Queued: queued.Seconds(), Took: took.Seconds(),
	}, nil
}

// unsatisfied is the error of package zk about a witness that does not satisfy its circuit, which a server knows
// as serve.ErrWitness.
type unsatisfied struct{ error }

func (u unsatisfied) Is(target error) bool { return target == serve.ErrWitness }
func (u unsatisfied) Unwrap() error        { return u.error }

// prove makes a proof, as gnark writes it, and has it verified. public are values by the names of variables.
func (c *circuit) prove(ctx context.Context, w witness.Witness) (text []byte, public map[string]string, err error) {
	proof, err := c.prover.Prove(ctx, w)
	if errors.Is(err, zk.ErrWitness) {
		return nil, nil, unsatisfied{err}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("circuit %s: %w", c.Name, err)
	}
	values, err := w.Public()
	if err != nil {
		return nil, nil, err
	}
	if err := zk.Verify(c.keys.Verifying, proof, values); err != nil {
		return nil, nil, fmt.Errorf("circuit %s: the proof that was made is wrong: %w", c.Name, err)
	}
	if public, err = zk.PublicValues(c.keys.Circuit, w); err != nil {
		return nil, nil, err
	}
	var b bytes.Buffer
	_, err = proof.WriteTo(&b)
	return b.Bytes(), public, err
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
		return nil, fmt.Errorf("%w: public: %w", serve.ErrInvalid, err)
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
