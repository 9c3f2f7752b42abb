package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// Device is a device of the server. Fields that are nil are not known.
type Device struct {
	Name  string `json:"name"`
	Model string `json:"model"`
	// State is healthy, suspect, draining, drained, lost, unresponsive, broken or spare. Those
	// that are healthy take work.
	State     string `json:"state"`
	Tasks     int64  `json:"tasks"`  // that ended there, well or not
	Failed    int64  `json:"failed"` // of these
	Queued    int    `json:"queued"` // tasks placed on it that have not ended
	Losses    int64  `json:"losses"` // how often it was lost
	LastError string `json:"last_error,omitempty"`

	Utilisation *float64 `json:"utilisation,omitempty"` // 0 to 1
	Temperature *float64 `json:"temperature_celsius,omitempty"`
	Power       *float64 `json:"power_watts,omitempty"`
	MemoryUsed  *int64   `json:"memory_used_bytes,omitempty"` // by all programs
	Memory      *int64   `json:"memory_bytes,omitempty"`
}

// SwapRequest names what takes a device's place.
type SwapRequest struct {
	To string `json:"to"`
}

// Devices lists the devices of the server.
func (c *Client) Devices(ctx context.Context) ([]Device, error) {
	var out struct {
		Devices []Device `json:"devices"`
	}
	err := c.json(ctx, http.MethodGet, "/v1/devices", nil, nil, &out)
	return out.Devices, err
}

// Device returns a device as it is now.
func (c *Client) Device(ctx context.Context, name string) (out Device, err error) {
	return out, c.json(ctx, http.MethodGet, devicePath(name), nil, nil, &out)
}

// Drain takes a device out of service while the server answers: it gets no new work, finishes
// what it has, and hands over what only its memory holds. Drain returns when it holds nothing.
// ctx ends the wait and not the drain. The last device that takes work is refused.
func (c *Client) Drain(ctx context.Context, device string) (Device, error) {
	return c.act(ctx, device, "drain", nil, "draining")
}

// Undrain puts a device into service that was drained, swapped out or a spare.
func (c *Client) Undrain(ctx context.Context, device string) (Device, error) {
	return c.act(ctx, device, "undrain", nil)
}

// Swap puts one device in another's place while the server answers: new work goes to the second
// at once, and the first is drained. It returns the first when that holds nothing. ctx ends the
// wait and not the swap.
func (c *Client) Swap(ctx context.Context, from, to string) (Device, error) {
	return c.act(ctx, from, "swap", SwapRequest{To: to}, "draining")
}

// Recover has a device that is lost or broken brought back, and returns when it is. ctx ends the
// wait and not the attempt.
func (c *Client) Recover(ctx context.Context, device string) (Device, error) {
	d, err := c.act(ctx, device, "recover", nil, "lost", "suspect", "unresponsive")
	if err == nil && d.State == "broken" {
		err = fmt.Errorf("%s could not be brought back: %s", device, d.LastError)
	}
	return d, err
}

// Probe samples the condition of a device now, and returns it.
func (c *Client) Probe(ctx context.Context, device string) (Device, error) {
	return c.act(ctx, device, "probe", nil)
}

// act has the server do something with a device. Where that takes longer than an answer may, the
// server says so with the device, in one of the states during, and is asked until that is over.
func (c *Client) act(ctx context.Context, device, action string, in any, during ...string) (out Device, err error) {
	err = c.json(ctx, http.MethodPost, devicePath(device)+"/"+action, nil, in, &out)
	for err == nil && slices.Contains(during, out.State) {
		select {
		case <-time.After(lookAgain):
			out, err = c.Device(ctx, device)
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	return out, err
}

// lookAgain is the time between two questions about a device that the server is still changing.
const lookAgain = 200 * time.Millisecond

func devicePath(name string) string { return "/v1/devices/" + url.PathEscape(name) }
