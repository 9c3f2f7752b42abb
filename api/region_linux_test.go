package api_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/weft-run/weft/api"
)

// place is the part of a file in /dev/shm that a tensor is in.
type place struct {
	Region string `json:"shared_memory_region"`
	Offset int64  `json:"shared_memory_offset"`
	Size   int64  `json:"shared_memory_byte_size"`
}

// double doubles numbers of one file into another.
func double(from, to place) error {
	x := make([]byte, from.Size)
	if err := onFile(from, func(f *os.File) error { _, err := f.ReadAt(x, from.Offset); return err }); err != nil {
		return err
	}
	for at := 0; at < len(x); at += 4 {
		v := 2 * math.Float32frombits(binary.LittleEndian.Uint32(x[at:]))
		binary.LittleEndian.PutUint32(x[at:], math.Float32bits(v))
	}
	return onFile(to, func(f *os.File) error { _, err := f.WriteAt(x, to.Offset); return err })
}

func onFile(p place, do func(*os.File) error) error {
	f, err := os.OpenFile(filepath.Join("/dev/shm", filepath.Base(p.Region)), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return do(f)
}

// sharing is a server whose only model doubles x into y, both of them in a region that it was told of.
func sharing() *httptest.Server {
	regions := make(map[string]bool)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v2/systemsharedmemory/region/{region}/register", func(w http.ResponseWriter, r *http.Request) {
		var file struct{ Key string }
		if err := json.NewDecoder(r.Body).Decode(&file); err != nil || file.Key != "/"+r.PathValue("region") {
			http.Error(w, `{"error":"no such file"}`, http.StatusBadRequest)
			return
		}
		regions[r.PathValue("region")] = true
		fmt.Fprint(w, "{}")
	})
	mux.HandleFunc("POST /v2/systemsharedmemory/region/{region}/unregister", func(w http.ResponseWriter, r *http.Request) {
		delete(regions, r.PathValue("region"))
		fmt.Fprint(w, "{}")
	})
	mux.HandleFunc("POST /v2/models/double/infer", func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Inputs, Outputs []struct{ Parameters place }
		}
		err := json.NewDecoder(r.Body).Decode(&q)
		if err == nil && (len(q.Inputs) != 1 || len(q.Outputs) != 1 || !regions[q.Inputs[0].Parameters.Region] || !regions[q.Outputs[0].Parameters.Region]) {
			err = fmt.Errorf("%+v are no tensors in regions", q)
		}
		if err == nil {
			err = double(q.Inputs[0].Parameters, q.Outputs[0].Parameters)
		}
		if err != nil {
			http.Error(w, fmt.Sprintf(`{"error":%q}`, err), http.StatusBadRequest)
			return
		}
		p := q.Outputs[0].Parameters
		fmt.Fprintf(w, `{"model_name":"double","outputs":[{"name":"y","shape":[%d],"datatype":"FP32","parameters":{"shared_memory_region":%q,"shared_memory_offset":%d,"shared_memory_byte_size":%d}}]}`,
			p.Size/4, p.Region, p.Offset, p.Size)
	})
	return httptest.NewServer(mux)
}

// Tensors in a region are read and written by the server where they are, and not sent.
func ExampleClient_Register() {
	server := sharing() // or weft serve, with shared_memory: true and listen: unix:/PATH
	defer server.Close()
	c, err := api.NewClient(server.URL, api.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	region, err := api.NewRegion(4096)
	if err != nil {
		log.Fatal(err)
	}
	defer region.Close()
	ctx := context.Background()
	if err := c.Register(ctx, region); err != nil {
		log.Fatal(err)
	}
	defer c.Unregister(ctx, region)

	x, err := region.Tensor("x", "FP32", 0, 2)
	if err != nil {
		log.Fatal(err)
	}
	y, err := region.Tensor("y", "FP32", 2048, 2)
	if err != nil {
		log.Fatal(err)
	}
	copy(x.Data, api.NewTensor("", []float32{1, 2}).Data)
	if _, err := c.Infer(ctx, &api.InferRequest{Model: "double", Inputs: []api.Tensor{x}, Into: []api.Tensor{y}}); err != nil {
		log.Fatal(err)
	}
	values, err := api.Values[float32](&y)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(values)
	// Output: [2 4]
}

// A region is of this user alone, and gone when it is closed.
func TestRegion(t *testing.T) {
	before, err := filepath.Glob("/dev/shm/weft-*")
	if err != nil {
		t.Fatal(err)
	}
	r, err := api.NewRegion(10000)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []struct {
		kind   string
		offset int64
		shape  []int64
	}{{"FP32", 9997, []int64{1}}, {"FP32", -1, []int64{1}}, {"FP32", 0, []int64{-1}}, {"BYTES", 0, []int64{1}}, {"FP64", 1 << 62, []int64{1 << 59}}} {
		if x, err := r.Tensor("x", bad.kind, bad.offset, bad.shape...); err == nil {
			t.Errorf("%+v is %d bytes", bad, len(x.Data))
		}
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Errorf("again: %v", err)
	}
	if after, err := filepath.Glob("/dev/shm/weft-*"); err != nil || len(after) > len(before) {
		t.Errorf("%v is left, %v", after, err)
	}
	for _, size := range []int64{0, -1, math.MaxInt64} {
		if _, err := api.NewRegion(size); err == nil {
			t.Errorf("a region of %d bytes", size)
		}
	}
}
