package load

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	head "google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weft-run/weft/serve/internal/oip"
)

// rpcServer has a model m with an input x of two numbers.
type rpcServer struct {
	oip.UnimplementedGRPCInferenceServiceServer
	inputs []*oip.ModelMetadataResponse_TensorMetadata
	infer  func(ctx context.Context, n uint64, r *oip.ModelInferRequest) error
	n      atomic.Uint64
}

func (s *rpcServer) ModelMetadata(_ context.Context, r *oip.ModelMetadataRequest) (*oip.ModelMetadataResponse, error) {
	if r.Name != "m" {
		return nil, status.Error(codes.NotFound, "no such model")
	}
	return &oip.ModelMetadataResponse{Name: "m", Inputs: s.inputs}, nil
}

func (s *rpcServer) ModelInfer(ctx context.Context, r *oip.ModelInferRequest) (*oip.ModelInferResponse, error) {
	if s.infer != nil {
		if err := s.infer(ctx, s.n.Add(1), r); err != nil {
			return nil, err
		}
	}
	return &oip.ModelInferResponse{ModelName: "m", RawOutputContents: [][]byte{make([]byte, 5<<20)}}, nil // more than clients take by default
}

// serveRPC starts a server and opens a client for it.
func serveRPC(t *testing.T, s *rpcServer, model string, o Options) (*Client, error) {
	t.Helper()
	if s.inputs == nil {
		s.inputs = []*oip.ModelMetadataResponse_TensorMetadata{{Name: "x", Datatype: "FP32", Shape: []int64{-1, 2}}}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	oip.RegisterGRPCInferenceServiceServer(g, s)
	served := make(chan error, 1)
	go func() { served <- g.Serve(l) }()
	t.Cleanup(func() {
		g.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	if o.Target, err = ParseTarget("grpc://" + l.Addr().String() + model); err != nil {
		t.Fatal(err)
	}
	o.Connections, o.Timeout = 4, time.Minute
	return Open(t.Context(), o)
}

// A load by gRPC counts every call once, as what became of it.
func TestGRPC(t *testing.T) {
	retry, err := status.New(codes.Unavailable, "later").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	results := []error{ // of every seventh call
		nil, nil, status.Error(codes.ResourceExhausted, "busy"), retry.Err(), status.Error(codes.Internal, "broken"),
		status.Error(codes.DeadlineExceeded, "late"), status.Error(codes.Unavailable, "nobody"),
	}
	var mu sync.Mutex
	seen := make(map[float32]bool)
	s := &rpcServer{infer: func(ctx context.Context, n uint64, r *oip.ModelInferRequest) error {
		in, _ := head.FromIncomingContext(ctx)
		if strings.Join(in["authorization"], "") != "Bearer secret" || r.ModelName != "m" || len(r.Inputs) != 1 || len(r.RawInputContents[0]) != 3*2*4 || r.Inputs[0].Shape[0] != 3 {
			return status.Errorf(codes.InvalidArgument, "not what was to be sent: %v", r)
		}
		mu.Lock()
		defer mu.Unlock()
		seen[math.Float32frombits(binary.LittleEndian.Uint32(r.RawInputContents[0]))] = true
		if n == 1 {
			return nil // the one that tries
		}
		return results[(n-2)%7]
	}}
	c, err := serveRPC(t, s, "/m", Options{Batch: 3, Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Run(t.Context(), Pace{Rate: 700, Duration: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if r.Arrived != 70 || r.Sent != 70 || r.Answered != 20 || r.Refused != 20 || r.TimedOut != 10 || r.Failed != 20 {
		t.Errorf("%+v", r)
	}
	for _, want := range []string{"Internal", "nobody"} {
		found := false
		for _, f := range r.Failures {
			found = found || f.Count == 10 && f.Why == want
		}
		if !found {
			t.Errorf("no %s in %+v", want, r.Failures)
		}
	}
	if len(seen) != variants {
		t.Errorf("%d inputs, want %d", len(seen), variants)
	}
}

// What is wrong is known before any load.
func TestGRPCRefuses(t *testing.T) {
	spec := func(name, datatype string, shape ...int64) *rpcServer {
		return &rpcServer{inputs: []*oip.ModelMetadataResponse_TensorMetadata{{Name: name, Datatype: datatype, Shape: shape}}}
	}
	for _, k := range []struct {
		s           *rpcServer
		model, want string
		o           Options
	}{
		{&rpcServer{}, "", "name one, as in grpc://HOST:PORT/MODEL", Options{}},
		{&rpcServer{}, "/m", `names model "m", and --model "other"`, Options{Model: "other"}},
		{&rpcServer{}, "/other", `no model "other" there (NotFound: no such model)`, Options{}},
		{spec("", "FP32", 1), "/m", "every input needs a name", Options{}},
		{spec("x", "FP33", 1), "/m", "does not know", Options{}},
		{spec("x", "FP32", -2), "/m", "a dimension of -2", Options{}},
		{spec(strings.Repeat("x", maxMetadata), "FP32", 1), "/m", "larger than max", Options{}},
		{&rpcServer{infer: func(context.Context, uint64, *oip.ModelInferRequest) error { return errors.New("no") }}, "/m", "was answered with Unknown: no", Options{}},
	} {
		if _, err := serveRPC(t, k.s, k.model, k.o); err == nil || !strings.Contains(err.Error(), k.want) {
			t.Errorf("%v, want %q", err, k.want)
		}
	}
	// Nobody is there.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	target, err := ParseTarget("grpc://" + l.Addr().String() + "/m")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Target: target}); err == nil || !strings.Contains(err.Error(), "is the server running there?") {
		t.Errorf("%v", err)
	}
	for in, want := range map[string]string{"grpc://a/m": "no port", "grpc://a:1/m/n": "no name of a model", "grpc://:1/m": "no host"} {
		if _, err := ParseTarget(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", in, err)
		}
	}
}
