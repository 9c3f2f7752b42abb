package serve

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/api"
)

// actionWait is the time that an answer waits for an action on a device, which goes on
// afterwards: longer than most batches, and shorter than what proxies give up after.
const actionWait = 20 * time.Second

// deviceActions are the actions on a device that clients can ask for while the server answers. to is
// what takes its place, of a swap alone.
var deviceActions = []struct {
	name string
	do   func(ctx context.Context, rt *weft.Runtime, device, to string) error
}{
	{"drain", func(ctx context.Context, rt *weft.Runtime, device, _ string) error { return rt.Drain(ctx, device) }},
	{"undrain", func(_ context.Context, rt *weft.Runtime, device, _ string) error { return rt.Undrain(device) }},
	{"swap", func(ctx context.Context, rt *weft.Runtime, device, to string) error { return rt.Swap(ctx, device, to) }},
	{"recover", func(ctx context.Context, rt *weft.Runtime, device, _ string) error { return rt.Recover(ctx, device) }},
	{"probe", func(ctx context.Context, rt *weft.Runtime, device, _ string) error {
		_, err := rt.Probe(ctx, device)
		return err
	}},
}

// deviceRoutes are the routes of devices.
func (s *Server) deviceRoutes() []route {
	list := []route{
		{http.MethodGet, "/v1/devices", s.listDevices},
		{http.MethodGet, "/v1/devices/{device}", s.getDevice},
	}
	for _, a := range deviceActions {
		list = append(list, route{http.MethodPost, "/v1/devices/{device}/" + a.name, func(w http.ResponseWriter, r *http.Request) error {
			var q api.SwapRequest
			fields := map[string]func() error{}
			err := s.small(w, r, func(in *reader) error {
				if a.name == "swap" {
					fields["to"] = func() (err error) { q.To, err = in.name(); return err }
				}
				return in.fields(fields)
			})
			if err != nil {
				return err
			}
			if a.name == "swap" && q.To == "" {
				return badf(`a swap needs the device that takes the place, as in {"to": "cuda:1"}`)
			}
			return s.act(w, r, func(ctx context.Context, device string) error { return a.do(ctx, s.rt, device, q.To) })
		}})
	}
	return list
}

// act does something with the device of a request, and answers with the device as it is then:
// with 202 if that goes on.
func (s *Server) act(w http.ResponseWriter, r *http.Request, do func(ctx context.Context, device string) error) error {
	name := r.PathValue("device")
	if _, err := s.device(name); err != nil {
		return err
	}
	// The request may end before the action: a client that leaves calls nothing off.
	ctx, cancel := context.WithTimeout(r.Context(), s.actionWait)
	defer cancel()
	status := http.StatusOK
	switch err := do(ctx, name); {
	case err == nil:
		s.log.Info("done with a device, as a client asked", "path", short(r.URL.Path), "client", clientOf(r.Context()))
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil:
		status = http.StatusAccepted
	case errors.Is(err, weft.ErrDevice):
		return failf(http.StatusNotFound, "%w", err)
	case r.Context().Err() != nil:
		return err
	default:
		return failf(http.StatusConflict, "%w", err)
	}
	d, err := s.device(name)
	if err != nil {
		return err
	}
	s.answer(w, status, d)
	return nil
}

func (s *Server) listDevices(w http.ResponseWriter, _ *http.Request) error {
	s.answer(w, http.StatusOK, map[string][]api.Device{"devices": s.devices()})
	return nil
}

func (s *Server) getDevice(w http.ResponseWriter, r *http.Request) error {
	d, err := s.device(r.PathValue("device"))
	if err != nil {
		return err
	}
	s.answer(w, http.StatusOK, d)
	return nil
}

// device is the device of a name, as it is now.
func (s *Server) device(name string) (api.Device, error) {
	for _, d := range s.devices() {
		if d.Name == name {
			return d, nil
		}
	}
	return api.Device{}, failf(http.StatusNotFound, "no device %s; GET /v1/devices lists them", quoted(name))
}

// devices are those of the runtime.
func (s *Server) devices() []api.Device {
	out := []api.Device{}
	if s.rt == nil {
		return out
	}
	found := s.rt.Devices()
	for i, m := range s.rt.Metrics().Devices {
		h := &m.Health
		out = append(out, api.Device{
			Name: m.Name, Model: found[i].Model, State: m.State, Tasks: m.Tasks, Failed: m.Failed, Queued: m.Queued, Losses: m.Losses, LastError: m.LastError,
			Utilisation: reported(h.Util), Temperature: reported(h.TempC), Power: reported(h.PowerW), MemoryUsed: reported(h.MemUsed), Memory: reported(h.MemBytes),
		})
	}
	return out
}

// reported is a figure of a device, nil for one that is not known.
func reported[T int64 | float64](x T) *T {
	if x < 0 {
		return nil
	}
	return &x
}
