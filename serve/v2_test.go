package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/serve/internal/infer"
)

// protocol is KServe's description of the protocol. It writes parameters of paths as
// ${NAME}, which OpenAPI writes as {NAME}.
func protocol(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromFile("testdata/kserve/rest_predict_v2.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range doc.Paths.InMatchingOrder() {
		doc.Paths.Set(strings.ReplaceAll(p, "$", ""), doc.Paths.Value(p))
	}
	return doc
}

// conforms errs unless an answer is one that a description of an API has.
func conforms(doc *openapi3.T, pattern string, parameters map[string]string, r *http.Request, status int, header http.Header, body []byte) error {
	item := doc.Paths.Value(pattern)
	if item == nil || item.GetOperation(r.Method) == nil {
		return fmt.Errorf("%s %s is not described", r.Method, pattern)
	}
	in := &openapi3filter.RequestValidationInput{Request: r, PathParams: parameters, QueryParams: url.Values{}, Route: &routers.Route{
		Spec: doc, Path: pattern, PathItem: item, Method: r.Method, Operation: item.GetOperation(r.Method),
	}, Options: &openapi3filter.Options{IncludeResponseStatus: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}}
	if err := openapi3filter.ValidateRequest(context.Background(), in); err != nil && status == http.StatusOK {
		return fmt.Errorf("the request: %w", err)
	}
	return openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: status, Header: header, Body: io.NopCloser(bytes.NewReader(body)), Options: in.Options,
	})
}

// Every answer is one that the protocol has, by KServe's description of it.
func TestProtocol(t *testing.T) {
	doc := protocol(t)
	h, _, _ := handlerOf(t, nil)
	model := map[string]string{"MODEL_NAME": "double", "MODEL_VERSION": "1"}
	for _, c := range []struct {
		method, pattern, body string
		status                int
	}{
		{"GET", "/v2/", "", 200},
		{"GET", "/v2/health/live", "", 200},
		{"GET", "/v2/health/ready", "", 200},
		{"GET", "/v2/models/{MODEL_NAME}/versions/{MODEL_VERSION}", "", 200},
		{"GET", "/v2/models/{MODEL_NAME}/versions/{MODEL_VERSION}/ready", "", 200},
		{"POST", "/v2/models/{MODEL_NAME}/versions/{MODEL_VERSION}/infer", doubled, 200},
		{"POST", "/v2/models/{MODEL_NAME}/versions/{MODEL_VERSION}/infer", `{"id":"7","outputs":[{"name":"y"}],` + doubled[1:], 200},
		{"POST", "/v2/models/{MODEL_NAME}/versions/{MODEL_VERSION}/infer", `{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[]}]}`, 400},
	} {
		path := strings.NewReplacer("{MODEL_NAME}", "double", "{MODEL_VERSION}", "1").Replace(c.pattern)
		w := ask(h, c.method, path, c.body)
		r, err := http.NewRequest(c.method, path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		if err := conforms(doc, c.pattern, model, r, w.Code, w.Header(), w.Body.Bytes()); err != nil || w.Code != c.status {
			t.Errorf("%s %s: status %d, %v\n%s", c.method, path, w.Code, err, w.Body)
		}
		// Without the version the answer is the same.
		if short := strings.Replace(path, "/versions/1", "", 1); short != path {
			if again := ask(h, c.method, short, c.body); again.Code != w.Code || again.Body.String() != w.Body.String() {
				t.Errorf("%s: status %d, %s", short, again.Code, again.Body)
			}
		}
	}
	// The check can fail.
	r, _ := http.NewRequest("GET", "/v2/", nil)
	if conforms(doc, "/v2/", nil, r, 200, http.Header{"Content-Type": {"application/json"}}, []byte(`{"name":"x"}`)) == nil {
		t.Error("an answer without a version conforms")
	}
}

func TestInferJSON(t *testing.T) {
	h, f, _ := handlerOf(t, nil)
	for _, data := range []string{"[1,2.5,-3]", "[[1,2.5,-3]]", "[ [[1], [2.5], [-3.0e0]] ]"} {
		w := ask(h, "POST", "/v2/models/double/infer", strings.Replace(doubled, "[1,2.5,-3]", data, 1))
		var out struct {
			Model   string `json:"model_name"`
			Outputs []struct {
				Name  string
				Shape []int64
				Data  []float32
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != 200 || out.Model != "double" ||
			len(out.Outputs) != 1 || fmt.Sprint(out.Outputs[0]) != "{y [1 3] [2 5 -6]}" {
			t.Errorf("%s: status %d, %v: %s", data, w.Code, err, w.Body)
		}
	}
	// Keys come in any order, and parameters reach the service.
	w := ask(h, "POST", "/v2/models/double/infer", `{"parameters":{"priority":1,"timeout":60000000,"other":"x"},"id":"a\u00e9",
		"inputs":[{"data":[0.5],"parameters":{"unknown":true},"datatype":"FP32","shape":[1],"name":"x"}]}`)
	if w.Code != 200 || !strings.Contains(w.Body.String(), `"id":"aé"`) || !strings.Contains(w.Body.String(), `"data":[1]`) {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	r := f.seen[len(f.seen)-1]
	if r.Priority != 4 || time.Until(r.Deadline) > time.Minute || time.Until(r.Deadline) < 0 || r.Client != "127.0.0.1" {
		t.Errorf("the service was asked %+v", r)
	}
	// Some clients send them as text.
	w = ask(h, "POST", "/v2/models/double/infer", `{"parameters":{"priority":"2","timeout":"60000000"},`+doubled[1:])
	if r := f.seen[len(f.seen)-1]; w.Code != 200 || r.Priority != 3 || r.Deadline.IsZero() {
		t.Errorf("status %d, and the service was asked %+v", w.Code, r)
	}
	if r := f.seen[0]; r.Priority != 0 || !r.Deadline.IsZero() {
		t.Errorf("without parameters the service was asked %+v", r)
	}
}

// Binary data goes in and out as it is, NaN with it.
func TestInferBinary(t *testing.T) {
	h, _, _ := handlerOf(t, nil)
	x := api.NewTensor("x", []float32{1, float32(math.NaN()), float32(math.Inf(-1))})
	head := `{"inputs":[{"name":"x","shape":[3],"datatype":"FP32","parameters":{"binary_data_size":12}}],"outputs":[{"name":"y","parameters":{"binary_data":true}}]}`
	body := head + string(x.Data)
	w := ask(h, "POST", "/v2/models/double/infer", body, api.HeaderLength, strconv.Itoa(len(head)), "Content-Type", "application/octet-stream")
	n, err := strconv.Atoi(w.Header().Get(api.HeaderLength))
	if err != nil || w.Code != 200 || n > w.Body.Len() || !json.Valid(w.Body.Bytes()[:n]) {
		t.Fatalf("status %d, %v: %q", w.Code, err, w.Body)
	}
	y := api.Tensor{Name: "y", Datatype: "FP32", Shape: []int64{3}, Data: w.Body.Bytes()[n:]}
	if v, err := api.Values[float32](&y); err != nil || v[0] != 2 || v[1] == v[1] || !math.IsInf(float64(v[2]), -1) {
		t.Errorf("%v, %v", v, err)
	}
	// JSON has no NaN: that is said, and no broken answer is sent.
	w = ask(h, "POST", "/v2/models/double/infer", strings.Replace(body, `"binary_data":true`, `"binary_data":false`, 1), api.HeaderLength, strconv.Itoa(len(head)+1))
	if e := saidError(t, w); w.Code != http.StatusNotAcceptable || !strings.Contains(e, "binary") {
		t.Errorf("status %d, %s", w.Code, e)
	}
	// All outputs as binary data.
	w = ask(h, "POST", "/v2/models/double/infer", `{"parameters":{"binary_data_output":true},`+doubled[1:])
	if n, err := strconv.Atoi(w.Header().Get(api.HeaderLength)); err != nil || w.Body.Len()-n != 12 {
		t.Errorf("%v: %q", err, w.Body)
	}
}

// What is wrong with a request is said in a line, with its status.
func TestInferRefused(t *testing.T) {
	h, f, _ := handlerOf(t, nil)
	input := func(fields string) string { return `{"inputs":[{` + fields + `}]}` }
	for _, c := range []struct{ body, want string }{
		{``, "the body is empty"},
		{`[]`, "expected '{'"},
		{`{}`, `no "inputs"`},
		{doubled + "x", "expected the end"},
		{doubled[:20], "does not end"},
		{`{"inputs":[],"inputs":[]}`, `key "inputs" is there twice`},
		{`{"inptus":[]}`, `no key "inptus"`},
		{input(`"name":"x","shape":[1],"datatype":"FP32"`), `no "data"`},
		{input(`"name":"x","datatype":"FP32","data":[1]`), `no "shape"`},
		{input(`"name":"x","shape":[1],"data":[1]`), "no type"},
		{input(`"name":"x","shape":[1],"datatype":"BYTES","data":["a"]`), "BYTES is not supported"},
		{input(`"name":"x","shape":[1],"datatype":"FP32","data":[NaN]`), "expected a number"},
		{input(`"name":"x","shape":[1],"datatype":"FP32","data":[null]`), "expected a number"},
		{input(`"name":"x","shape":[1],"datatype":"FP32","data":[1e39]`), "FP32 can hold"},
		{input(`"name":"x","shape":[1],"datatype":"FP16","data":[65520]`), "FP16 can hold"},
		{input(`"name":"x","shape":[1],"datatype":"UINT8","data":[256]`), "UINT8 can hold"},
		{input(`"name":"x","shape":[1],"datatype":"INT8","data":[1.5]`), "INT8 can hold"},
		{input(`"name":"x","shape":[1],"datatype":"BOOL","data":[2]`), "neither true nor false"},
		{input(`"name":"x","shape":[1],"datatype":"FP32","data":[01]`), "expected ','"},
		{input(`"name":"x","shape":[2],"datatype":"FP32","data":[1]`), "has 1 elements, and takes 2"},
		{input(`"name":"x","shape":[2],"datatype":"FP32","data":[1,2,3]`), "more than 2 elements"},
		{input(`"name":"x","shape":[-1],"datatype":"FP32","data":[1]`), "not a whole number from 0"},
		{input(`"name":"x","shape":[1.5],"datatype":"FP32","data":[1]`), "not a whole number"},
		{input(`"name":"x","shape":[9007199254740991,9007199254740991],"datatype":"FP32","data":[1]`), "too large"},
		{input(`"name":"x","shape":[1,1,1,1,1,1,1,1,1],"datatype":"FP32","data":[1]`), "dimensions"},
		{input(`"name":"x","shape":[1],"datatype":"FP32","data":` + strings.Repeat("[", 50) + strings.Repeat("]", 50)), "nested more than"},
		{input(`"name":"x","shape":[1],"datatype":"FP32","parameters":{"binary_data_size":4}`), "0 are left"},
		{input(`"name":"x","shape":[1],"datatype":"FP32","parameters":{"shared_memory_region":"r"}`), "shared_memory_byte_size"},
		{input(`"name":"x","shape":[1],"datatype":"FP32","parameters":{"shared_memory_offset":4}`), "go with"},
		{input(`"name":"x","shape":[1],"datatype":"FP32","data":[1],"parameters":{"shared_memory_region":"r","shared_memory_byte_size":4}`), "more than one"},
		{input(`"name":"x","shape":[1],"datatype":"FP32","parameters":{"shared_memory_region":"r","shared_memory_byte_size":8}`), "takes 4"},
		{`{"parameters":{"priority":10},` + doubled[1:], "from 0 to 9"},
		{`{"parameters":{"priority":"10"},` + doubled[1:], "from 0 to 9"},
		{`{"parameters":{"timeout":-1},` + doubled[1:], "from 0"},
		{`{"parameters":{"timeout":"1s"},` + doubled[1:], "timeout \"1s\" is not a whole number"},
		{`{"parameters":{"sequence_id":1},` + doubled[1:], "keep no state"},
		{`{"parameters":{"a":{}},` + doubled[1:], "expected a text"},
		{`{"outputs":[{"name":"y"},{"name":"y"}],` + doubled[1:], "twice"},
		{`{"model_name":"other",` + doubled[1:], `the path names model "double"`},
		{"{\"id\":\"\xff\"," + doubled[1:], "UTF-8"},
		{strings.Replace(doubled, "FP32", "FP64", 1), "takes x of FP32"},
	} {
		w := ask(h, "POST", "/v2/models/double/infer", c.body)
		if e := saidError(t, w); w.Code != 400 || !strings.Contains(e, c.want) || len(e) > 400 {
			t.Errorf("%.100s: status %d, %s; want %q", c.body, w.Code, e, c.want)
		}
	}
	for _, length := range []string{"x", "-1", "100000", "5"} {
		if w := ask(h, "POST", "/v2/models/double/infer", doubled, api.HeaderLength, length); w.Code != 400 {
			t.Errorf("%s %s: status %d: %s", api.HeaderLength, length, w.Code, w.Body)
		}
	}
	// Errors of the service have their status.
	for _, c := range []struct {
		err    error
		status int
		after  string
	}{
		{fmt.Errorf("x: %w", infer.ErrExpired), 504, ""},
		{&infer.BusyError{Model: "double", RetryAfter: 1500 * time.Millisecond}, 503, "2"},
		{fmt.Errorf("x: %w", infer.ErrUnavailable), 503, "1"},
		{fmt.Errorf("x: %w", infer.ErrInvalid), 400, ""},
		{fmt.Errorf("device lost"), 500, ""},
	} {
		f.before = func(context.Context, *infer.Request) error { return c.err }
		w := ask(h, "POST", "/v2/models/double/infer", doubled)
		if saidError(t, w); w.Code != c.status || w.Header().Get("Retry-After") != c.after {
			t.Errorf("%v: status %d, Retry-After %q", c.err, w.Code, w.Header().Get("Retry-After"))
		}
	}
}

// A request whose timeout has passed is not answered.
func TestDeadline(t *testing.T) {
	h, f, _ := handlerOf(t, nil)
	f.before = func(_ context.Context, r *infer.Request) error {
		for time.Now().Before(r.Deadline) {
			time.Sleep(time.Millisecond)
		}
		return nil
	}
	w := ask(h, "POST", "/v2/models/double/infer", `{"parameters":{"timeout":1},`+doubled[1:])
	if e := saidError(t, w); w.Code != http.StatusGatewayTimeout || !strings.Contains(e, "deadline") {
		t.Errorf("status %d, %s", w.Code, e)
	}
}

func TestPaths(t *testing.T) {
	h, _, _ := handlerOf(t, func(o *parts) {
		o.Dashboard = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "dashboard ", r.URL.Path) })
		o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "metrics") })
	})
	for _, c := range []struct {
		method, path string
		status       int
		text         string
	}{
		{"GET", "/", 200, "dashboard /"},
		{"GET", "/app.js", 200, "dashboard /app.js"},
		{"GET", "/metrics", 200, "metrics"},
		{"GET", "/v2", 200, `"extensions"`},
		{"GET", "/v2/nothing", 404, "error"},
		{"GET", "/v1", 404, "error"},
		{"GET", "/v2/models/none", 404, "no such model"},
		{"GET", "/v2/models/none/ready", 404, "no such model"},
		{"POST", "/v2/models/none/infer", 404, "no such model"},
		{"GET", "/v2/models/double/versions/9", 404, "no such model"},
		{"GET", "/v2/models/%2e%2e%2fdouble", 404, "nothing is at"},
		{"GET", "/v2/models/a%2fb", 404, "no such model"},
		{"POST", "/v2/repository/models/%2e%2e/load", 404, "error"},
		{"GET", "/v2/models/double/infer", 405, "takes POST"},
		{"DELETE", "/v2", 405, "takes GET"},
		{"PUT", "/v1/jobs", 405, "takes GET"},
		{"GET", "/debug/pprof/", 404, "error"},
		{"GET", "/v2//models/double", 404, "error"},
	} {
		body := ""
		if c.method == "POST" {
			body = doubled
		}
		w := ask(h, c.method, c.path, body)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.text) {
			t.Errorf("%s %s: status %d: %s", c.method, c.path, w.Code, w.Body)
		}
		if c.status == 405 && w.Header().Get("Allow") == "" {
			t.Errorf("%s %s: no Allow", c.method, c.path)
		}
		if c.status >= 400 {
			saidError(t, w)
		}
	}
	h, _, _ = handlerOf(t, func(o *parts) { o.Config.Pprof = true })
	if w := ask(h, "GET", "/debug/pprof/", ""); w.Code != 200 {
		t.Errorf("pprof, asked for: status %d", w.Code)
	}
	if w := ask(h, "GET", "/", ""); w.Code != 404 {
		t.Errorf("no dashboard: status %d", w.Code)
	}
}

func TestRepository(t *testing.T) {
	h, f, _ := handlerOf(t, nil)
	f.models["bad"] = infer.Failed
	var list []api.ModelStatus
	for body, want := range map[string]int{"": 2, "{}": 2, `{"ready":true}`: 1} {
		w := ask(h, "POST", "/v2/repository/index", body)
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || w.Code != 200 || len(list) != want {
			t.Errorf("%s: status %d, %v: %s", body, w.Code, err, w.Body)
		}
	}
	for _, c := range []struct {
		path, body string
		status     int
	}{
		{"new/load", "", 200}, {"new/load", `{"parameters":{}}`, 200}, {"absent/load", "{}", 404}, {"broken/load", "", 400},
		{"new/load", `{"parameters":{"config":"{}"}}`, 400}, {"new/load", `{"x":1}`, 400}, {"a%2fb/load", "", 404},
		{"double/unload", `{"parameters":{"unload_dependents":true}}`, 200},
	} {
		if w := ask(h, "POST", "/v2/repository/models/"+c.path, c.body); w.Code != c.status {
			t.Errorf("%s %s: status %d: %s", c.path, c.body, w.Code, w.Body)
		}
	}
	if f.models["new"] != infer.Ready || f.models["double"] != "" {
		t.Errorf("models are %v", f.models)
	}
	if w := ask(h, "GET", "/v2/models/bad/ready", ""); w.Code != 503 {
		t.Errorf("a model that failed: status %d", w.Code)
	}
}

// A text is written as package json writes it, whatever byte is in it.
func TestAppendText(t *testing.T) {
	for c := range 256 {
		text := "a" + string([]byte{byte(c)}) + "z"
		want, err := json.Marshal(text)
		if got := appendText(nil, text); err != nil || string(got) != string(want) {
			t.Errorf("%q is written as %s, not %s: %v", text, got, want, err)
		}
	}
}

// Health tells the truth: a server that ends, or has a model that is not ready, says so.
func TestHealth(t *testing.T) {
	h, f, s := handlerOf(t, nil)
	check := func(path string, status int) {
		t.Helper()
		if w := ask(h, "GET", path, ""); w.Code != status {
			t.Errorf("%s: status %d: %s", path, w.Code, w.Body)
		}
	}
	check("/healthz", 200)
	check("/readyz", 200)
	f.notReady = fmt.Errorf("model a is loading")
	check("/healthz", 200)
	check("/readyz", 503)
	check("/v2/health/ready", 503)
	check("/v2/health/live", 200)
	f.notReady = nil
	s.draining.Store(true)
	check("/readyz", 503)
	check("/healthz", 200)
}

// A reload loads what the folder has, and unloads what it has no more.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"double", "new", ".git"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	_, f, s := handlerOf(t, func(o *parts) { o.Config.Models = dir })
	f.models["old"] = infer.Ready
	if err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(f.models) != 2 || f.models["double"] != infer.Ready || f.models["new"] != infer.Ready {
		t.Errorf("models are %v", f.models)
	}
	if err := os.Mkdir(filepath.Join(dir, "absent"), 0o777); err != nil { // which the fake does not load
		t.Fatal(err)
	}
	if err := s.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "model absent") || len(f.models) != 2 {
		t.Errorf("%v, models are %v", err, f.models)
	}
	_, f, s = handlerOf(t, nil)
	if err := s.Reload(t.Context()); err != nil || len(f.models) != 1 {
		t.Errorf("without a folder: %v, %v", f.models, err)
	}
}
