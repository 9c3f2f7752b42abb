package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// HeaderLength is the header that says how many bytes of a body are JSON; the tensors
// follow.
const HeaderLength = "Inference-Header-Content-Length"

// HeaderRetry is the header by which weft serve says after how many milliseconds a request that it
// refused is best made again, as "0.25". Retry-After has the same in whole seconds.
const HeaderRetry = "Retry-After-Ms"

// The objects of the protocol.
type (
	wireTensor struct {
		Name       string          `json:"name"`
		Shape      []int64         `json:"shape,omitempty"`
		Datatype   string          `json:"datatype,omitempty"`
		Parameters map[string]any  `json:"parameters,omitempty"`
		Data       json.RawMessage `json:"data,omitempty"`
	}
	wireRequest struct {
		ID         string         `json:"id,omitempty"`
		Parameters map[string]any `json:"parameters,omitempty"`
		Inputs     []wireTensor   `json:"inputs"`
		Outputs    []wireTensor   `json:"outputs,omitempty"`
	}
	wireResponse struct {
		Model      string                     `json:"model_name"`
		Version    string                     `json:"model_version"`
		ID         string                     `json:"id"`
		Parameters map[string]json.RawMessage `json:"parameters"`
		Outputs    []struct {
			Name       string  `json:"name"`
			Shape      []int64 `json:"shape"`
			Datatype   string  `json:"datatype"`
			Parameters struct {
				Size   *int64 `json:"binary_data_size"`
				Region string `json:"shared_memory_region"`
				Shared int64  `json:"shared_memory_byte_size"`
			} `json:"parameters"`
			Data json.RawMessage `json:"data"`
		} `json:"outputs"`
	}
)

// Infer asks for a prediction. A prediction changes nothing, so it is asked for again when
// the server could not be reached or was too busy.
func (c *Client) Infer(ctx context.Context, r *InferRequest) (*InferResponse, error) {
	q, err := encodeInfer(r)
	if err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	resp, err := c.do(ctx, q)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := readAll(resp)
	if err != nil {
		return nil, err
	}
	out, err := decodeInfer(body, resp.Header.Get(HeaderLength), r.Into)
	if err != nil {
		return nil, fmt.Errorf("api: the answer of the server: %w", err)
	}
	return out, nil
}

// encodeInfer makes the request of a prediction.
func encodeInfer(r *InferRequest) (call, error) {
	w := wireRequest{ID: r.ID, Parameters: map[string]any{}, Inputs: make([]wireTensor, len(r.Inputs))}
	if r.Priority != 0 {
		w.Parameters["priority"] = r.Priority
	}
	if r.Timeout > 0 {
		w.Parameters["timeout"] = max(r.Timeout.Microseconds(), 1)
	}
	if !r.JSON {
		w.Parameters["binary_data_output"] = true
	}
	size := 0 // of binary data
	for i := range r.Inputs {
		t := &r.Inputs[i]
		if err := t.check(); err != nil {
			return call{}, err
		}
		w.Inputs[i] = wireTensor{Name: t.Name, Shape: t.Shape, Datatype: t.Datatype}
		if w.Inputs[i].Shape == nil {
			w.Inputs[i].Shape = []int64{}
		}
		if p := t.shared(); p != nil {
			w.Inputs[i].Parameters = p
			continue
		}
		if !r.JSON {
			w.Inputs[i].Parameters = map[string]any{"binary_data_size": len(t.Data)}
			size += len(t.Data)
			continue
		}
		var err error
		if w.Inputs[i].Data, err = t.AppendJSON(nil); err != nil {
			return call{}, err
		}
	}
	for _, name := range r.Outputs {
		if !slices.ContainsFunc(r.Into, func(t Tensor) bool { return t.Name == name }) {
			w.Outputs = append(w.Outputs, wireTensor{Name: name})
		}
	}
	for i := range r.Into {
		p := r.Into[i].shared()
		if p == nil {
			return call{}, fmt.Errorf("output %q is not in a region; Region.Tensor makes such a tensor", r.Into[i].Name)
		}
		w.Outputs = append(w.Outputs, wireTensor{Name: r.Into[i].Name, Parameters: p})
	}
	head, err := json.Marshal(w)
	if err != nil {
		return call{}, err
	}
	q := call{method: http.MethodPost, path: modelPath(r.Model, r.Version) + "/infer", header: http.Header{}, body: head, repeatable: true}
	q.header.Set("Content-Type", "application/json")
	if !r.JSON {
		q.header.Set("Content-Type", "application/octet-stream")
		q.header.Set(HeaderLength, strconv.Itoa(len(head)))
		q.body = slices.Grow(head, size)
		for i := range r.Inputs {
			if r.Inputs[i].shared() == nil {
				q.body = append(q.body, r.Inputs[i].Data...)
			}
		}
	}
	return q, nil
}

// decodeInfer reads a prediction. length is the header that says where binary data begins,
// "" if there is none, and into the room that the request gave for outputs.
func decodeInfer(body []byte, length string, into []Tensor) (*InferResponse, error) {
	head, tail := body, []byte(nil)
	if length != "" {
		n, err := strconv.Atoi(length)
		if err != nil || n < 0 || n > len(body) {
			return nil, fmt.Errorf("%s is %q in an answer of %d bytes", HeaderLength, length, len(body))
		}
		head, tail = body[:n], body[n:]
	}
	var w wireResponse
	if err := json.Unmarshal(head, &w); err != nil {
		return nil, err
	}
	out := &InferResponse{Model: w.Model, Version: w.Version, ID: w.ID}
	told := func(name string, to any) {
		_ = json.Unmarshal(w.Parameters[name], to) // another server may mean something else by it
	}
	told("batch", &out.Batch)
	told("device", &out.Device)
	var queued, computed int64
	told("queue_us", &queued)
	told("compute_us", &computed)
	out.Queued, out.Computed = time.Duration(queued)*time.Microsecond, time.Duration(computed)*time.Microsecond
	for _, o := range w.Outputs {
		t := Tensor{Name: o.Name, Datatype: o.Datatype, Shape: o.Shape}
		if o.Parameters.Region != "" {
			at := slices.IndexFunc(into, func(t Tensor) bool { return t.Name == o.Name })
			if n := o.Parameters.Shared; at < 0 || n < 0 || n > int64(len(into[at].Data)) {
				return nil, fmt.Errorf("output %q has %d bytes in shared memory, where there is no such room", o.Name, n)
			}
			t.Data, t.region, t.offset = into[at].Data[:o.Parameters.Shared], into[at].region, into[at].offset
		} else if size := o.Parameters.Size; size != nil {
			if *size < 0 || *size > int64(len(tail)) {
				return nil, fmt.Errorf("output %q has %d bytes of data and %d are left", o.Name, *size, len(tail))
			}
			t.Data, tail = tail[:*size:*size], tail[*size:]
		} else if err := t.parse(o.Data); err != nil {
			return nil, fmt.Errorf("output %q: %w", o.Name, err)
		}
		if err := t.check(); err != nil {
			return nil, err
		}
		out.Outputs = append(out.Outputs, t)
	}
	if len(tail) > 0 {
		return nil, fmt.Errorf("%d bytes follow the last output", len(tail))
	}
	return out, nil
}
