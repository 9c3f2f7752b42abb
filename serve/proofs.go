package serve

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weft-run/weft/api"
)

// Proofs bound proofs.
type Proofs struct {
	Constraints int      `yaml:"constraints"` // of a circuit
	Witness     Size     `yaml:"witness"`     // bytes of a request with a witness
	Batch       int      `yaml:"batch"`       // witnesses of a job
	Concurrent  int      `yaml:"concurrent"`  // proofs at a time
	Queue       int      `yaml:"queue"`       // requests for proofs that may wait, beside those at work
	Time        Duration `yaml:"time"`        // for a proof, and of a request with the wait for it
}

// proofRoutes are those of circuits and proofs.
func (s *Server) proofRoutes() []route {
	const get, post = http.MethodGet, http.MethodPost
	return []route{
		{get, "/v1/circuits", s.listCircuits},
		{get, "/v1/circuits/{circuit}", s.ofCircuit(s.getCircuit)},
		{get, "/v1/circuits/{circuit}/key", s.ofCircuit(s.circuitKey)},
		{post, "/v1/circuits/{circuit}/prove", s.ofCircuit(s.prove)},
		{post, "/v1/circuits/{circuit}/verify", s.ofCircuit(s.verify)},
		{post, "/v1/circuits/{circuit}/jobs", s.ofCircuit(s.submitProofs)},
	}
}

// ofCircuit finds the circuit that a path names.
func (s *Server) ofCircuit(h func(w http.ResponseWriter, r *http.Request, c api.Circuit) error) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		name := r.PathValue("circuit")
		if s.proofs == nil {
			return failf(http.StatusNotFound, "this server has no circuits: weft serve --circuits FOLDER has")
		}
		if !isName(name) {
			return failf(http.StatusNotFound, "no circuit is called %s; GET /v1/circuits lists those there are", quoted(name))
		}
		c, err := s.proofs.Circuit(name)
		if err != nil {
			return unproved(err)
		}
		return h(w, r, c)
	}
}

// unproved gives an error of the service its status.
func unproved(err error) error {
	status, after := http.StatusInternalServerError, time.Duration(0)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrNotFound):
		status = http.StatusNotFound
	case errors.Is(err, ErrInvalid):
		status = http.StatusBadRequest
	case errors.Is(err, ErrWitness):
		status = http.StatusUnprocessableEntity
	case errors.Is(err, ErrBusy):
		status, after = http.StatusServiceUnavailable, time.Second
	case errors.Is(err, ErrClosed):
		status, after = http.StatusServiceUnavailable, 5*time.Second
	case errors.Is(err, context.DeadlineExceeded):
		return failf(http.StatusGatewayTimeout, "no proof was made in time: send a longer timeout_ms, or raise proofs.time")
	}
	return failure{status, after, err}
}

func (s *Server) listCircuits(w http.ResponseWriter, _ *http.Request) error {
	out := []api.Circuit{}
	if s.proofs != nil {
		out = append(out, s.proofs.Circuits()...)
	}
	s.answer(w, http.StatusOK, map[string][]api.Circuit{"circuits": out})
	return nil
}

func (s *Server) getCircuit(w http.ResponseWriter, _ *http.Request, c api.Circuit) error {
	s.answer(w, http.StatusOK, c)
	return nil
}

func (s *Server) circuitKey(w http.ResponseWriter, _ *http.Request, c api.Circuit) error {
	key, err := s.proofs.Key(c.Name)
	if err != nil {
		return unproved(err)
	}
	w.Header()["Content-Type"] = asBytes
	s.hurry(w)
	_, _ = w.Write(key) // a client that has gone needs no answer
	return nil
}

// readBytes is the memory in bytes that reading a value of a witness takes: the value, its name and its place in a
// table. keepBytes is that of the value itself, which stays until the proof is made.
const (
	readBytes = 128
	keepBytes = 32
)

// secretBody reads a body with witnesses, and reserves memory for reading one of them. When the caller
// releases it, all memory that the body was in is cleared.
func (s *Server) secretBody(w http.ResponseWriter, r *http.Request, c api.Circuit) ([]byte, *hold, error) {
	if s.draining.Load() {
		return nil, nil, unproved(ErrClosed)
	}
	h := s.hold(r.Context())
	h.secret = true
	b, err := s.bodyInto(h, w, r, int64(s.config.Proofs.Witness), []string{"application/json"})
	if err == nil {
		err = h.take(readBytes * int64(c.Public+c.Secret))
	}
	if err != nil {
		h.release()
		return nil, nil, err
	}
	return b, h, nil
}

// maxTimeout is the longest timeout of a request, in milliseconds.
const maxTimeout = 24 * 60 * 60 * 1000

// prove answers with a proof.
func (s *Server) prove(w http.ResponseWriter, r *http.Request, c api.Circuit) error {
	ctx := r.Context()
	arrived := time.Now()
	body, held, err := s.secretBody(w, r, c)
	if err != nil {
		return err
	}
	defer held.release()
	in := &reader{src: body}
	var text []byte
	timeout := int64(0)
	err = in.fields(map[string]func() error{
		"witness":    func() (err error) { text, err = in.raw(); return err },
		"timeout_ms": func() (err error) { timeout, err = in.integer(1, maxTimeout); return err },
	})
	if err == nil {
		err = in.end()
	}
	if err == nil && text == nil {
		err = errors.New(`there is no witness: send {"witness": {"NAME": VALUE, …}}`)
	}
	if err != nil {
		return badRequest{err}
	}
	q, err := s.proofs.Read(c.Name, text)
	if err != nil {
		return unproved(err)
	}
	defer q.Forget()
	clear(body) // it is needed no more, and a proof may take long
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, arrived.Add(time.Duration(timeout)*time.Millisecond))
		defer cancel()
	}
	// A proof takes longer than an answer may.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ending, cancel)()
	p, err := q.Prove(ctx, cmp.Or(clientOf(ctx), "?"))
	if errors.Is(err, context.Canceled) && s.ending.Err() != nil {
		err = ErrClosed
	}
	if err != nil {
		return unproved(err)
	}
	s.answer(w, http.StatusOK, p)
	return nil
}

// verify answers whether a proof proves the circuit for public values.
func (s *Server) verify(w http.ResponseWriter, r *http.Request, c api.Circuit) error {
	body, held, err := s.secretBody(w, r, c)
	if err != nil {
		return err
	}
	defer held.release()
	in := &reader{src: body}
	var proof, public []byte
	err = in.fields(map[string]func() error{
		"proof": func() error {
			text, err := in.string()
			if err == nil {
				if proof, err = base64.StdEncoding.DecodeString(text); err != nil {
					err = in.errorf("the proof is not in base64")
				}
			}
			return err
		},
		"public": func() (err error) { public, err = in.raw(); return err },
	})
	if err == nil {
		err = in.end()
	}
	if err == nil && (proof == nil || public == nil) {
		err = errors.New(`send {"proof": "…", "public": {"NAME": VALUE, …}}, as the server answers with a proof`)
	}
	if err != nil {
		return badRequest{err}
	}
	refused, err := s.proofs.Verify(c.Name, proof, public)
	if err != nil {
		return unproved(err)
	}
	out := api.Verdict{Valid: refused == nil}
	if refused != nil {
		out.Reason = refused.Error()
	}
	s.answer(w, http.StatusOK, out)
	return nil
}

// proofJob is the workload that jobs of proofs have. It is not one of POST /v1/jobs.
const proofJob = "prove"

// errProofJob is the error for a job of proofs that came without witnesses.
var errProofJob = failf(http.StatusBadRequest, "proofs are submitted to /v1/circuits/CIRCUIT/jobs, and their witnesses are kept in memory alone: submit it there again")

// publicBytes is about the size in bytes of a public value with its name in a result: a value has up to 77 digits.
const publicBytes = 128

// submitProofs begins a job that proves a list of witnesses.
func (s *Server) submitProofs(w http.ResponseWriter, r *http.Request, c api.Circuit) error {
	key := r.Header.Get("Idempotency-Key")
	if len(key) > maxKey {
		return badf("Idempotency-Key has more than %d bytes", maxKey)
	}
	if key != "" {
		key = clientOf(r.Context()) + "\n" + key
	}
	body, held, err := s.secretBody(w, r, c)
	if err != nil {
		return err
	}
	defer held.release()
	texts, err := s.readBatch(body)
	if err != nil {
		return err
	}
	if n := int64(len(texts)) * publicBytes * int64(c.Public+4); n > maxRecord/2 {
		return badf("the proofs of %d witnesses with %d public values take too much memory: send fewer in one job", len(texts), c.Public)
	}
	kept := s.hold(r.Context())
	if n := keepBytes * int64(len(texts)) * int64(c.Public+c.Secret); n > s.mostOfOne() {
		return failf(http.StatusRequestEntityTooLarge, "the witnesses take %d bytes of memory, and %d are the most: send fewer in one job, or raise limits.bodies", n, s.mostOfOne())
	} else if err := kept.take(n); err != nil {
		kept.release()
		return err
	}
	var all []Statement
	forget := sync.OnceFunc(func() {
		for _, q := range all {
			q.Forget()
		}
		kept.release()
	})
	for i, text := range texts {
		q, err := s.proofs.Read(c.Name, text)
		if err != nil {
			forget()
			return unproved(fmt.Errorf("witness %d: %w", i, err))
		}
		all = append(all, q)
	}
	// The hash is kept with the job, and must not tell of witnesses.
	mac := hmac.New(sha256.New, s.macKey)
	mac.Write(body)
	clear(body)
	request := api.JobRequest{Workload: proofJob, Parameters: map[string]any{"circuit": c.Name, "proofs": json.Number(fmt.Sprint(len(all)))}, Repeat: 1}
	j, fresh, err := s.jobs.submit(request, s.proveAll(c, all), key, mac.Sum(nil), forget)
	if err != nil || !fresh {
		forget()
	}
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/jobs/"+j.ID)
	status := http.StatusOK
	if fresh {
		status = http.StatusCreated
	}
	s.answer(w, status, j)
	return nil
}

// readBatch reads the witnesses of a job, as they are written.
func (s *Server) readBatch(body []byte) (texts [][]byte, err error) {
	in := &reader{src: body}
	err = in.fields(map[string]func() error{"witnesses": func() error {
		return in.array(func() error {
			if len(texts) == s.config.Proofs.Batch {
				return in.errorf("more than %d witnesses: send more jobs, or raise proofs.batch", s.config.Proofs.Batch)
			}
			text, err := in.raw()
			texts = append(texts, text)
			return err
		})
	}})
	if err == nil {
		err = in.end()
	}
	if err == nil && len(texts) == 0 {
		err = errors.New(`there are no witnesses: send {"witnesses": [{"NAME": VALUE, …}, …]}`)
	}
	if err != nil {
		return nil, badRequest{err}
	}
	return texts, nil
}

// proveAll returns what proves statements as a job, as many at a time as the server makes proofs. One
// that fails leaves the others alone.
func (s *Server) proveAll(c api.Circuit, all []Statement) task {
	return func(ctx context.Context, tell func(api.JobProgress)) (*api.JobResult, error) {
		begun := time.Now()
		out := &api.JobResult{
			Job: fmt.Sprintf("%d proofs of circuit %s, %d constraints each", len(all), c.Name, c.Constraints), Class: "X",
			Devices: []api.JobDevice{}, Runs: []api.JobRun{}, Proofs: make([]api.JobProof, len(all)), Checked: true,
		}
		var next, done, well atomic.Int64
		var workers sync.WaitGroup
		for range min(len(all), s.config.Proofs.Concurrent) {
			workers.Go(func() {
				for i := int(next.Add(1)) - 1; i < len(all) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
					p, err := all[i].Prove(ctx, "")
					all[i].Forget()
					if err != nil {
						out.Proofs[i].Error = err.Error()
					} else {
						well.Add(1)
						out.Proofs[i] = api.JobProof{Proof: p.Proof, Public: p.Public, Took: p.Took}
					}
					n := int(done.Add(1))
					left := time.Since(begun).Seconds() / float64(n) * float64(len(all)-n)
					tell(api.JobProgress{Runs: n, Part: float64(n) / float64(len(all)), Left: left})
				}
			})
		}
		workers.Wait()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		took := time.Since(begun).Seconds()
		out.Result = fmt.Sprintf("%d of %d were proved", well.Load(), len(all))
		out.Runs = append(out.Runs, api.JobRun{Seconds: took, Rate: fmt.Sprintf("%.3g proofs/s", float64(len(all))/took)})
		return out, nil
	}
}

// newKey draws a key of hashes.
func newKey() []byte {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // it never fails
	return key
}
