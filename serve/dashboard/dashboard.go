// Package dashboard is the page that shows a runtime in a browser: devices with charts, what
// they run, models that are served, jobs, links, events, and actions on devices.
//
//	GET  /                                      the page, from files that the program carries
//	GET  /dashboard/static/FILE                 its style and scripts
//	GET  /dashboard/state                       all that is shown, as JSON (type pageState)
//	GET  /dashboard/stream                      the same about once a second, as server-sent events
//	GET  /dashboard/timeline                    what devices ran in the last seconds
//	POST /dashboard/devices/NAME/ACTION         drain, undrain, recover, swap
//	POST /dashboard/jobs/ID/cancel              ends a job
//
// One sampler serves all who look, and there is none while nobody does: to watch a runtime has
// a small cost for each task. Start at sampler.go.
//
// The sampler looks at the runtime once a second for all readers of the stream, and subscribes to events, while there
// is a reader; the state is written as JSON once for all of them. A reader that had the frame before is sent what
// changed, any other the whole. The page is plain HTML, CSS and JavaScript modules and computes nothing but how a number
// is written: rates and quantiles come from the server, and each number on the page names its place in the state
// (data-path), by which TestBrowser compares all of them. Models and jobs come in by two small interfaces.
package dashboard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/weft-run/weft"
)

// Serving tells of the models that are served.
type Serving interface {
	Models() []ModelState
}

// Jobs tells of jobs and ends them.
type Jobs interface {
	List() []JobState
	Cancel(id string) error
}

// ModelState is a version of a model and what was asked of it. All counts only grow, but
// Waiting.
type ModelState struct {
	Name, Version, Kind                 string
	State                               string // "loading", "ready", "unloading" or "failed"
	Reason                              string // of a failure
	Devices                             []string
	MaxBatch                            int
	Requests                            uint64 // that arrived
	Succeeded, Failed, Refused, Expired uint64
	Items, Batches                      uint64
	Waiting                             int
	Total                               Latencies // from request to answer; nil if they are not known
}

// Latencies are the latencies of all requests that a model has answered so far.
type Latencies interface {
	// Quantile returns the latency in seconds that a part q of the requests did not exceed which were answered after
	// before, an earlier state of the same latencies, or nil for all of them. It is false if there were none.
	Quantile(q float64, before Latencies) (seconds float64, ok bool)
}

// JobState is a job.
type JobState struct {
	ID        string
	Name      string // what it computes
	State     string // "queued", "running", "done", "failed" or "cancelled"
	Client    string // who asked for it; "" for unknown
	Reason    string // of a failure
	Submitted time.Time
	Elapsed   time.Duration // since it began; 0 before
	Part      float64       // that is done, 0 to 1; negative if unknown
	Left      time.Duration // negative if unknown
}

// Options say what is shown beside the runtime.
type Options struct {
	Name    string  // of the machine or service, in the title
	Serving Serving // may be nil
	Jobs    Jobs    // may be nil
}

//go:embed static
var files embed.FS

// policy permits what the page has and nothing else: no script or style within the page, no
// other host, no frame.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// dashboard is the handler.
type dashboard struct {
	rt      *weft.Runtime
	o       Options
	mux     http.ServeMux
	started int64 // ms since 1970
	sampler sampler
	wait    time.Duration               // for an action, before its answer says that it goes on
	look    func() *pageState           // what is there now, and
	ran     func(float64) *pageTimeline // what was run since then; tests give their own
	reports analyst

	mu    sync.Mutex
	past  []point // the last seconds, for rates
	log   eventLog
	strip timeline
}

// New returns the handler of the page and all it needs. Streams end with their requests and
// when the runtime is closed.
func New(rt *weft.Runtime, o Options) http.Handler { return newDashboard(rt, o) }

func newDashboard(rt *weft.Runtime, o Options) *dashboard {
	d := &dashboard{rt: rt, o: o, started: time.Now().UnixMilli(), wait: actionWait}
	d.look, d.ran = d.now, d.timeline
	d.sampler.init(d)
	d.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { serveFile(w, r, "index.html") })
	d.mux.HandleFunc("GET /dashboard/static/{file}", func(w http.ResponseWriter, r *http.Request) { serveFile(w, r, r.PathValue("file")) })
	d.mux.HandleFunc("GET /dashboard/state", d.serveState)
	d.mux.HandleFunc("GET /dashboard/stream", d.sampler.serve)
	d.mux.HandleFunc("GET /dashboard/timeline", d.serveTimeline)
	d.mux.HandleFunc("POST /dashboard/devices/{name}/{action}", d.serveDevice)
	d.mux.HandleFunc("POST /dashboard/jobs/{id}/cancel", d.serveCancel)
	return d
}

// ServeHTTP answers a request.
func (d *dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if _, pattern := d.mux.Handler(r); pattern == "" {
		d.missing(w, r)
		return
	}
	d.mux.ServeHTTP(w, r)
}

// types are those of the files that are served; others are not.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// serveFile answers with a file that the program carries. Browsers keep it and ask whether it
// is still the same.
func serveFile(w http.ResponseWriter, r *http.Request, name string) {
	kind := types[path.Ext(name)]
	body, err := files.ReadFile("static/" + name)
	if err != nil || kind == "" {
		refuse(w, r, http.StatusNotFound, "there is no such file; the dashboard is at /")
		return
	}
	sum := sha256.Sum256(body)
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", `"`+hex.EncodeToString(sum[:8])+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

// serveState answers with all that is shown, as it is now.
func (d *dashboard) serveState(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, d.look())
}

// reply answers with JSON.
func reply(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"error":"the answer could not be written"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}

// oneLine makes a line of an error.
func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(fmt.Sprint(err), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}
