package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"

	"github.com/weft-run/weft/api"
)

func description(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromFile("../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(context.Background()); err != nil {
		t.Fatal(err)
	}
	return doc
}

// docs/openapi.yaml has every route that is not the protocol's, and no other.
func TestOpenAPIRoutes(t *testing.T) {
	_, _, s := handlerOf(t, nil)
	var there, described []string
	for _, r := range s.routes() {
		if !strings.HasPrefix(r.pattern, "/v2") {
			there = append(there, r.method+" "+r.pattern)
		}
	}
	doc := description(t)
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			described = append(described, method+" "+path)
		}
	}
	slices.Sort(there)
	slices.Sort(described)
	if !slices.Equal(there, described) {
		t.Errorf("docs/openapi.yaml has\n%q\nand the server\n%q", described, there)
	}
}

// Every answer is one that docs/openapi.yaml has.
func TestOpenAPIAnswers(t *testing.T) {
	doc := description(t)
	openapi3filter.RegisterBodyDecoder("text/event-stream", openapi3filter.PlainBodyDecoder)
	rt := devices(t, "cpu")
	s, _, address := start(t, func(o *parts) { o.Runtime, o.Proofs = rt, &fakeProver{} })
	id := ""
	check := func(method, pattern, body string, want int) []byte {
		t.Helper()
		path := strings.NewReplacer("{id}", id, "{device}", id, "{circuit}", id).Replace(pattern)
		r, err := http.NewRequest(method, address+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != want {
			t.Fatalf("%s %s: status %d, %v: %s", method, path, resp.StatusCode, err, got)
		}
		r.Body = io.NopCloser(strings.NewReader(body))
		if err := conforms(doc, pattern, map[string]string{"id": id, "device": id, "circuit": id}, r, resp.StatusCode, resp.Header, got); err != nil {
			t.Errorf("%s %s: %v\n%s", method, path, err, got)
		}
		return got
	}
	check("GET", "/healthz", "", 200)
	check("GET", "/readyz", "", 200)
	check("GET", "/v1/workloads", "", 200)
	check("GET", "/v1/jobs", "", 200)
	check("POST", "/v1/jobs", `{"workload":"none"}`, 400)
	var j api.Job
	if err := json.Unmarshal(check("POST", "/v1/jobs", `{"workload":"reduce","parameters":{"n":20000,"op":"max"},"repeat":2,"check":true}`, 201), &j); err != nil {
		t.Fatal(err)
	}
	id = j.ID
	events := check("GET", "/v1/jobs/{id}/events", "", 200) // until it has ended
	for line := range bytes.Lines(events) {
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok {
			continue
		}
		var v any
		if err := json.Unmarshal(data, &v); err != nil {
			t.Fatal(err)
		}
		if err := doc.Components.Schemas["Event"].Value.VisitJSON(v); err != nil {
			t.Errorf("%s: %v", data, err)
		}
	}
	check("GET", "/v1/jobs", "", 200)
	check("GET", "/v1/jobs/{id}", "", 200)
	check("GET", "/v1/jobs/{id}/result", "", 200)
	check("DELETE", "/v1/jobs/{id}", "", 200)
	id = "none"
	check("GET", "/v1/jobs/{id}", "", 404)
	check("GET", "/v1/devices", "", 200)
	id = rt.Devices()[0].Name
	check("GET", "/v1/devices/{device}", "", 200)
	check("POST", "/v1/devices/{device}/probe", "", 200)
	check("POST", "/v1/devices/{device}/recover", "{}", 200)
	check("POST", "/v1/devices/{device}/undrain", "", 200)
	check("POST", "/v1/devices/{device}/drain", "", 409)
	check("POST", "/v1/devices/{device}/swap", `{"to":"none"}`, 404)
	id = "sum"
	check("GET", "/v1/circuits", "", 200)
	check("GET", "/v1/circuits/{circuit}", "", 200)
	check("GET", "/v1/circuits/{circuit}/key", "", 200)
	check("POST", "/v1/circuits/{circuit}/verify", string(check("POST", "/v1/circuits/{circuit}/prove", fiveAndSeven, 200)), 400)
	check("POST", "/v1/circuits/{circuit}/verify", `{"proof":"","public":{"Sum":12}}`, 200)
	if err := json.Unmarshal(check("POST", "/v1/circuits/{circuit}/jobs", `{"witnesses":[{"Values":[5,7],"Sum":12},{"Values":[5,7],"Sum":1}]}`, 201), &j); err != nil {
		t.Fatal(err)
	}
	id = j.ID
	check("GET", "/v1/jobs/{id}/events", "", 200)
	check("GET", "/v1/jobs/{id}/result", "", 200)
	s.draining.Store(true)
	check("GET", "/readyz", "", 503)
	s.draining.Store(false)
}
