package load_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/weft-run/weft/serve/load"
)

// A server is asked what its model takes, and then for predictions at a rate.
func Example() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2/models/digits", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"name": "digits", "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 64]}]}`)
	})
	mux.HandleFunc("POST /v2/models/digits/infer", func(http.ResponseWriter, *http.Request) {})
	server := httptest.NewServer(mux)
	defer server.Close()

	ctx := context.Background()
	target, err := load.ParseTarget(server.URL)
	if err != nil {
		log.Fatal(err)
	}
	client, err := load.Open(ctx, load.Options{Target: target, Model: "digits", Batch: 8, Connections: 4})
	if err != nil {
		log.Fatal(err)
	}
	r, err := client.Run(ctx, load.Pace{Rate: 500, Duration: 100 * time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Arrived, "arrived,", r.Answered, "answered in batches of", r.Batch)
	// Output: 50 arrived, 50 answered in batches of 8
}
