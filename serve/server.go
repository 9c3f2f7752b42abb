// Package serve is a server: predictions by the Open Inference Protocol, version 2, over HTTP and gRPC, jobs with their
// events, figures, traces and a dashboard, and the state of the server, behind limits and checks that keep others out.
// weft serve is a command around it, and any program may embed it: [LoadConfig] or [DefaultConfig] make a [Config],
// Config.Open opens its runtime, [Open] makes the server, and [Server.Serve] answers until a context ends. A Config whose
// Listen is "" makes a server that is reached by its Handler alone.
//
// Files: open.go (its making and end), server.go (its parts and routes), show.go (what the dashboard shows), listen.go
// (addresses, certificates), connections.go (who has a place), guard.go,
// origin.go, tokens.go and rate.go (who may ask for how much), body.go, reader.go and
// tensor.go (bodies), answer.go (memory of answers), v2.go and memory.go (models), grpc.go, grpcconn.go, grpcguard.go, grpcread.go,
// grpcv2.go and grpctensor.go (models by gRPC), jobs.go, jobrun.go, jobfold.go, jobstate.go and jobkept.go (jobs), prover.go and proofs.go (proofs), devices.go,
// events.go, config.go, configread.go, check.go (a configuration, tried) and profile.go.
//
// # The way of a request
//
//	connection ─► a place, of so many  ─► guard: Host and Origin, token, rate and number of
//	              (connections.go)        requests of the client (guard.go, origin.go, tokens.go, rate.go)
//	                                                 │
//	     dashboard ◄── no route ──── routes (server.go)
//	                                                 │
//	             ┌──────────────────┬────────────────┴─┬──────────────────┐
//	             ▼                  ▼                  ▼                  ▼
//	       body, within limits   models (v2.go)   jobs (jobs.go,     events (events.go)
//	       (body.go, reader.go,     │             jobrun.go)              ▲
//	       tensor.go)               ▼                  │                  │
//	                             infer.Service         └─────► hub ───────┘
//
// Bodies are read by one strict reader in one pass (reader.go): what it accepts, encoding/json accepts with the same
// meaning, which fuzz targets check. Elements of tensors go from text to bytes without a value in between. Memory is
// reserved as a body arrives (hold), from that of all bodies and of its client.
//
// Answers (answer.go) count as bodies do. Those of predictions are reserved by Room, which the service asks once it
// knows the examples and before the request waits; others count in answerWriter until the connection has taken them.
// Where what was given back since the last collection and what is in use exceed the limit by a sixty-fourth, a
// collection is begun (garbage.go); whoever takes memory waits for it from a thirty-second on.
//
// Errors are values with a status (failure), or errors of the service, which statusOf maps. A handler returns its error
// and fail writes it, or status for gRPC.
//
// gRPC (grpc.go) has a listener of its own and the same tokens, allowances, readers of parameters and checks of
// tensors; predict is where both protocols meet. The guard (grpcguard.go) acts before a call's message is read, for
// which methods of one message are registered as streams: a message counts against the limits while it is read, by
// the size of the largest, and then by what it takes decoded (grpcread.go), which is reserved before it is decoded.
//
// Shared memory (memory.go) is read and written as files of /dev/shm, before the service sees a request and after it
// answered. Nothing is mapped, so that nothing a client does to its file is a SIGBUS.
//
// Jobs are a table under one lock; each that runs has a goroutine, which the end waits for. With a state folder
// (jobstate.go) each has a file, replaced as a whole, which is on the disk before anybody is told of the change. A job
// is marked as running before it starts; one that is so marked at the next start goes on from a checkpoint that has
// more of it than the one before (jobkept.go), and is interrupted otherwise. Input that is made and results that are checked
// cannot be stopped and count as running until they have ended. An end that cannot be written is told
// with an error that says so.
//
// Events have numbers. The hub keeps the latest 1024, and 4 MiB, for readers that come back, and drops a reader for
// whom 256 or 4 MiB wait.
//
// The end (Server.Drain): not ready, then no more connections, then requests and jobs, then streams, then the service.
package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net"
	"net/http"
	"net/http/pprof"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/catalog"
	"github.com/weft-run/weft/serve/internal/infer"
)

// parts are what a server is made of.
type parts struct {
	Config  Config
	Service service
	// Runtime runs jobs and is watched for its health; nil in tests that have none.
	Runtime *weft.Runtime
	// Workloads are those that jobs run, beside foldings and proofs.
	Workloads []catalog.Entry
	// Open opens devices for a job that names some.
	Open      func(ctx context.Context, devices string) (*weft.Runtime, error)
	Proofs    Prover       // nil for none; drain closes it
	Metrics   http.Handler // at /metrics
	Dashboard http.Handler // at / and below, where nothing else is
	Version   string
	Log       *slog.Logger
}

// Server serves. It is made by Open, and its life is Serve and Close.
type Server struct {
	config  Config
	limits  Limits
	network string // tcp or unix
	version string
	service service
	rt      *weft.Runtime
	offered []catalog.Entry // workloads of jobs
	open    func(ctx context.Context, devices string) (*weft.Runtime, error)
	log     *slog.Logger

	tokens  atomic.Pointer[tokens] // nil if none are wanted
	cert    atomic.Pointer[tls.Certificate]
	clients *clients
	guesses *clients     // wrong tokens of each address
	bodies  atomic.Int64 // bytes of bodies under way
	garbage garbage
	// listing is held while a list of jobs is made, so that no two are made at a time: a list may be long.
	listing  sync.Mutex
	streams  atomic.Int64
	draining atomic.Bool
	hub      *hub
	jobs     *jobs
	regions  regions
	proofs   Prover // nil for none
	macKey   []byte // key of the hashes of bodies with witnesses
	// actionWait is actionWait, but in tests.
	actionWait time.Duration

	mux       *http.ServeMux
	own       *http.ServeMux // the same without what answers all other paths
	dashboard http.Handler
	looking   context.Context // of requests to the dashboard, whose streams end by it alone
	lookAway  context.CancelFunc
	ending    context.Context // ends when proofs of clients are to be cut off
	cutOff    context.CancelFunc
	http      *http.Server
	conns     *connections
	listener  net.Listener
	grpc      *grpc.Server // nil without gRPC
	grpcAt    *rpcListener
	reading   chan struct{} // has room for messages of gRPC that are read at a time
	relaying  sync.WaitGroup
	stopRelay context.CancelFunc

	closing       sync.Once
	closed        error  // of Close
	stopObserving func() // ends figures and traces
}

// newServer makes a server, with its tokens and certificate read. Its life is take, accept and, from another goroutine,
// drain.
func newServer(o parts) (*Server, error) {
	if err := o.Config.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	c := o.Config
	network, address, err := c.address()
	if err != nil {
		return nil, err
	}
	rpcNetwork, rpcAddress, err := c.grpcAddress()
	if err != nil {
		return nil, err
	}
	rate := c.Limits.Rate
	if rate == byAddress {
		if rate = publicRate; local(network, address) && local(rpcNetwork, rpcAddress) {
			rate = 0
		}
	}
	s := &Server{
		config: c, limits: c.Limits, network: network, version: o.Version, service: o.Service, rt: o.Runtime, offered: o.Workloads, open: o.Open, log: o.Log,
		clients: newClients(rate, c.Limits.Concurrent), hub: newHub(), dashboard: o.Dashboard, actionWait: actionWait, proofs: o.Proofs, macKey: newKey(),
	}
	if s.open == nil {
		s.open = func(context.Context, string) (*weft.Runtime, error) { return nil, errNoOpen }
	}
	s.garbage.limit, s.garbage.inUse = int64(c.Limits.Bodies), &s.bodies
	s.conns = newConnections(c.Limits.Connections, o.Log)
	s.conns.burdens(int64(c.Limits.Bodies), int64(c.Limits.Header))
	s.jobs = &jobs{limits: c.Jobs, hub: s.hub, log: o.Log, now: time.Now}
	if o.Runtime != nil {
		s.jobs.kept = checkpoints{c.checkpoint().Dir, o.Runtime, o.Log}
	}
	if c.SharedMemory {
		s.regions.dir = sharedFolder
	}
	if err := s.readSecrets(); err != nil {
		return nil, err
	}
	s.guesses = newClients(guessRate, math.MaxInt)
	s.guesses.burst = guessBurst
	s.own, s.mux = s.newMux(o.Metrics), s.newMux(o.Metrics)
	s.mux.HandleFunc("/", s.elsewhere)
	s.http = &http.Server{
		Handler: s.Handler(), MaxHeaderBytes: int(c.Limits.Header),
		ReadHeaderTimeout: time.Duration(c.Limits.ReadTime), IdleTimeout: time.Duration(c.Limits.IdleTime),
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug), TLSConfig: s.tlsConfig(),
		DisableGeneralOptionsHandler: true, // which would answer before the guard
		ConnContext:                  withConnection,
	}
	if rpcNetwork != "" {
		s.grpc = s.newGRPC(rpcNetwork)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.stopRelay = cancel
	s.looking, s.lookAway = context.WithCancel(context.Background())
	s.ending, s.cutOff = context.WithCancel(context.Background())
	if s.rt != nil {
		s.relaying.Go(func() { s.hub.relay(ctx, s.rt) })
	}
	return s, nil
}

// newMux finds the handler of a request that the server answers itself.
func (s *Server) newMux(metrics http.Handler) *http.ServeMux {
	mux := http.NewServeMux()
	for _, r := range s.routes() {
		mux.HandleFunc(r.method+" "+r.pattern, s.handle(r.handle))
	}
	if metrics != nil {
		mux.Handle("GET /metrics", metrics)
	}
	if s.config.Pprof {
		mux.HandleFunc("GET /debug/pprof/", unhurried(pprof.Index))
		mux.HandleFunc("GET /debug/pprof/profile", unhurried(pprof.Profile))
		mux.HandleFunc("GET /debug/pprof/trace", unhurried(pprof.Trace))
	}
	return mux
}

// route is one thing that the server answers.
type route struct {
	method, pattern string
	handle          handler
}

// routes returns the paths that the server answers itself.
func (s *Server) routes() []route {
	const get, post = http.MethodGet, http.MethodPost
	list := []route{
		{get, "/healthz", s.probe(s.alive)},
		{get, "/readyz", s.probe(s.ready)},
		{get, "/v2", s.metadata},
		{get, "/v2/{$}", s.metadata},
		{get, "/v2/health/live", s.probe(s.alive)},
		{get, "/v2/health/ready", s.probe(s.ready)},
		{post, "/v2/repository/index", s.index},
		{post, "/v2/repository/models/{model}/load", s.order(s.service.Load)},
		{post, "/v2/repository/models/{model}/unload", s.order(s.service.Unload)},
		{get, "/v2/systemsharedmemory/status", s.regionStatus},
		{get, "/v2/systemsharedmemory/region/{region}/status", s.regionStatus},
		{post, "/v2/systemsharedmemory/region/{region}/register", s.registerRegion},
		{post, "/v2/systemsharedmemory/region/{region}/unregister", s.unregisterRegion},
		{post, "/v2/systemsharedmemory/unregister", s.unregisterRegion},
		{get, "/v1/workloads", s.workloads},
		{post, "/v1/jobs", s.submitJob},
		{get, "/v1/jobs", s.listJobs},
		{get, "/v1/jobs/{id}", s.getJob},
		{http.MethodDelete, "/v1/jobs/{id}", s.cancelJob},
		{get, "/v1/jobs/{id}/result", s.jobResult},
		{get, "/v1/jobs/{id}/events", s.jobEvents},
		{get, "/v1/events", s.allEvents},
	}
	list = append(list, s.deviceRoutes()...)
	list = append(list, s.proofRoutes()...)
	for _, at := range []string{"/v2/models/{model}", "/v2/models/{model}/versions/{version}"} {
		list = append(list,
			route{get, at, s.modelMetadata},
			route{get, at + "/ready", s.modelReady},
			route{post, at + "/infer", s.infer})
	}
	return list
}

// handle makes a handler whose error is the answer.
func (s *Server) handle(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			s.fail(w, r, err)
		}
	}
}

// unhurried lets a handler take its time for an answer.
func unhurried(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // writers of tests have none
		h(w, r)
	}
}

// Handler returns what answers requests, with all checks.
func (s *Server) Handler() http.Handler {
	return s.guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.RequestURI == "*" && r.Method == http.MethodOptions { // what the server as a whole takes
			w.Header()["Allow"] = allMethods
			w.WriteHeader(http.StatusNoContent)
			return
		}
		if clean := path.Clean(r.URL.Path); clean != r.URL.Path && clean+"/" != r.URL.Path {
			s.fail(w, r, failf(http.StatusNotFound, "nothing is at %s", quoted(r.URL.Path))) // package http would redirect
			return
		}
		s.mux.ServeHTTP(w, r)
	}))
}

var allMethods = []string{"DELETE, GET, HEAD, OPTIONS, POST"}

// elsewhere answers what is at no path of the server's own: by the dashboard, or that nothing
// is there.
func (s *Server) elsewhere(w http.ResponseWriter, r *http.Request) {
	if s.dashboard == nil || s.ours(r.URL.Path) {
		s.fail(w, r, s.missing(w, r))
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.looking, cancel)()
	s.dashboard.ServeHTTP(w, r.WithContext(ctx))
}

// ours reports whether a path is the server's own and not the dashboard's.
func (s *Server) ours(at string) bool {
	for _, p := range []string{"/v1", "/v2", "/healthz", "/readyz", "/metrics", "/debug"} {
		if at == p || strings.HasPrefix(at, p+"/") {
			return true
		}
	}
	return false
}

// missing is why there is no answer: nothing is there, or another method is meant.
func (s *Server) missing(w http.ResponseWriter, r *http.Request) error {
	h, _ := s.own.Handler(r)
	said := refused{header: http.Header{}}
	h.ServeHTTP(&said, r)
	if said.status == http.StatusMethodNotAllowed {
		allow := said.header.Get("Allow")
		w.Header().Set("Allow", allow)
		return failf(http.StatusMethodNotAllowed, "%s takes %s and not %s", short(r.URL.Path), allow, short(r.Method))
	}
	return failf(http.StatusNotFound, "nothing is at %s", short(r.URL.Path))
}

// refused takes what package http answers where there is no route.
type refused struct {
	header http.Header
	status int
}

func (r *refused) Header() http.Header         { return r.header }
func (r *refused) WriteHeader(status int)      { r.status = status }
func (r *refused) Write(b []byte) (int, error) { return len(b), nil }

// accept answers until the server ends.
func (s *Server) accept() error {
	served, n := make(chan error, 2), 1
	go func() { served <- s.serveHTTP() }()
	if s.grpc != nil {
		n++
		go func() {
			err := s.grpc.Serve(s.grpcAt)
			if errors.Is(err, grpc.ErrServerStopped) { // before it began
				err = nil
			}
			served <- err
		}()
	}
	for ; n > 0; n-- {
		if err := <-served; err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) serveHTTP() error {
	if s.listener == nil {
		<-s.ending.Done()
		return nil
	}
	err := error(nil)
	if s.secure(s.network) {
		err = s.http.ServeTLS(s.listener, "", "")
	} else {
		err = s.http.Serve(s.listener)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// drain ends the server: it says that it is not ready, waits as long as drain_delay says
// for others to see that, takes no more requests, and waits for those under way. What has
// not ended when ctx ends is cut off, and that is an error. The service is closed too.
func (s *Server) drain(ctx context.Context) error {
	s.draining.Store(true)
	s.log.Info("ending: no more requests are taken")
	if d := time.Duration(s.limits.DrainDelay); d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	s.lookAway()
	defer s.cutOff()
	if until, ok := ctx.Deadline(); ok {
		defer time.AfterFunc(cutAfter(time.Until(until)), s.cutOff).Stop()
	}
	ended := make(chan error, 1)
	go func() {
		err := s.jobs.close(ctx, stopWait)
		s.hub.close() // after the last event of the last job
		ended <- err
	}()
	called := make(chan error, 1)
	go func() { called <- s.stopGRPC(ctx) }()
	errs := []error{s.http.Shutdown(ctx), <-ended, <-called}
	if errs[0] != nil {
		errs[0] = fmt.Errorf("requests under way were cut off: %w", errs[0])
	}
	if err := s.http.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		errs = append(errs, err)
	}
	s.conns.end()
	s.endRelay()
	if s.proofs != nil {
		errs = append(errs, s.proofs.Close(ctx))
	}
	if s.config.SharedMemory {
		errs = append(errs, s.regions.unregister(""))
	}
	return errors.Join(append(errs, s.service.Close(ctx))...)
}

// cutAfter returns the time after which drain cuts off proofs of clients, if some time is left until its
// deadline: early enough for their runs to end and for an answer that says so.
func cutAfter(left time.Duration) time.Duration { return left - min(stopWait, left/2) }

// endRelay ends what newServer began.
func (s *Server) endRelay() {
	s.stopRelay()
	s.relaying.Wait()
}

// Reload reads tokens and certificate again, and loads the models anew: those of the folder
// as it is now, and none that have gone from it. What cannot be read stays as it was.
func (s *Server) Reload(ctx context.Context) error {
	errs := []error{s.readSecrets()}
	names := make(map[string]bool)
	for _, m := range s.service.Models() {
		names[m.Name] = s.config.Models == "" // it stays
	}
	if s.config.Models != "" {
		found, err := infer.Names(s.config.Models)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		for _, name := range found {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		change := s.service.Unload
		if names[name] {
			change = s.service.Load
		}
		if err := change(ctx, name); err != nil {
			errs = append(errs, fmt.Errorf("model %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
