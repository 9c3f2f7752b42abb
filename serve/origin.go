package serve

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/weft-run/weft/api"
)

// listed reports whether the configuration names the origin of a page.
func (s *Server) listed(origin string) bool {
	for _, o := range s.config.Origins {
		if strings.EqualFold(o, origin) {
			return true
		}
	}
	return false
}

// What pages of listed origins may send and read, beside what every page may. The header of
// the dashboard is not among them, nor are cookies and passwords that a browser remembers: a
// page sends the token itself.
var (
	sharedMethods = []string{"GET, POST, DELETE"}
	sharedHeaders = []string{strings.Join([]string{"Authorization", "Content-Type", "Idempotency-Key", api.HeaderLength, lastEventID, "Traceparent"}, ", ")}
	sharedAnswers = []string{strings.Join([]string{"Allow", "Content-Length", api.HeaderLength, api.HeaderRetry, "Retry-After", "WWW-Authenticate"}, ", ")}
	sharedFor     = []string{"600"} // seconds that a browser may remember it
	byOrigin      = []string{"Origin"}
)

// shareWith lets a page of a listed origin read the answer (CORS). It reports whether the request
// is a browser's question what the page may send, to which that is the answer.
func (s *Server) shareWith(h http.Header, r *http.Request) (question bool) {
	if len(s.config.Origins) == 0 {
		return false
	}
	h["Vary"] = byOrigin // for caches
	origin := r.Header.Get("Origin")
	if origin == "" || !s.listed(origin) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
		h["Access-Control-Allow-Methods"] = sharedMethods
		h["Access-Control-Allow-Headers"] = sharedHeaders
		h["Access-Control-Max-Age"] = sharedFor
		return true
	}
	h["Access-Control-Expose-Headers"] = sharedAnswers
	return false
}

// checkOrigin errs for an origin that no browser sends.
func checkOrigin(origin string) error {
	u, err := url.Parse(origin)
	switch {
	case origin == "*", origin == "null":
		return fmt.Errorf("%q is any page; name each, as https://tools.example.org", origin)
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Scheme+"://"+u.Host != origin:
		return fmt.Errorf("%q is not what browsers send; write SCHEME://HOST or SCHEME://HOST:PORT and nothing after it, as https://tools.example.org", origin)
	case u.Port() == map[string]string{"http": "80", "https": "443"}[u.Scheme], strings.HasSuffix(u.Host, ":"):
		return fmt.Errorf("%q: browsers leave out the port that goes without saying; so must you", origin)
	case strings.ContainsFunc(u.Host, func(c rune) bool { return c > '~' }):
		return errors.New("browsers send names in ASCII, as xn--…; so must you")
	}
	return nil
}
