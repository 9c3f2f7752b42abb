package serve

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/internal/test/poll"
	"github.com/weft-run/weft/serve/internal/infer"
)

const scaleGraph = `{
  "data": [
    {"name": "x", "dtype": "float32", "shape": [4, 3], "input": true},
    {"name": "w", "dtype": "float32", "shape": [3], "weights": "w.bin"},
    {"name": "y", "dtype": "float32", "shape": [4, 3], "output": true}
  ],
  "kernels": [{"name": "scale", "impls": [{"dialect": "go", "entry": "scale"}]}],
  "tasks": [{"kernel": "scale", "grid": 12, "uses": [{"data": "x"}, {"data": "w"}, {"data": "y", "access": "write"}]}]
}`

// put writes a file of a model as it is meant to be done, by putting it in the place of the old.
func put(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", b, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// A model is loaded again and again while clients ask it. Every request has an answer, of one
// model as a whole: of the one whose loading was done when it was made, or a later one.
func TestReloadUnderLoad(t *testing.T) {
	folder := t.TempDir()
	write := func(k int) {
		var w []byte
		for range 3 {
			w = binary.LittleEndian.AppendUint32(w, math.Float32bits(float32(k)))
		}
		put(t, filepath.Join(folder, "scale/w.bin"), w)
	}
	put(t, filepath.Join(folder, "scale/model.yaml"), []byte("kind: graph\nfile: m.json\nbatch: 4\n"))
	put(t, filepath.Join(folder, "scale/m.json"), []byte(scaleGraph))
	write(1)
	rt, err := weft.Open(t.Context(), weft.Options{Devices: "cpu/2", NoCalibrate: true, CacheDir: "off", Funcs: map[string]weft.Func{
		"scale": func(c *weft.Call, lo, hi int) {
			x, w, y := weft.View[float32](c.Args[0]), weft.View[float32](c.Args[1]), weft.View[float32](c.Args[2])
			for i := lo; i < hi; i++ {
				y[i] = w[i%len(w)] * x[i]
			}
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rt.Close() })
	service, err := infer.New(rt, infer.Options{Folder: folder, Deadline: patience})
	if err != nil {
		t.Fatal(err)
	}
	s, _, address := start(t, func(o *parts) { o.Service, o.Runtime, o.Config.Models = service, rt, folder })
	poll.True(t, "the model is ready", func() bool { return service.Ready() == nil })
	client, err := api.NewClient(address, api.Options{Attempts: -1}) // what is lost is not asked for again
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var loaded, written, answered atomic.Int64
	loaded.Store(1)
	written.Store(1)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	for range 4 {
		all.Go(func() {
			for ctx.Err() == nil {
				from := loaded.Load()
				r, err := client.Infer(t.Context(), &api.InferRequest{Model: "scale", Timeout: patience, Inputs: []api.Tensor{api.NewTensor("x", []float32{1, 1, 1}, 1, 3)}})
				if err != nil {
					t.Errorf("lost: %v", err)
					return
				}
				y, err := api.Values[float32](r.Output("y"))
				if err != nil || len(y) != 3 || y[0] != y[1] || y[1] != y[2] || y[0] < float32(from) || y[0] > float32(written.Load()) {
					t.Errorf("%v, %v, when %d was loaded and %d written", y, err, from, written.Load())
					return
				}
				answered.Add(1)
			}
		})
	}
	for k := 2; k <= 20 && !t.Failed(); k++ {
		before := answered.Load()
		poll.True(t, "the model answers", func() bool { return answered.Load() >= before+8 || t.Failed() })
		if k%5 == 0 { // a model that is broken takes nobody's place
			put(t, filepath.Join(folder, "scale/m.json"), []byte("{"))
			refused := (*api.Error)(nil)
			if err := client.Load(t.Context(), "scale"); !errors.As(err, &refused) || refused.Status != 400 {
				t.Errorf("a broken model: %v", err)
			}
			put(t, filepath.Join(folder, "scale/m.json"), []byte(scaleGraph))
		}
		written.Store(int64(k))
		write(k)
		if k%2 == 0 {
			err = s.Reload(t.Context())
		} else {
			err = client.Load(t.Context(), "scale")
		}
		if err != nil {
			t.Fatal(err)
		}
		loaded.Store(int64(k))
	}
}

// The keys name, inputs and outputs of a model are taken as docs/SERVE.md has it.
func TestModelKeys(t *testing.T) {
	folder := t.TempDir()
	for name, more := range map[string]string{
		"plain":   "",
		"same":    "name: same\ninputs: [{name: x, type: FP32, shape: [4, 3]}]\noutputs: [{name: y}]\n",
		"other":   "name: another\n",
		"renamed": "inputs: [{name: z}]\n",
		"wrong":   "outputs: [{name: y, type: FP64}]\n",
	} {
		put(t, filepath.Join(folder, name, "model.yaml"), []byte("kind: graph\nfile: m.json\nbatch: 4\n"+more))
		put(t, filepath.Join(folder, name, "m.json"), []byte(scaleGraph))
		put(t, filepath.Join(folder, name, "w.bin"), make([]byte, 12))
	}
	rt, err := weft.Open(t.Context(), weft.Options{Devices: "cpu", NoCalibrate: true, CacheDir: "off", Funcs: map[string]weft.Func{"scale": func(*weft.Call, int, int) {}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rt.Close() })
	service, err := infer.New(rt, infer.Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	h, _, s := handlerOf(t, func(o *parts) { o.Service, o.Runtime, o.Config.Models = service, rt, folder })
	defer s.drain(context.WithoutCancel(t.Context()))
	poll.True(t, "all were tried", func() bool { return !service.Opening() })
	for name, want := range map[string]string{"plain": "", "same": "", "other": "has the name of its folder", "renamed": "z", "wrong": "FP64"} {
		info, err := service.Model(name, "")
		if err != nil || (info.State == infer.Ready) != (want == "") || !strings.Contains(info.Reason, want) {
			t.Errorf("%s is %s, %s, %v", name, info.State, info.Reason, err)
		}
		w := ask(h, "GET", "/v2/models/"+name, "")
		if shown := `"inputs":[{"name":"x","datatype":"FP32","shape":[-1,3]}]`; want == "" && !strings.Contains(fmt.Sprint(w.Body), shown) {
			t.Errorf("%s: %s", name, w.Body)
		}
	}
}
