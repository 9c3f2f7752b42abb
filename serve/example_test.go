package serve_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/serve"
)

// doubling is a model that doubles three numbers, by a kernel of the program.
const doubling = `{
  "data": [
    {"name": "x", "dtype": "float32", "shape": [1, 3], "input": true},
    {"name": "y", "dtype": "float32", "shape": [1, 3], "output": true}
  ],
  "kernels": [{"name": "double", "impls": [{"dialect": "go", "entry": "double"}]}],
  "tasks": [{"kernel": "double", "grid": 3, "uses": [{"data": "x"}, {"data": "y", "access": "write"}]}]
}`

func double(c *weft.Call, lo, hi int) {
	x, y := weft.View[float32](c.Args[0]), weft.View[float32](c.Args[1])
	for i := lo; i < hi; i++ {
		y[i] = 2 * x[i]
	}
}

// A program serves a model of its own, and asks it as any client would.
func Example() {
	models, err := os.MkdirTemp("", "models")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(models)
	for name, text := range map[string]string{"model.yaml": "kind: graph\nfile: graph.json\n", "graph.json": doubling} {
		if err := os.MkdirAll(filepath.Join(models, "double"), 0o700); err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(models, "double", name), []byte(text), 0o600); err != nil {
			log.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	config := serve.DefaultConfig()
	config.Listen, config.GRPC, config.Models, config.Devices = "127.0.0.1:0", "none", models, "cpu"
	rt, _, err := config.Open(ctx, func(ctx context.Context, o weft.Options) (*weft.Runtime, error) {
		o.Funcs["double"] = double
		return weft.Open(ctx, o)
	})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	server, err := serve.Open(rt, config, serve.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	go server.Serve(ctx)

	if err := server.Loaded(ctx); err != nil {
		log.Fatal(err)
	}
	client, err := api.NewClient(server.URL(), api.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	answer, err := client.Infer(ctx, &api.InferRequest{Model: "double", Inputs: []api.Tensor{api.NewTensor("x", []float32{1, 2, 3}, 1, 3)}})
	if err != nil {
		log.Fatal(err)
	}
	y, err := api.Values[float32](answer.Output("y"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(y)
	// Output: [2 4 6]
}
