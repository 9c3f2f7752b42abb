package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weft-run/weft/internal/test/poll"
	"github.com/weft-run/weft/serve/internal/infer"
	"github.com/weft-run/weft/serve/internal/oip"
)

// dial connects to the gRPC of a server, with a context that ends when the test must have.
func dial(t testing.TB, s *Server, o ...grpc.DialOption) (context.Context, *grpc.ClientConn) {
	t.Helper()
	if len(o) == 0 {
		o = append(o, grpc.WithTransportCredentials(insecure.NewCredentials()))
	}
	at := s.GRPC()
	if _, rest, ok := strings.Cut(at, "://"); ok {
		at = rest
	}
	c, err := grpc.NewClient(at, o...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // nothing is left to say
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx, c
}

// asked is the i-th request that the fake was asked.
func (f *fake) asked(i int) infer.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i >= len(f.seen) {
		return infer.Request{}
	}
	return f.seen[i]
}

// input is a request with an input x of type FP32.
func input(model string, x ...float32) *oip.ModelInferRequest {
	return &oip.ModelInferRequest{ModelName: model, Inputs: []*oip.ModelInferRequest_InferInputTensor{{
		Name: "x", Datatype: "FP32", Shape: []int64{int64(len(x))}, Contents: &oip.InferTensorContents{Fp32Contents: x},
	}}}
}

func TestGRPC(t *testing.T) {
	s, f, _ := start(t, nil)
	ctx, conn := dial(t, s)
	c := oip.NewGRPCInferenceServiceClient(conn)
	live, err := c.ServerLive(ctx, &oip.ServerLiveRequest{})
	if err != nil || !live.Live {
		t.Errorf("live: %v, %v", live, err)
	}
	ready, err := c.ServerReady(ctx, &oip.ServerReadyRequest{})
	if err != nil || !ready.Ready {
		t.Errorf("ready: %v, %v", ready, err)
	}
	meta, err := c.ServerMetadata(ctx, &oip.ServerMetadataRequest{})
	if err != nil || meta.Name != "weft" || meta.Version != "test" || len(meta.Extensions) == 0 {
		t.Errorf("metadata: %v, %v", meta, err)
	}
	m, err := c.ModelMetadata(ctx, &oip.ModelMetadataRequest{Name: "double"})
	if err != nil || m.Platform != "weft_graph" || fmt.Sprint(m.Versions, m.Inputs[0].Shape) != "[1] [-1 3]" || m.Outputs[0].Datatype != "FP32" {
		t.Errorf("model: %v, %v", m, err)
	}
	r := input("double", 1, 2.5, -3)
	r.Id, r.Outputs = "7", []*oip.ModelInferRequest_InferRequestedOutputTensor{{Name: "y"}}
	out, err := c.ModelInfer(ctx, r)
	if err != nil || out.Id != "7" || out.ModelVersion != "1" || fmt.Sprint(out.Outputs[0].Contents.Fp32Contents) != "[2 5 -6]" || len(out.RawOutputContents) > 0 ||
		out.Parameters["compute_us"].GetInt64Param() != 2000 || out.Parameters["device"].GetStringParam() != "cpu:0" {
		t.Errorf("%v, %v", out, err)
	}
	if q := f.asked(0); q.Client != "127.0.0.1" || fmt.Sprint(q.Outputs) != "[y]" || time.Until(q.Deadline) > patience || time.Until(q.Deadline) < 0 {
		t.Errorf("the service was asked %+v", q) // the deadline is that of the call
	}
	loaded, err := c.RepositoryModelLoad(ctx, &oip.RepositoryModelLoadRequest{ModelName: "other"})
	if err != nil || !loaded.IsLoaded {
		t.Errorf("load: %v, %v", loaded, err)
	}
	is, err := c.ModelReady(ctx, &oip.ModelReadyRequest{Name: "other", Version: "1"})
	if err != nil || !is.Ready {
		t.Errorf("ready: %v, %v", is, err)
	}
	gone, err := c.RepositoryModelUnload(ctx, &oip.RepositoryModelUnloadRequest{ModelName: "other"})
	if err != nil || !gone.IsUnloaded {
		t.Errorf("unload: %v, %v", gone, err)
	}
	f.mu.Lock()
	f.models["double"], f.notReady = infer.Loading, infer.ErrUnavailable
	f.mu.Unlock()
	is, err = c.ModelReady(ctx, &oip.ModelReadyRequest{Name: "double"})
	if err != nil || is.Ready {
		t.Errorf("a model that is loaded: %v, %v", is, err)
	}
	ready, err = c.ServerReady(ctx, &oip.ServerReadyRequest{})
	if err != nil || ready.Ready {
		t.Errorf("a server that is not ready: %v, %v", ready, err)
	}
	if n := s.bodies.Load(); n != 0 {
		t.Errorf("%d bytes are under way", n)
	}
}

// refusal is the code and the time to wait of an error, which must be one line.
func refusal(t *testing.T, err error) (codes.Code, time.Duration) {
	t.Helper()
	said := status.Convert(err)
	if strings.Contains(said.Message(), "\n") {
		t.Errorf("not a line: %q", said.Message())
	}
	for _, d := range said.Details() {
		if r, ok := d.(*errdetails.RetryInfo); ok {
			return said.Code(), r.RetryDelay.AsDuration()
		}
	}
	return said.Code(), 0
}

func TestGRPCCodes(t *testing.T) {
	s, f, _ := start(t, nil)
	ctx, conn := dial(t, s)
	c := oip.NewGRPCInferenceServiceClient(conn)
	for _, k := range []struct {
		err   error
		code  codes.Code
		after time.Duration
	}{
		{fmt.Errorf("%w: x\ny", infer.ErrInvalid), codes.InvalidArgument, 0},
		{infer.ErrNotFound, codes.NotFound, 0},
		{infer.ErrExpired, codes.DeadlineExceeded, 0},
		{&infer.BusyError{Model: "double", RetryAfter: 1500 * time.Millisecond}, codes.ResourceExhausted, 1500 * time.Millisecond},
		{infer.ErrUnavailable, codes.Unavailable, time.Second},
		{errors.New("a device failed"), codes.Internal, 0},
	} {
		f.mu.Lock()
		f.before = func(context.Context, *infer.Request) error { return k.err }
		f.mu.Unlock()
		_, err := c.ModelInfer(ctx, input("double", 1))
		if code, after := refusal(t, err); code != k.code || after != k.after {
			t.Errorf("%v: %v", k.err, err)
		}
	}
	f.mu.Lock()
	f.before = func(context.Context, *infer.Request) error { panic("x") }
	f.mu.Unlock()
	if _, err := c.ModelInfer(ctx, input("double", 1)); status.Code(err) != codes.Internal {
		t.Errorf("a panic: %v", err)
	}
	for name, call := range map[string]func() error{
		"load": func() error {
			_, err := c.RepositoryModelLoad(ctx, &oip.RepositoryModelLoadRequest{ModelName: "broken"})
			return err
		},
		"load none": func() error { _, err := c.RepositoryModelLoad(ctx, &oip.RepositoryModelLoadRequest{}); return err },
		"unload": func() error {
			_, err := c.RepositoryModelUnload(ctx, &oip.RepositoryModelUnloadRequest{ModelName: "../x"})
			return err
		},
		"metadata": func() error { _, err := c.ModelMetadata(ctx, &oip.ModelMetadataRequest{Name: "none"}); return err },
		"ready": func() error {
			_, err := c.ModelReady(ctx, &oip.ModelReadyRequest{Name: "double", Version: "9"})
			return err
		},
		"ready name": func() error { _, err := c.ModelReady(ctx, &oip.ModelReadyRequest{Name: "a/b"}); return err },
		"infer name": func() error { _, err := c.ModelInfer(ctx, input("a b", 1)); return err },
		"health": func() error {
			_, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: "x"})
			return err
		},
		"too far back": func() error {
			_, err := c.ModelMetadata(ctx, &oip.ModelMetadataRequest{Name: "double", Version: " "})
			return err
		},
	} {
		want := codes.NotFound
		if name == "load" {
			want = codes.InvalidArgument // what is wrong is in the folder
		}
		if err := call(); status.Code(err) != want {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
}

// The end of a call is the request's, and so is its own timeout if that is earlier; its
// client is told when it has come.
func TestGRPCDeadline(t *testing.T) {
	s, f, _ := start(t, nil)
	ctx, conn := dial(t, s)
	c := oip.NewGRPCInferenceServiceClient(conn)
	r := input("double", 1)
	number := func(n int64) *oip.InferParameter {
		return &oip.InferParameter{ParameterChoice: &oip.InferParameter_Int64Param{Int64Param: n}}
	}
	triton := &oip.InferParameter{}
	triton.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 5, protowire.VarintType), 2))
	r.Parameters = map[string]*oip.InferParameter{"timeout": number(20e6), "priority": triton, "other": number(1)}
	if _, err := c.ModelInfer(ctx, r); err != nil {
		t.Fatal(err)
	}
	if q := f.asked(0); time.Until(q.Deadline) > 20*time.Second || q.Priority != 3 {
		t.Errorf("the service was asked %+v", q)
	}
	r.Parameters["timeout"] = number(3600e6)
	if _, err := c.ModelInfer(ctx, r); err != nil {
		t.Fatal(err)
	}
	if q := f.asked(1); time.Until(q.Deadline) > patience {
		t.Errorf("the service was asked %+v", q)
	}
	// Without any the model's own holds.
	if _, err := c.ModelInfer(context.Background(), input("double", 1)); err != nil || !f.asked(2).Deadline.IsZero() {
		t.Errorf("%+v, %v", f.asked(2), err)
	}
	f.mu.Lock()
	f.before = func(ctx context.Context, _ *infer.Request) error {
		<-ctx.Done() // which ends with the call
		return ctx.Err()
	}
	f.mu.Unlock()
	brief, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := c.ModelInfer(brief, input("double", 1)); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("%v", err)
	}
}

// A trace goes on below its caller's.
func TestGRPCTrace(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	s, f, _ := start(t, nil)
	seen := make(chan string, 1)
	f.before = func(ctx context.Context, _ *infer.Request) error { seen <- fmt.Sprint(ctx); return nil }
	ctx, conn := dial(t, s)
	if _, err := oip.NewGRPCInferenceServiceClient(conn).ModelInfer(metadata.AppendToOutgoingContext(ctx, "traceparent", parent), input("double", 1)); err != nil {
		t.Fatal(err)
	}
	if got := <-seen; !strings.Contains(got, "otlp") {
		t.Errorf("the service was called in %s", got)
	}
}

func TestGRPCHealthWatch(t *testing.T) {
	s, f, _ := start(t, func(o *parts) { o.Config.Limits.Streams = 1 })
	ctx, conn := dial(t, s)
	h := healthpb.NewHealthClient(conn)
	w, err := h.Watch(ctx, &healthpb.HealthCheckRequest{Service: "inference.GRPCInferenceService"})
	if err != nil {
		t.Fatal(err)
	}
	next := func(want healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		if r, err := w.Recv(); err != nil || r.Status != want {
			t.Fatalf("%v, %v; want %v", r, err, want)
		}
	}
	next(healthpb.HealthCheckResponse_SERVING)
	other, err := h.Watch(ctx, &healthpb.HealthCheckRequest{})
	if err == nil {
		_, err = other.Recv()
	}
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one stream too many: %v", err)
	}
	list, err := h.List(ctx, &healthpb.HealthListRequest{})
	if err != nil || len(list.Statuses) != 2 {
		t.Errorf("%v, %v", list, err)
	}
	f.mu.Lock()
	f.notReady = errors.New("no")
	f.mu.Unlock()
	next(healthpb.HealthCheckResponse_NOT_SERVING)
	// The end of the server ends it, and its client may ask another.
	if err := s.drain(ctx); err != nil {
		t.Error(err)
	}
	if _, err := w.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("%v", err)
	}
}

// A call under way has its answer before the server ends, and a connection that says nothing
// does not hold it up.
func TestGRPCDrain(t *testing.T) {
	s, f, _ := start(t, func(o *parts) { o.Config.Limits.ReadTime = Duration(time.Hour) })
	ctx, conn := dial(t, s)
	c := oip.NewGRPCInferenceServiceClient(conn)
	begun, proceed := make(chan struct{}), make(chan struct{})
	f.before = func(context.Context, *infer.Request) error {
		close(begun)
		<-proceed
		return nil
	}
	answered := make(chan error, 1)
	go func() {
		_, err := c.ModelInfer(ctx, input("double", 1))
		answered <- err
	}()
	<-begun
	silent, err := net.Dial("tcp", strings.TrimPrefix(s.GRPC(), "grpc://"))
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	poll.True(t, "the server has the connection", func() bool {
		s.grpcAt.mu.Lock()
		defer s.grpcAt.mu.Unlock()
		return len(s.grpcAt.silent) > 0
	})
	drained := make(chan error, 1)
	go func() { drained <- s.drain(ctx) }()
	_, _ = io.Copy(io.Discard, silent) // until it is closed, by whatever error
	select {
	case err := <-drained:
		t.Fatalf("it ended before a call did: %v", err)
	default:
	}
	close(proceed)
	if err := <-answered; err != nil {
		t.Errorf("the call under way: %v", err)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
	if _, err := c.ServerLive(ctx, &oip.ServerLiveRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("after the end: %v", err)
	}
}

// What does not end in time is cut off, and that is said.
func TestGRPCCutOff(t *testing.T) {
	s, f, _ := start(t, nil)
	ctx, conn := dial(t, s)
	begun := make(chan struct{})
	f.before = func(ctx context.Context, _ *infer.Request) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}
	answered := make(chan error, 1)
	go func() {
		_, err := oip.NewGRPCInferenceServiceClient(conn).ModelInfer(ctx, input("double", 1))
		answered <- err
	}()
	<-begun
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.drain(ended); err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("%v", err)
	}
	if err := <-answered; status.Code(err) != codes.Unavailable {
		t.Errorf("%v", err)
	}
}

func TestGRPCTLS(t *testing.T) {
	cert, key := certificate(t, "weft.test")
	s, _, _ := start(t, func(o *parts) {
		o.Config.GRPC, o.Config.TLS, o.Config.Tokens = "0.0.0.0:0", TLS{cert, key}, tokenFile(t, secretToken)
	})
	if s.clients.rate != publicRate || !strings.HasPrefix(s.GRPC(), "grpcs://") {
		t.Errorf("the rate at %s is %v", s.GRPC(), s.clients.rate)
	}
	trusted, err := credentials.NewClientTLSFromFile(cert, "weft.test")
	if err != nil {
		t.Fatal(err)
	}
	ctx, conn := dial(t, s, grpc.WithTransportCredentials(trusted))
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+secretToken)
	if _, err := oip.NewGRPCInferenceServiceClient(conn).ModelInfer(ctx, input("double", 1)); err != nil {
		t.Error(err)
	}
	_, plain := dial(t, s)
	if _, err := oip.NewGRPCInferenceServiceClient(plain).ServerLive(ctx, &oip.ServerLiveRequest{}); err == nil {
		t.Error("answered without TLS")
	}
}

func TestGRPCUnix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "g")
	s, f, _ := start(t, func(o *parts) { o.Config.GRPC = "unix:" + path })
	ctx, conn := dial(t, s)
	if _, err := oip.NewGRPCInferenceServiceClient(conn).ModelInfer(ctx, input("double", 1)); err != nil || f.asked(0).Client != "local" {
		t.Errorf("%v", err)
	}
}

// An address that is taken is said with what to do, and keeps no other.
func TestGRPCTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := DefaultConfig()
	c.Listen, c.GRPC = free.Addr().String(), l.Addr().String()
	free.Close()
	s, err := newServer(parts{Config: c, Service: newFake()})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.take(); err == nil || !strings.Contains(err.Error(), c.GRPC) || !strings.Contains(err.Error(), "--grpc") {
		t.Errorf("%v", err)
	}
	if again, err := net.Listen("tcp", c.Listen); err != nil {
		t.Errorf("the other address is still taken: %v", err)
	} else {
		again.Close()
	}
}

func TestGRPCAddress(t *testing.T) {
	for _, k := range []struct{ listen, grpc, want string }{
		{"127.0.0.1:8000", "", "tcp 127.0.0.1:8001"},
		{"localhost:9000", "", "tcp localhost:9001"},
		{"[::1]:9000", "", "tcp [::1]:9001"},
		{"127.0.0.1:0", "", "tcp 127.0.0.1:0"},
		{"127.0.0.1:65535", "", " "},
		{"0.0.0.0:8443", "", " "}, // what others can reach is stated
		{"unix:/x", "", " "},
		{"127.0.0.1:8000", "none", " "},
		{"127.0.0.1:8000", "0.0.0.0:9", "tcp 0.0.0.0:9"},
		{"127.0.0.1:8000", "unix:/y", "unix /y"},
	} {
		network, address, err := (&Config{Listen: k.listen, GRPC: k.grpc}).grpcAddress()
		if got := network + " " + address; err != nil || got != k.want {
			t.Errorf("%+v: %s, %v", k, got, err)
		}
	}
}
