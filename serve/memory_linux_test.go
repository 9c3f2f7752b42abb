package serve

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weft-run/weft/api"
)

// startShared starts a server with shared memory on a socket, and returns a client.
func startShared(t testing.TB) (*api.Client, *Server) {
	t.Helper()
	dir, err := os.MkdirTemp("", "w") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s, _, address := start(t, func(o *parts) {
		o.Config.Listen, o.Config.SharedMemory = "unix:"+filepath.Join(dir, "s"), true
	})
	c, err := api.NewClient(address, api.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, s
}

// regionOf makes a region that a server knows.
func regionOf(t testing.TB, c *api.Client, size int64) *api.Region {
	t.Helper()
	r, err := api.NewRegion(size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	if err := c.Register(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	return r
}

// room is a tensor in a region.
func room(t testing.TB, r *api.Region, name string, offset int64, shape ...int64) api.Tensor {
	t.Helper()
	x, err := r.Tensor(name, "FP32", offset, shape...)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// Tensors in shared memory are those that were put there, and results come back there.
func TestSharedMemory(t *testing.T) {
	c, _ := startShared(t)
	ctx := t.Context()
	if m, err := c.Server(ctx); err != nil || !strings.Contains(fmt.Sprint(m.Extensions), "system_shared_memory") {
		t.Errorf("%v, %v", m, err)
	}
	r := regionOf(t, c, 1<<16)
	x, y := room(t, r, "x", 8, 2, 3), room(t, r, "y", 4096, 8)
	values := []float32{1, -2, 0.5, float32(math.NaN()), float32(math.Inf(1)), 3}
	copy(x.Data, api.NewTensor("", values).Data)
	check := func(got *api.Tensor) {
		t.Helper()
		list, err := api.Values[float32](got)
		if err != nil || len(list) != len(values) {
			t.Fatalf("%v, %v", list, err)
		}
		for i, v := range values {
			if math.Float32bits(list[i]) != math.Float32bits(2*v) && v == v {
				t.Errorf("twice %v is %v", v, list[i])
			}
		}
	}
	// There and back, there only, back only.
	both, err := c.Infer(ctx, &api.InferRequest{Model: "double", Inputs: []api.Tensor{x}, Into: []api.Tensor{y}})
	if err != nil {
		t.Fatal(err)
	}
	check(both.Output("y"))
	if &both.Output("y").Data[0] != &y.Data[0] {
		t.Error("the output is not where it was wanted")
	}
	there, err := c.Infer(ctx, &api.InferRequest{Model: "double", Inputs: []api.Tensor{x}})
	if err != nil {
		t.Fatal(err)
	}
	check(there.Output("y"))
	clear(y.Data)
	back, err := c.Infer(ctx, &api.InferRequest{Model: "double", Inputs: []api.Tensor{api.NewTensor("x", values)}, Into: []api.Tensor{y}, Outputs: []string{"y"}})
	if err != nil {
		t.Fatal(err)
	}
	check(back.Output("y"))
	// The server knows it until it is told otherwise.
	if list, err := c.Regions(ctx); err != nil || len(list) != 1 || list[0].Size != 1<<16 {
		t.Errorf("%v, %v", list, err)
	}
	if err := c.Unregister(ctx, r); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Infer(ctx, &api.InferRequest{Model: "double", Inputs: []api.Tensor{x}}); err == nil || !strings.Contains(err.Error(), "is registered") {
		t.Errorf("after it was unregistered: %v", err)
	}
	if _, err := r.Tensor("x", "FP32", 1<<16-3, 1); err == nil {
		t.Error("a tensor behind the end")
	}
}

// Files that are not meant are not opened, and places that are not there are not read or written.
func TestSharedMemoryRefused(t *testing.T) {
	h, _, s := handlerOf(t, func(o *parts) {
		o.Config.Listen, o.Config.SharedMemory, o.Config.Limits.Body = "unix:/none", true, 1<<10
	})
	dir := filepath.Join(t.TempDir(), "shm")
	s.regions.dir = dir
	t.Cleanup(func() { s.regions.unregister("") })
	file := func(name string, size int, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(path, make([]byte, size), mode), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file("good", 4096, 0o600)
	file("../outside", 4096, 0o600)
	file("shared", 4096, 0o666)
	if err := errors.Join(os.Symlink("good", filepath.Join(dir, "link")), syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600), os.Mkdir(filepath.Join(dir, "folder"), 0o700)); err != nil {
		t.Fatal(err)
	}
	register := func(name, key string, size int) (int, string) {
		w := ask(h, "POST", "/v2/systemsharedmemory/region/"+name+"/register", fmt.Sprintf(`{"key":%q,"offset":0,"byte_size":%d}`, key, size))
		return w.Code, w.Body.String()
	}
	for key, want := range map[string]string{
		"../outside": "not the name", "/../outside": "not the name", "..": "not the name", ".": "not the name", "": "not the name", "//good": "not the name",
		"folder/x": "not the name", "good ": "not the name", "link": "is a link", "pipe": "is a pipe", "folder": "director", "absent": "no such file", "shared": "others may write",
	} {
		if code, text := register("r", key, 8); code != 400 || !strings.Contains(text, want) {
			t.Errorf("%q: status %d, %s", key, code, text)
		}
	}
	if code, text := register("r", "good", 4097); code != 400 || !strings.Contains(text, "4096 bytes") {
		t.Errorf("larger than its file: status %d, %s", code, text)
	}
	if code, text := register("r", "/good", 4096); code != 200 {
		t.Fatalf("status %d, %s", code, text)
	}
	if code, _ := register("r", "good", 8); code != 409 {
		t.Errorf("twice: status %d", code)
	}
	infer := func(in, out string) (int, string) {
		w := ask(h, "POST", "/v2/models/double/infer", `{"inputs":[{"name":"x","datatype":"FP32",`+in+`}]`+out+`}`)
		return w.Code, w.Body.String()
	}
	at := func(region string, offset, size int) string {
		return fmt.Sprintf(`"parameters":{"shared_memory_region":%q,"shared_memory_offset":%d,"shared_memory_byte_size":%d}`, region, offset, size)
	}
	for _, c := range []struct {
		in, out string
		status  int
		want    string
	}{
		{`"shape":[2],` + at("none", 0, 8), "", 400, "no region"},
		{`"shape":[2],` + at("r", 4089, 8), "", 400, "do not fit"},
		{`"shape":[2],` + at("r", maxSafe, 8), "", 400, "do not fit"},
		{`"shape":[2],` + at("r", 0, 4), "", 400, "takes 8"},
		{`"shape":[512],` + at("r", 0, 2048), "", 413, "1024"},
		{`"shape":[2],"data":[1,2]`, `,"outputs":[{"name":"y",` + at("r", 0, 4) + `}]`, 400, "has 8 bytes"},
		{`"shape":[2],"data":[1,2]`, `,"outputs":[{"name":"y",` + at("r", 4090, 8) + `}]`, 400, "do not fit"},
		{`"shape":[2],` + at("r", 4088, 8), `,"outputs":[{"name":"y",` + at("r", 4088, 8) + `}]`, 200, `"shared_memory_byte_size":8}}]`},
	} {
		if code, text := infer(c.in, c.out); code != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s %s: status %d, %s", c.in, c.out, code, text)
		}
	}
	for i := range maxRegions - 1 {
		if code, text := register(fmt.Sprint("more", i), "good", 8); code != 200 {
			t.Fatalf("status %d, %s", code, text)
		}
	}
	if code, _ := register("one-more", "good", 8); code != 503 {
		t.Errorf("too many: status %d", code)
	}
	if w := ask(h, "GET", "/v2/systemsharedmemory/region/none/status", ""); w.Code != 404 {
		t.Errorf("status %d", w.Code)
	}
	if w := ask(h, "POST", "/v2/systemsharedmemory/unregister", ""); w.Code != 200 || len(s.regions.list) != 0 {
		t.Errorf("status %d, %d are left", w.Code, len(s.regions.list))
	}
	if n := s.bodies.Load(); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
	off, _, _ := handlerOf(t, nil)
	for path, body := range map[string]string{"region/r/register": `{"key":"good","byte_size":8}`, "region/r/unregister": "", "unregister": ""} {
		if w := ask(off, "POST", "/v2/systemsharedmemory/"+path, body); w.Code != 403 {
			t.Errorf("off: %s: status %d", path, w.Code)
		}
	}
	if w := ask(off, "POST", "/v2/models/double/infer", `{"inputs":[{"name":"x","datatype":"FP32","shape":[2],`+at("r", 0, 8)+`}]}`); w.Code != 403 {
		t.Errorf("off: status %d", w.Code)
	}
}

// A client that makes its file shorter and longer at any time gets answers or errors, and the server
// goes on.
func TestSharedMemoryTruncated(t *testing.T) {
	c, _ := startShared(t)
	r := regionOf(t, c, 1<<20)
	list, err := c.Regions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(sharedFolder, list[0].Key)
	x, y := room(t, r, "x", 0, 1<<16), room(t, r, "y", 1<<19, 1<<16)
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		rnd := rand.New(rand.NewPCG(1, 0))
		for {
			select {
			case <-stop:
				stopped <- os.Truncate(path, 0)
				return
			default:
				if err := os.Truncate(path, rnd.Int64N(1<<20+1)); err != nil {
					stopped <- err
					return
				}
			}
		}
	}()
	// The client's own memory is gone with the file: it only says where.
	for range 200 {
		_, err := c.Infer(t.Context(), &api.InferRequest{Model: "double", Inputs: []api.Tensor{x}, Into: []api.Tensor{y}})
		if refused := (*api.Error)(nil); err != nil && (!errors.As(err, &refused) || refused.Status != 400) {
			t.Fatal(err)
		}
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if _, err := c.Infer(t.Context(), &api.InferRequest{Model: "double", Inputs: []api.Tensor{x}, Into: []api.Tensor{y}}); err == nil {
		t.Error("a tensor of an empty file")
	}
	if _, err := c.Infer(t.Context(), &api.InferRequest{Model: "double", Inputs: []api.Tensor{api.NewTensor("x", []float32{1})}}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// BenchmarkTransport is a request with its answer by each way that tensors can go, for inputs of a
// reservoir with 20 and 100 bins and for a megabyte.
func BenchmarkTransport(b *testing.B) {
	for _, n := range []int64{20 * 64, 100 * 64, 1 << 18} {
		for _, way := range []string{"json-tcp", "binary-tcp", "binary-unix", "shared-unix"} {
			b.Run(fmt.Sprintf("%dB/%s", 4*n, way), func(b *testing.B) { benchTransport(b, way, n) })
		}
	}
}

func benchTransport(b *testing.B, way string, n int64) {
	c, _ := startShared(b)
	if strings.HasSuffix(way, "tcp") {
		_, _, address := start(b, nil)
		tcp, err := api.NewClient(address, api.Options{})
		if err != nil {
			b.Fatal(err)
		}
		defer tcp.Close()
		c = tcp
	}
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(i%7) / 7
	}
	q := &api.InferRequest{Model: "double", Inputs: []api.Tensor{api.NewTensor("x", values)}, JSON: strings.HasPrefix(way, "json")}
	if strings.HasPrefix(way, "shared") {
		r := regionOf(b, c, 8*n)
		x := room(b, r, "x", 0, n)
		copy(x.Data, q.Inputs[0].Data)
		q.Inputs[0], q.Into = x, []api.Tensor{room(b, r, "y", 4*n, n)}
	}
	b.SetBytes(8 * n)
	for b.Loop() {
		if _, err := c.Infer(context.Background(), q); err != nil {
			b.Fatal(err)
		}
	}
}
