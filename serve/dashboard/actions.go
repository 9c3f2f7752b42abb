package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/weft-run/weft"
)

// header is one that scripts of other origins cannot send without asking the server first,
// which never permits it.
const header = "X-Weft-Dashboard"

// actionWait is how long an answer waits for an action, which goes on afterwards: longer than
// most tasks, and shorter than what browsers and proxies give up after.
const actionWait = 20 * time.Second

// outcome is the answer to an action.
type outcome struct {
	Done    bool   `json:"done"` // false: it goes on, or has failed
	Message string `json:"message"`
}

// refused returns why a request must not act, with a status, nil if it may.
func (d *dashboard) refused(r *http.Request) (status int, err error) {
	_, host, _ := strings.Cut(r.Header.Get("Origin"), "://")
	switch site := r.Header.Get("Sec-Fetch-Site"); {
	case r.Header.Get(header) == "":
		return http.StatusForbidden, fmt.Errorf("the request has no header %s: only the dashboard's own page may act", header)
	case host == "" || host != r.Host, site != "" && site != "same-origin":
		return http.StatusForbidden, errors.New("the request comes from another page: only the dashboard's own may act")
	}
	return 0, nil
}

// serveDevice does something with a device.
func (d *dashboard) serveDevice(w http.ResponseWriter, r *http.Request) {
	if status, err := d.refused(r); err != nil {
		reply(w, status, outcome{Message: oneLine(err)})
		return
	}
	var body struct {
		To string `json:"to"` // swap: what takes the place
	}
	name, action := r.PathValue("name"), r.PathValue("action")
	if action == "swap" {
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4096)).Decode(&body); err != nil || body.To == "" {
			reply(w, http.StatusBadRequest, outcome{Message: `a swap needs the device that takes the place, as in {"to": "cuda:1"}`})
			return
		}
	}
	// The server's time for taking an answer begins with the answer. Where no deadline can be
	// set, there is none.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d.wait + writeWait))
	// The request may end before the action: a browser that leaves calls nothing off.
	ctx, cancel := context.WithTimeout(r.Context(), d.wait)
	defer cancel()
	var err error
	said := ""
	switch action {
	case "drain":
		err, said = d.rt.Drain(ctx, name), "is drained"
	case "undrain":
		err, said = d.rt.Undrain(name), "is back in service"
	case "recover":
		err, said = d.rt.Recover(ctx, name), "is there"
	case "swap":
		err, said = d.rt.Swap(ctx, name, body.To), "was replaced by "+body.To
	default:
		reply(w, http.StatusNotFound, outcome{Message: fmt.Sprintf("there is no action %q; use drain, undrain, recover or swap", action)})
		return
	}
	switch {
	case err == nil:
		reply(w, http.StatusOK, outcome{Done: true, Message: name + " " + said})
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil:
		reply(w, http.StatusAccepted, outcome{Message: fmt.Sprintf("%s of %s goes on: it takes longer than %v", action, name, d.wait)})
	case errors.Is(err, weft.ErrDevice):
		reply(w, http.StatusNotFound, outcome{Message: oneLine(err)})
	default:
		reply(w, http.StatusConflict, outcome{Message: oneLine(err)})
	}
}

// serveCancel ends a job.
func (d *dashboard) serveCancel(w http.ResponseWriter, r *http.Request) {
	if status, err := d.refused(r); err != nil {
		reply(w, status, outcome{Message: oneLine(err)})
		return
	}
	if d.o.Jobs == nil {
		reply(w, http.StatusNotFound, outcome{Message: "this server has no jobs"})
		return
	}
	id := r.PathValue("id")
	if err := d.o.Jobs.Cancel(id); err != nil {
		reply(w, http.StatusConflict, outcome{Message: oneLine(err)})
		return
	}
	reply(w, http.StatusOK, outcome{Done: true, Message: "job " + id + " is cancelled"})
}
