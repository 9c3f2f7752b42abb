package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/catalog"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/workload"
)

const (
	maxRepeat     = 10_000
	maxParameters = 64
	// parameterBytes is the most bytes of the parameters of a job, which lists of jobs and events have
	// as often as they are asked for.
	parameterBytes = 4 << 10
	// structureBytes is the most bytes of a structure that comes with a job. With all atoms it has some 10,000
	// residues, and with C-alpha atoms alone more than any workload takes.
	structureBytes = 8 << 20
	// jobBytes is the most bytes of the body of a job: in JSON a line of a structure takes a byte more, and the shortest
	// of an atom have 25.
	jobBytes = orderBytes + structureBytes + structureBytes/8
)

// readMemory is the memory in bytes that reading a structure takes for each byte of its text, 17.4 of which were measured
// for lines of C-alpha atoms alone in mmCIF, and structureMemory what stays until the job has ended: the text and residues, 3.3.
const (
	readMemory      = 18
	structureMemory = 4
)

// readJob reads what a job is to do.
func readJob(body []byte) (q api.JobRequest, err error) {
	r := &reader{src: body}
	q.Parameters = map[string]any{}
	size := 0
	err = r.fields(map[string]func() error{
		"workload": func() (err error) { q.Workload, err = r.name(); return err },
		"devices":  func() (err error) { q.Devices, err = r.name(); return err },
		"repeat": func() (err error) {
			n, err := r.integer(1, maxRepeat)
			q.Repeat = int(n)
			return err
		},
		"check": func() (err error) {
			b, err := r.boolean()
			q.Check = &b
			return err
		},
		"structure_text": func() (err error) {
			if q.StructureText, err = r.string(); len(q.StructureText) > structureBytes {
				err = r.errorf("structure_text has more than %d bytes: leave out all atoms but C-alpha, and all models but one", structureBytes)
			}
			return err
		},
		"parameters": func() error {
			return r.object(func(key string) (err error) {
				if len(q.Parameters) == maxParameters {
					return r.errorf("more than %d parameters", maxParameters)
				}
				v, err := r.scalar()
				if size += len(key) + len(fmt.Sprint(v)); err == nil && size > parameterBytes {
					err = r.errorf("the parameters have more than %d bytes, names and values together: write shorter ones", parameterBytes)
				}
				q.Parameters[key] = v
				return err
			})
		},
	})
	if err == nil {
		err = r.end()
	}
	if err != nil {
		return q, badRequest{err}
	}
	if q.Repeat == 0 {
		q.Repeat = 1
	}
	if q.Check == nil {
		yes := true
		q.Check = &yes
	}
	return q, nil
}

// plan checks what a job asks for and returns what runs it.
func (s *Server) plan(q *api.JobRequest) (task, error) {
	if q.Workload == proofJob {
		return nil, errProofJob
	}
	if q.Workload == foldJob {
		return s.planFold(q)
	}
	w, err := s.find(q.Workload)
	if err != nil {
		return nil, err
	}
	flags, order := w.Order()
	if err := setParameters(flags, w.Name, q.Parameters); err != nil {
		return nil, err
	}
	file, shipped := w.File()
	if err := nameShipped(flags.Lookup(file), shipped, q, order.OfStructure()); err != nil {
		return nil, err
	}
	if err := order.Read(q.StructureText); err != nil {
		return nil, badRequest{err}
	}
	if err := order.Validate(); err != nil {
		return nil, badRequest{err}
	}
	if err := s.canRun(q); err != nil {
		return nil, err
	}
	asked := *q
	asked.StructureText = "" // it was read
	return func(ctx context.Context, tell func(api.JobProgress)) (*api.JobResult, error) {
		// What cannot be stopped of this and of the check of a result counts as running until it has
		// ended, so that cancelled jobs do not add up.
		job, err := order.Make(ctx)
		if err != nil {
			return nil, err
		}
		rt, done, err := s.devicesOf(ctx, asked.Devices)
		if err != nil {
			return nil, err
		}
		defer done()
		return s.runJob(ctx, rt, job, asked, tell)
	}, nil
}

// find returns the workload of a name.
func (s *Server) find(name string) (catalog.Entry, error) {
	var names []string
	for _, w := range s.offered {
		if w.Name == name {
			return w, nil
		}
		names = append(names, w.Name)
	}
	return catalog.Entry{}, badf("%w", text.Unknown("workload", short(name), append(names, foldJob)))
}

// devicesOf returns the runtime of a job: the server's, or one of its own if it names devices. done closes the latter.
func (s *Server) devicesOf(ctx context.Context, names string) (rt *weft.Runtime, done func(), err error) {
	if names == "" {
		return s.rt, func() {}, nil
	}
	if rt, err = s.open(ctx, names); err != nil {
		return nil, nil, err
	}
	return rt, func() { rt.Close() }, nil
}

// canRun errs if there are no devices for a job.
func (s *Server) canRun(q *api.JobRequest) error {
	if q.Devices != "" {
		o := weft.Options{}
		if err := o.Set("devices", q.Devices); err != nil {
			return badRequest{err}
		}
		if err := o.Validate(); err != nil {
			return badRequest{err}
		}
	}
	if s.rt == nil {
		return failf(http.StatusServiceUnavailable, "this server has no devices for jobs")
	}
	return nil
}

// nameShipped has the parameter that may name a file name what is shipped: clients may not read files of the server.
// takesText says that the workload takes the text of a structure in its place.
func nameShipped(file *catalog.Flag, shipped []string, q *api.JobRequest, takesText bool) error {
	if q.StructureText != "" && !takesText {
		return badf("structure_text: a job of %s is of no structure", q.Workload)
	}
	if file == nil || file.String() == "" {
		return nil
	}
	if q.StructureText != "" {
		if file.Changed {
			return badf("parameter %s and structure_text: send one of them", file.Name)
		}
		return nil
	}
	name := file.String()
	i := slices.IndexFunc(shipped, func(s string) bool { return strings.EqualFold(s, name) })
	if i < 0 {
		hint := ""
		if takesText {
			hint = "; send the text of another as structure_text"
		}
		return badf("parameter %s: %w%s", file.Name, text.Unknown(file.Name, short(name), shipped), hint)
	}
	return file.Set(shipped[i])
}

// setParameters sets the flags of a workload. One that sets several, as size does,
// comes first: its text is empty, because the others say what it is.
func setParameters(flags *catalog.Flags, workload string, to map[string]any) error {
	var names []string
	for _, f := range flags.All() {
		names = append(names, f.Name)
	}
	var several, single []string
	for _, key := range slices.Sorted(maps.Keys(to)) {
		if !slices.Contains(names, key) {
			return badf("%s: %w", workload, text.Unknown("parameter", short(key), names))
		}
		if f := flags.Lookup(key); f.Default == "" && f.Type() != "string" {
			several = append(several, key)
		} else {
			single = append(single, key)
		}
	}
	for _, key := range append(several, single...) {
		f := flags.Lookup(key)
		if v := fmt.Sprint(to[key]); f.Set(v) != nil {
			return badf("parameter %s: %s is not of type %s", key, quoted(v), f.Type())
		}
	}
	return nil
}

// runJob runs a job as often as asked and checks the last result.
func (s *Server) runJob(ctx context.Context, rt *weft.Runtime, job workload.Job, q api.JobRequest, tell func(api.JobProgress)) (*api.JobResult, error) {
	done, err := workload.Feed(rt, job)
	if err != nil {
		return nil, err
	}
	defer done()
	if st, ok := job.(workload.Stateful); ok {
		defer st.Release()
	}
	out := &api.JobResult{Job: job.Name(), Class: string(workload.ClassOn(job, rt.Machine().Devices)), Runs: []api.JobRun{}}
	var last *workload.Result
	for i := range q.Repeat {
		within := weft.WithProgress(ctx, func(p weft.Progress) {
			tell(api.JobProgress{Runs: i, Part: p.Part, Left: max(p.Left.Seconds(), 0)})
		})
		resumed := false
		last, resumed, err = runKept(within, rt, job, s.keptOf(ctx, q), keptParams(q), func(j workload.Job, g *graph.Graph, _ *weft.Prediction) {
			if *q.Check && i == q.Repeat-1 { // or the result of the run before might pass for its own
				weft.Spoil(g, j.Bind()...)
			}
		})
		if err != nil {
			return nil, err
		}
		took := last.Report.Elapsed()
		row := api.JobRun{Seconds: took.Seconds(), Predicted: last.Predicted.Seconds(), Rate: job.Rate(took)}
		if resumed { // the time is that of the rest, which nothing was predicted of
			row.Predicted, row.Rate = 0, "-"
		}
		out.Runs = append(out.Runs, row)
		tell(api.JobProgress{Runs: i + 1})
	}
	out.Tasks = last.Tasks
	for i, d := range rt.Devices() {
		r := &last.Report.Devices[i]
		out.Devices = append(out.Devices, api.JobDevice{Name: d.Name, Tasks: r.Tasks, Busy: r.Busy.Seconds()})
	}
	if sum, ok := job.(workload.Summarised); ok {
		out.Result = sum.Summary()
	}
	if b, ok := job.(workload.Bounded); ok {
		if err := b.Unfinished(); err != nil {
			return nil, err
		}
	}
	if !*q.Check {
		return out, nil
	}
	if err := job.Check(); err != nil {
		return nil, fmt.Errorf("the result is wrong: %w", err)
	}
	out.Checked = true
	if in, ok := job.(workload.Inspected); ok {
		for _, m := range in.Misses() {
			out.Misses = append(out.Misses, api.JobMiss{What: m.What, Chance: m.Chance})
		}
	}
	return out, nil
}

// keptParams are what the result of a job depends on, for its checkpoints.
func keptParams(q api.JobRequest) map[string]string {
	params := map[string]string{"workload": q.Workload}
	for key, v := range q.Parameters {
		params["parameter "+key] = fmt.Sprint(v)
	}
	return params
}

// maxKey is the longest Idempotency-Key, in bytes.
const maxKey = 255

func (s *Server) submitJob(w http.ResponseWriter, r *http.Request) error {
	body, held, err := s.heldBody(w, r, jobBytes, []string{"application/json"})
	if err != nil {
		return err
	}
	defer held.release()
	if len(body) > orderBytes { // a text is copied twice when it is read
		if err := held.take(2 * int64(len(body))); err != nil {
			return err
		}
	}
	key := r.Header.Get("Idempotency-Key")
	if len(key) > maxKey {
		return badf("Idempotency-Key has more than %d bytes", maxKey)
	}
	if key != "" {
		key = clientOf(r.Context()) + "\n" + key
	}
	q, err := readJob(body)
	if err != nil {
		return err
	}
	if s.draining.Load() {
		return busyf(http.StatusServiceUnavailable, 5*time.Second, "the server is ending")
	}
	kept := s.hold(r.Context())
	if err := kept.take(readMemory * int64(len(q.StructureText))); err != nil {
		kept.release()
		return err
	}
	run, err := s.plan(&q)
	if err != nil {
		kept.release()
		return err
	}
	kept.keep(structureMemory * int64(len(q.StructureText)))
	j, fresh, err := s.jobs.submit(q, run, key, body, kept.release)
	if err != nil || !fresh {
		kept.release()
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

// countStructures counts the memory of structures of jobs that were restored, until these have ended.
func (s *Server) countStructures() {
	s.jobs.mu.Lock()
	defer s.jobs.mu.Unlock()
	for _, j := range s.jobs.queue {
		if j.structure != "" {
			kept := s.hold(context.Background())
			_ = kept.take(structureMemory * int64(len(j.structure))) // they are here, whether there is room or not
			j.gone = append(j.gone, kept.release)
		}
	}
}

func (s *Server) listJobs(w http.ResponseWriter, _ *http.Request) error {
	s.listing.Lock()
	b, err := json.Marshal(map[string][]api.Job{"jobs": s.jobs.list()})
	s.listing.Unlock()
	if err == nil {
		s.answer(w, http.StatusOK, json.RawMessage(b))
	}
	return err
}

func (s *Server) getJob(w http.ResponseWriter, r *http.Request) error {
	j, err := s.jobs.get(r.PathValue("id"))
	if err != nil {
		return err
	}
	s.answer(w, http.StatusOK, j)
	return nil
}

func (s *Server) cancelJob(w http.ResponseWriter, r *http.Request) error {
	j, err := s.jobs.stop(r.PathValue("id"))
	if err != nil {
		return err
	}
	s.answer(w, http.StatusOK, j)
	return nil
}

func (s *Server) jobResult(w http.ResponseWriter, r *http.Request) error {
	res, err := s.jobs.resultOf(r.PathValue("id"))
	if err != nil {
		return err
	}
	s.answer(w, http.StatusOK, res)
	return nil
}

func (s *Server) jobEvents(w http.ResponseWriter, r *http.Request) error {
	return s.stream(w, r, r.PathValue("id"))
}

func (s *Server) allEvents(w http.ResponseWriter, r *http.Request) error { return s.stream(w, r, "") }

// workloads lists what jobs can run, with its parameters.
func (s *Server) workloads(w http.ResponseWriter, _ *http.Request) error {
	type parameter struct {
		Name    string `json:"name"`
		Type    string `json:"type"`
		Default string `json:"default"`
		Usage   string `json:"usage"`
	}
	type entry struct {
		Name       string      `json:"name"`
		Does       string      `json:"does"`
		Parameters []parameter `json:"parameters"`
	}
	out := []entry{}
	add := func(name, does string, flags *catalog.Flags, file string, shipped []string, ofStructure bool) {
		e := entry{Name: name, Does: does, Parameters: []parameter{}}
		for _, f := range flags.All() {
			p := parameter{f.Name, f.Type(), f.Default, f.Usage}
			if f.Name == file {
				if p.Usage = "one of " + strings.Join(shipped, ", "); ofStructure {
					p.Usage += "; another comes as structure_text"
				}
			}
			e.Parameters = append(e.Parameters, p)
		}
		out = append(out, e)
	}
	for _, w := range s.offered {
		flags, order := w.Order()
		file, shipped := w.File()
		add(w.Name, w.Short, flags, file, shipped, order.OfStructure())
	}
	_, flags := foldFlags()
	add(foldJob, foldDoes, flags, "structure", catalog.Structures(), true)
	s.answer(w, http.StatusOK, map[string]any{"workloads": out})
	return nil
}

var errNoOpen = errors.New("this server opens no other devices for jobs; leave devices out")
