package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/serve/internal/infer"
	"github.com/weft-run/weft/serve/internal/otlp"
)

// service is the part of an infer.Service that the server uses.
type service interface {
	Infer(ctx context.Context, r *infer.Request) (*infer.Response, error)
	Models() []infer.Info
	Stats() []infer.Stats
	Model(name, version string) (infer.Info, error)
	Load(ctx context.Context, name string) error
	Unload(ctx context.Context, name string) error
	Ready() error
	Opening() bool
	Close(ctx context.Context) error
}

// extensions are those of the protocol that both HTTP and gRPC have.
var extensions = []string{"binary_tensor_data", "model_repository", "schedule_policy"}

func (s *Server) metadata(w http.ResponseWriter, _ *http.Request) error {
	extensions := slices.Clip(extensions)
	if s.config.SharedMemory {
		extensions = append(extensions, "system_shared_memory")
	}
	s.answer(w, http.StatusOK, api.ServerMetadata{Name: "weft", Version: s.version, Extensions: extensions})
	return nil
}

// isName reports whether a model or a version can be called so: by 1 to 128 letters, digits,
// dots, dashes and underscores, of which the first is no dot and no dash.
func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case c|0x20 >= 'a' && c|0x20 <= 'z', c >= '0' && c <= '9', c == '_':
		case i > 0 && (c == '.' || c == '-'):
		default:
			return false
		}
	}
	return s != "" && len(s) <= 128
}

// model returns the name and version that a path has.
func model(r *http.Request) (name, version string, err error) {
	name, version = r.PathValue("model"), r.PathValue("version")
	return name, version, named(name, version)
}

// named errs for a name or a version that no model can have.
func named(name, version string) error {
	if !isName(name) {
		return fmt.Errorf("%w: %s", infer.ErrNotFound, quoted(name))
	}
	if version != "" && !isName(version) {
		return fmt.Errorf("%w: version %s", infer.ErrNotFound, quoted(version))
	}
	return nil
}

func (s *Server) modelMetadata(w http.ResponseWriter, r *http.Request) error {
	name, version, err := model(r)
	if err != nil {
		return err
	}
	out, err := s.describe(name, version)
	if err != nil {
		return err
	}
	s.answer(w, http.StatusOK, out)
	return nil
}

// describe returns the description of a model.
func (s *Server) describe(name, version string) (api.ModelMetadata, error) {
	info, err := s.service.Model(name, version)
	if err != nil {
		return api.ModelMetadata{}, err
	}
	if info.State == infer.Failed { // nothing is known of it
		return api.ModelMetadata{}, notReady(info)
	}
	out := api.ModelMetadata{Name: info.Name, Versions: []string{}, Platform: "weft_" + info.Kind, Inputs: specs(info.Inputs), Outputs: specs(info.Outputs)}
	for _, m := range s.service.Models() {
		if m.Name == name && m.State == infer.Ready {
			out.Versions = append(out.Versions, m.Version)
		}
	}
	return out, nil
}

func specs(list []infer.Spec) []api.TensorSpec {
	out := make([]api.TensorSpec, len(list))
	for i, t := range list {
		out[i] = api.TensorSpec{Name: t.Name, Datatype: string(t.Type), Shape: append([]int64{}, t.Shape...)}
	}
	return out
}

func (s *Server) modelReady(w http.ResponseWriter, r *http.Request) error {
	name, version, err := model(r)
	if err != nil {
		return err
	}
	info, err := s.service.Model(name, version)
	if err != nil {
		return err
	}
	if info.State != infer.Ready {
		return notReady(info)
	}
	s.answer(w, http.StatusOK, map[string]any{"name": name, "ready": true})
	return nil
}

// notReady says why a model does not answer.
func notReady(m infer.Info) error {
	err := fmt.Errorf("model %s is %s: %w", m.Name, m.State, infer.ErrUnavailable)
	if m.Reason != "" {
		err = fmt.Errorf("%w: %s", err, m.Reason)
	}
	return err
}

// answers has the memory of answers that were sent, up to firstBytes each.
var answers = sync.Pool{New: func() any { return new([]byte) }}

// inferTypes are those that the body of a request for a prediction may have.
var inferTypes = []string{"application/json", "application/octet-stream", "application/vnd.sagemaker-triton.binary+json"}

// infer answers a request for a prediction.
func (s *Server) infer(w http.ResponseWriter, r *http.Request) error {
	arrived := time.Now()
	name, version, err := model(r)
	if err != nil {
		return err
	}
	header := -1
	if h := r.Header.Get(api.HeaderLength); h != "" {
		if header, err = strconv.Atoi(h); err != nil || header < 0 {
			return badf("%s is %s and not a number of bytes", api.HeaderLength, quoted(h))
		}
	}
	body, held, err := s.heldBody(w, r, int64(s.limits.Body), inferTypes)
	if err != nil {
		return err
	}
	defer held.release()
	if len(body) == 0 {
		return badf(`the body is empty: send {"inputs": [{"name": …, "shape": …, "datatype": …, "data": …}]}`)
	}
	q, err := parseHeld(body, header, held)
	if err != nil {
		return err
	}
	if q.model != "" && q.model != name || q.version != "" && version != "" && q.version != version {
		return badf("the path names model %s and the body %s: leave them out of the body", quoted(strings.TrimSpace(name+" "+version)), quoted(strings.TrimSpace(q.model+" "+q.version)))
	}
	fetched, err := s.fetch(r.Context(), q)
	if err != nil {
		return err
	}
	defer fetched()
	q.Model, q.Version, q.held = name, version, held
	asked := held.bytes
	resp, err := s.predict(r.Context(), q, arrived, r.Header.Get("Traceparent"))
	if err != nil {
		return err
	}
	// What was sent is needed no more, and the answer may take its time.
	q.Inputs, q.fewInputs = nil, [2]infer.Tensor{}
	fetched()
	held.keep(held.bytes - asked)
	if err := s.deposit(q, resp.Outputs); err != nil {
		return err
	}
	memory := answers.Get().(*[]byte)
	defer answers.Put(memory)
	out, at, err := appendResponse((*memory)[:0], q, resp)
	if errors.Is(err, api.ErrNotJSON) {
		return failure{status: http.StatusNotAcceptable, error: err}
	}
	if err != nil {
		return err
	}
	if cap(out) <= firstBytes {
		*memory = out
	}
	held.keep(int64(cap(out)))
	answerCounted(w)
	h := w.Header()
	h["Content-Type"] = asJSON
	if at >= 0 {
		h["Content-Type"] = asBytes
		h.Set(api.HeaderLength, strconv.Itoa(at))
	}
	h.Set("Content-Length", strconv.Itoa(len(out)))
	s.hurry(w)
	_, _ = w.Write(out) // a client that has gone needs no answer
	return nil
}

// predict computes a prediction for the client of a request, which is done by the end of ctx
// or by the time that the request names, within the trace of its caller.
func (s *Server) predict(ctx context.Context, q *inference, arrived time.Time, caller string) (*infer.Response, error) {
	if q.Client = clientOf(ctx); q.held != nil {
		q.Room = q
	}
	if q.timeout > 0 {
		q.Deadline = arrived.Add(time.Duration(q.timeout) * time.Microsecond)
	}
	if d, ok := ctx.Deadline(); ok && (q.Deadline.IsZero() || d.Before(q.Deadline)) {
		q.Deadline = d
	}
	return s.service.Infer(otlp.WithCaller(ctx, caller), &q.Request)
}

// states are those of the repository's index.
var states = map[infer.State]string{infer.Loading: "LOADING", infer.Ready: "READY", infer.Unloading: "UNLOADING", infer.Failed: "UNAVAILABLE", infer.Failing: "UNAVAILABLE"}

// index lists the models, or those that are ready.
func (s *Server) index(w http.ResponseWriter, r *http.Request) error {
	ready := false
	err := s.small(w, r, func(in *reader) error {
		return in.fields(map[string]func() error{"ready": func() (err error) { ready, err = in.boolean(); return err }})
	})
	if err != nil {
		return err
	}
	out := []api.ModelStatus{}
	for _, m := range s.service.Models() {
		if !ready || m.State == infer.Ready {
			out = append(out, api.ModelStatus{Name: m.Name, Version: m.Version, State: states[m.State], Reason: m.Reason})
		}
	}
	s.answer(w, http.StatusOK, out)
	return nil
}

// small reads a body that is an object or empty.
func (s *Server) small(w http.ResponseWriter, r *http.Request, read func(*reader) error) error {
	body, done, err := s.body(w, r, orderBytes, "application/json")
	if err != nil || len(body) == 0 {
		if err == nil {
			done()
		}
		return err
	}
	defer done()
	in := &reader{src: body}
	if err := read(in); err != nil {
		return badRequest{err}
	}
	if err := in.end(); err != nil {
		return badRequest{err}
	}
	return nil
}

// order is a change of the models that the server has.
func (s *Server) order(change func(ctx context.Context, name string) error) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		name, _, err := model(r)
		if err != nil {
			return err
		}
		err = s.small(w, r, func(in *reader) error {
			return in.fields(map[string]func() error{"parameters": func() error {
				return in.object(func(key string) error {
					if key != "unload_dependents" {
						return in.errorf("no parameter %s: a model is configured by its folder", quoted(key))
					}
					_, err := in.boolean()
					return err
				})
			}})
		})
		if err != nil {
			return err
		}
		if err := s.perform(r.Context(), change, name); err != nil {
			return err
		}
		s.answer(w, http.StatusOK, struct{}{})
		return nil
	}
}

// perform changes a model. A client that hangs up leaves none half loaded.
func (s *Server) perform(ctx context.Context, change func(ctx context.Context, name string) error, name string) error {
	err := change(context.WithoutCancel(ctx), name)
	if err != nil && !errors.Is(err, infer.ErrNotFound) {
		s.log.Error("a model could not be loaded or unloaded as a client asked", "client", clientOf(ctx), "model", name, "err", err)
	}
	if status, _ := statusOf(err); err != nil && status == http.StatusInternalServerError {
		return badRequest{err} // what is wrong is in the model's folder
	}
	return err
}

// alive errs if the process can answer nothing any more, so that it is best started again.
func (s *Server) alive() error {
	if s.rt == nil {
		return nil
	}
	select {
	case <-s.rt.Done():
		return busyf(http.StatusServiceUnavailable, time.Second, "the runtime has ended")
	default:
		return nil
	}
}

// ready errs if requests should go elsewhere: the server ends, a model is not ready, or no
// device takes work.
func (s *Server) ready() error {
	if err := s.alive(); err != nil {
		return err
	}
	if s.draining.Load() {
		return busyf(http.StatusServiceUnavailable, time.Second, "the server is ending")
	}
	if err := s.service.Ready(); err != nil {
		return busyf(http.StatusServiceUnavailable, time.Second, "%w", err)
	}
	if s.rt == nil {
		return nil
	}
	var states []string
	for _, d := range s.rt.Devices() {
		if d.State == "healthy" {
			return nil
		}
		states = append(states, d.Name+" is "+d.State)
	}
	return busyf(http.StatusServiceUnavailable, time.Second, "no device takes work: %s", strings.Join(states, ", "))
}

// probe answers with whether a check succeeds, and to those who may know with why not.
func (s *Server) probe(check func() error) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := check(); err != nil {
			if clientOf(r.Context()) == anonymous {
				err = busyf(http.StatusServiceUnavailable, time.Second, "not ready; ask with a token for the reason")
			}
			return err
		}
		s.answer(w, http.StatusOK, map[string]string{"status": "ok"})
		return nil
	}
}
