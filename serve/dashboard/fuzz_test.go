package dashboard

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weft-run/weft"
)

// Whatever is asked, there is an answer: a line that says what is wrong, and no panic. Without
// the page's own header and origin nothing is done.
func FuzzRequest(f *testing.F) {
	for _, seed := range [][4]string{
		{"GET", "/dashboard/timeline?since=1e309", "", ""}, {"GET", "/dashboard/static/%2e%2e/x", "", ""}, {"POST", "/dashboard/devices/fake:0/drain", "http://example.com", ""},
		{"POST", "/dashboard/devices/fake:0/swap", "http://example.com", `{"to":"fake:1"}`}, {"POST", "/dashboard/devices/%00/recover", "null", "{"}, {"POST", "/dashboard/jobs/%2F/cancel", "", ""},
		{"GET", "/dashboard/timeline?since=NaN", "", ""},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	rt := openFake(f, "devices 3", weft.Options{})
	d := newDashboard(rt, Options{Jobs: &fakeJobs{}})
	f.Fuzz(func(t *testing.T, method, path, origin, body string) {
		r, err := http.NewRequest(method, "http://example.com", strings.NewReader(body))
		if err != nil || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "/dashboard/stream") {
			return
		}
		if r.URL, err = r.URL.Parse(path); err != nil {
			return
		}
		r.Header.Set("Origin", origin)
		r.Header.Set(header, "1")
		before := rt.Metrics().Devices
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		if w.Code >= 500 {
			t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
		if w.Header().Get("Content-Type") == "application/json" && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s %s: not JSON: %s", method, path, w.Body)
		}
		for i, m := range rt.Metrics().Devices {
			if m.State != before[i].State && origin != "http://example.com" && !strings.HasSuffix(origin, "://"+r.Host) {
				t.Errorf("%s %s of %q: %s is %s", method, path, origin, m.Name, m.State)
			}
		}
	})
}
