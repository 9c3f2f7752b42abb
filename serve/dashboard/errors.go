package dashboard

import (
	"fmt"
	"html"
	"net/http"
	"strings"
)

// missing answers a request that the dashboard has nothing for: nothing is at its path, or another method
// is meant.
func (d *dashboard) missing(w http.ResponseWriter, r *http.Request) {
	h, _ := d.mux.Handler(r)
	said := unwritten{header: http.Header{}}
	h.ServeHTTP(&said, r)
	if allow := said.header.Get("Allow"); said.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", allow)
		refuse(w, r, http.StatusMethodNotAllowed, fmt.Sprintf("%.64q takes %s and not %.16q", r.URL.Path, allow, r.Method))
		return
	}
	refuse(w, r, http.StatusNotFound, fmt.Sprintf("nothing is at %.64q; the dashboard is at /", r.URL.Path))
}

// unwritten takes what package http answers where there is no route.
type unwritten struct {
	header http.Header
	status int
}

func (u *unwritten) Header() http.Header         { return u.header }
func (u *unwritten) WriteHeader(status int)      { u.status = status }
func (u *unwritten) Write(b []byte) (int, error) { return len(b), nil }

// refuse answers with an error: a page for a person whose browser asks for one, and else JSON, as the server
// answers with errors.
func refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	if !wantsPage(r) {
		reply(w, status, map[string]string{"error": why})
		return
	}
	w.Header().Set("Content-Type", types[".html"])
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, errorPage, status, http.StatusText(status), html.EscapeString(why)) // whoever has gone needs no answer
}

// wantsPage reports whether a request asks for a page before JSON. Browsers name pages first.
func wantsPage(r *http.Request) bool {
	for kind := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		switch kind, _, _ = strings.Cut(kind, ";"); strings.TrimSpace(kind) {
		case "text/html", "application/xhtml+xml":
			return true
		case "application/json", "application/*", "*/*":
			return false
		}
	}
	return false
}

const errorPage = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%d %s · weft</title>
<link rel="icon" href="/dashboard/static/icon.svg">
<link rel="stylesheet" href="/dashboard/static/style.css">
</head>
<body>
<main>
<p>%s</p>
<p><a href="/">The dashboard</a></p>
</main>
</body>
</html>
`
