package api_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/internal/infer"
	"github.com/weft-run/weft/internal/serve"
)

// doubling is a service with a model that doubles x into y.
type doubling struct{ serve.Service }

func (doubling) Infer(_ context.Context, r *infer.Request) (*infer.Response, error) {
	y := r.Inputs[0]
	y.Name, y.Data = "y", make([]byte, len(y.Data))
	for at := 0; at < len(y.Data); at += 4 {
		x := math.Float32frombits(binary.LittleEndian.Uint32(r.Inputs[0].Data[at:]))
		binary.LittleEndian.PutUint32(y.Data[at:], math.Float32bits(2*x))
	}
	return &infer.Response{Model: r.Model, Outputs: []infer.Tensor{y}}, nil
}

func (doubling) Close(context.Context) error { return nil }

// onSocket is a server with that model on a Unix socket, with shared memory.
func onSocket() (address string, end func()) {
	dir, err := os.MkdirTemp("", "w")
	if err != nil {
		log.Fatal(err)
	}
	c := serve.DefaultConfig()
	c.Listen, c.SharedMemory = "unix:"+filepath.Join(dir, "s"), true
	s, err := serve.New(serve.Options{Config: c, Service: doubling{}})
	if err == nil {
		err = s.Listen()
	}
	if err != nil {
		log.Fatal(err)
	}
	go s.Serve()
	return s.URL(), func() {
		s.Drain(context.Background())
		os.RemoveAll(dir)
	}
}

// Tensors in a region are read and written by the server where they are, and not sent.
func ExampleClient_Register() {
	address, end := onSocket() // or weft serve, with shared_memory: true and listen: unix:/PATH
	defer end()
	c, err := api.NewClient(address, api.Options{})
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
