package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/weft-run/weft/api"
)

// served stands in for weft serve, with one model that answers 2 and 4.
func served() *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v2/models/double/infer", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"model_name":"double","model_version":"1","outputs":[{"name":"y","shape":[2],"datatype":"FP32","data":[2,4]}]}`)
	})
	job := func(state string) string {
		return `{"id":"7","workload":"merkle","state":"` + state + `","progress":{"runs":1,"part":0}}`
	}
	mux.HandleFunc("POST /v1/jobs", func(w http.ResponseWriter, r *http.Request) {
		var q api.JobRequest
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || q.Workload != "merkle" {
			http.Error(w, `{"error":"unknown workload"}`, http.StatusBadRequest)
			return
		}
		io.WriteString(w, job(api.JobQueued))
	})
	mux.HandleFunc("GET /v1/jobs/7/events", func(w http.ResponseWriter, _ *http.Request) {
		for _, state := range []string{api.JobRunning, api.JobSucceeded} {
			fmt.Fprintf(w, "event: job\ndata: {\"kind\":\"job\",\"job\":%s}\n\n", job(state))
		}
	})
	mux.HandleFunc("GET /v1/jobs/7/result", func(w http.ResponseWriter, _ *http.Request) {
		io.Copy(w, strings.NewReader(`{"id":"7","job":"merkle 5000 leaves","class":"X","checked":true}`))
	})
	mux.HandleFunc("POST /v1/devices/cuda:0/swap", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"name":"cuda:0","state":"drained"}`)
	})
	return httptest.NewServer(mux)
}

// A prediction is one call with slices of Go.
func ExampleClient_Infer() {
	server := served() // or weft serve
	defer server.Close()
	c, err := api.NewClient(server.URL, api.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	r, err := c.Infer(context.Background(), &api.InferRequest{
		Model: "double", Inputs: []api.Tensor{api.NewTensor("x", []float32{1, 2})},
	})
	if err != nil {
		log.Fatal(err)
	}
	y, err := api.Values[float32](r.Output("y"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Model, y)
	// Output: double [2 4]
}

// A job is submitted, watched to its end, and asked for its result.
func ExampleClient_Submit() {
	server := served()
	defer server.Close()
	c, err := api.NewClient(server.URL, api.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	ctx := context.Background()
	job, err := c.Submit(ctx, api.JobRequest{Workload: "merkle", Parameters: map[string]any{"leaves": 5000}})
	if err != nil {
		log.Fatal(err)
	}
	for event, err := range c.Watch(ctx, job.ID) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(event.Job.State)
	}
	result, err := c.Result(ctx, job.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Job, result.Checked)
	// Output:
	// running
	// succeeded
	// merkle 5000 leaves true
}

// A server that is too busy says when to ask again. A client does so by itself, as often as Attempts
// allows; what it could not get is told with the time.
func ExampleError() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "1")
		w.Header().Set(api.HeaderRetry, "2.5") // milliseconds
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"error": "model double has more requests than it can compute in time"}`)
	}))
	defer server.Close()
	c, err := api.NewClient(server.URL, api.Options{Attempts: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	_, err = c.Infer(context.Background(), &api.InferRequest{Model: "double"})
	if busy := (*api.Error)(nil); errors.As(err, &busy) {
		fmt.Println(busy.Status, busy.RetryAfter)
	}
	// Output: 503 2.5ms
}

// A device is replaced while the server answers.
func ExampleClient_Swap() {
	server := served() // or weft serve, with spares: cuda:1
	defer server.Close()
	c, err := api.NewClient(server.URL, api.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	d, err := c.Swap(context.Background(), "cuda:0", "cuda:1")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Name, "is", d.State)
	// Output: cuda:0 is drained
}
