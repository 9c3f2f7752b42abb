package metrics_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/weft-run/weft/serve/internal/infer"
	"github.com/weft-run/weft/serve/internal/metrics"
)

// A server mounts the collector, and calls Run beside it.
func Example() {
	c := metrics.New(metrics.Source{
		Models: func() []infer.Stats { return []infer.Stats{{Model: "digits", Version: "1", Items: 42}} },
		Prices: metrics.Prices{KWh: 0.30, Prediction: 0.001},
	})
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", c)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "weft_predictions_total") {
			fmt.Print(line)
		}
	}
	// Output: weft_predictions_total{model="digits",version="1"} 42
}
