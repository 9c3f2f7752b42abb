package dashboard_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/serve/dashboard"
)

// A program shows its own runtime.
func ExampleNew() {
	rt, err := weft.Open(context.Background(), weft.Options{Devices: "cpu/2", NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	h := dashboard.New(rt, dashboard.Options{Name: "my program"}) // to be mounted at /
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	fmt.Println(w.Code == http.StatusOK, w.Header().Get("Content-Type"))
	// Output: true text/html; charset=utf-8
}
