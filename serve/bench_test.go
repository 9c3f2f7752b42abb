package serve

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/serve/internal/infer"
)

// inferBodies are requests with the input of a reservoir, 1280 numbers, as JSON and as binary
// data, of which the JSON has header bytes.
func inferBodies(b *testing.B) map[string]struct {
	body   []byte
	header int
} {
	x := make([]float32, 20*64)
	for i := range x {
		x[i] = float32(i%7) / 7
	}
	t := api.NewTensor("input", x, 1, 20, 64)
	list, err := t.AppendJSON(nil)
	if err != nil {
		b.Fatal(err)
	}
	head := `{"inputs":[{"name":"input","shape":[1,20,64],"datatype":"FP32",`
	text := head + `"data":` + string(list) + `}]}`
	head += `"parameters":{"binary_data_size":` + strconv.Itoa(len(t.Data)) + `}}],"parameters":{"binary_data_output":true}}`
	return map[string]struct {
		body   []byte
		header int
	}{"json": {[]byte(text), -1}, "binary": {append([]byte(head), t.Data...), len(head)}}
}

// BenchmarkInference reads the body of a request.
func BenchmarkInference(b *testing.B) {
	for name, q := range inferBodies(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(20 * 64 * 4)
			for b.Loop() {
				if _, err := parseInference(q.body, q.header); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// still is a service that has its answer.
type still struct {
	*fake
	answer infer.Response
}

func (s *still) Infer(context.Context, *infer.Request) (*infer.Response, error) {
	return &s.answer, nil
}

// sink takes answers as a connection does.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header             { return s.header }
func (s *sink) WriteHeader(status int)          { s.status = status }
func (s *sink) Write(b []byte) (int, error)     { return len(b), nil }
func (s *sink) SetReadDeadline(time.Time) error { return nil }

func (s *sink) SetWriteDeadline(time.Time) error { return nil }

// BenchmarkInfer is all that the server does for a prediction, but for what package http and
// the service do.
func BenchmarkInfer(b *testing.B) {
	out := api.NewTensor("output", make([]float32, 10), 1, 10)
	service := &still{newFake(), infer.Response{Model: "double", Version: "1", Batch: 1, Device: "cpu:0",
		Outputs: []infer.Tensor{{Name: out.Name, Type: infer.FP32, Shape: out.Shape, Data: out.Data}}}}
	h, _, _ := handlerOf(b, func(o *parts) { o.Service = service })
	for name, q := range inferBodies(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			body := bytes.NewReader(nil)
			r := httptest.NewRequest("POST", "/v2/models/double/infer", body)
			r.Host, r.RemoteAddr = "localhost:8000", "127.0.0.1:4000"
			r.ContentLength = int64(len(q.body))
			r.Header.Set("Content-Type", "application/json")
			if q.header >= 0 {
				r.Header.Set("Content-Type", "application/octet-stream")
				r.Header.Set(api.HeaderLength, strconv.Itoa(q.header))
			}
			r.Body = io.NopCloser(body)
			w := &sink{header: http.Header{}}
			for b.Loop() {
				body.Reset(q.body)
				clear(w.header)
				w.status = 200
				if h.ServeHTTP(w, r); w.status != 200 {
					b.Fatal(w.status)
				}
			}
		})
	}
}
