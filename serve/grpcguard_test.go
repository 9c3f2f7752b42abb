package serve

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weft-run/weft/internal/test/poll"
	"github.com/weft-run/weft/serve/internal/oip"
)

func TestGRPCTokens(t *testing.T) {
	s, f, _ := start(t, func(o *parts) { o.Config.Tokens = tokenFile(t, "ann "+secretToken) })
	ctx, conn := dial(t, s)
	c := oip.NewGRPCInferenceServiceClient(conn)
	with := func(token string) context.Context {
		return metadata.AppendToOutgoingContext(ctx, "authorization", token)
	}
	for _, token := range []string{"", "Bearer ", "Bearer 0123456789abcdef0", secretToken} {
		_, err := c.ModelInfer(with(token), input("double", 1))
		if status.Code(err) != codes.Unauthenticated || strings.Contains(err.Error(), secretToken) {
			t.Errorf("%q: %v", token, err)
		}
	}
	if _, err := c.ModelInfer(with("Bearer "+secretToken), input("double", 1)); err != nil || f.asked(0).Client != "ann" {
		t.Errorf("%v", err)
	}
	if _, err := c.ServerMetadata(ctx, &oip.ServerMetadataRequest{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("metadata without a token: %v", err)
	}
	// Anybody may ask how it is.
	if r, err := c.ServerLive(ctx, &oip.ServerLiveRequest{}); err != nil || !r.Live {
		t.Errorf("%v, %v", r, err)
	}
	if r, err := c.ServerReady(ctx, &oip.ServerReadyRequest{}); err != nil || !r.Ready {
		t.Errorf("%v, %v", r, err)
	}
	if r, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}); err != nil || r.Status != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("%v, %v", r, err)
	}
	w, err := healthpb.NewHealthClient(conn).Watch(ctx, &healthpb.HealthCheckRequest{})
	if err == nil {
		_, err = w.Recv()
	}
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("a stream without a token: %v", err)
	}
	if _, err := c.ModelInfer(metadata.AppendToOutgoingContext(with("Bearer "+secretToken), "origin", "https://evil.test"), input("double", 1)); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a web page: %v", err)
	}
}

func TestGRPCRate(t *testing.T) {
	s, _, _ := start(t, func(o *parts) { o.Config.Limits.Rate = 0.001 }) // one, and one in 1000 s
	ctx, conn := dial(t, s)
	c := oip.NewGRPCInferenceServiceClient(conn)
	if _, err := c.ModelInfer(ctx, input("double", 1)); err != nil {
		t.Fatal(err)
	}
	_, err := c.ModelInfer(ctx, input("double", 1))
	if code, after := refusal(t, err); code != codes.ResourceExhausted || after < time.Minute {
		t.Errorf("%v, after %v", err, after)
	}
	for range 3 {
		if _, err := c.ServerLive(ctx, &oip.ServerLiveRequest{}); err != nil {
			t.Errorf("a probe: %v", err)
		}
	}
}

func TestGRPCTooLarge(t *testing.T) {
	s, _, _ := start(t, func(o *parts) { o.Config.Limits.Body, o.Config.Limits.Bodies = 4096, 20000 })
	ctx, conn := dial(t, s)
	c := oip.NewGRPCInferenceServiceClient(conn)
	if _, err := c.ModelInfer(ctx, input("double", make([]float32, 1100)...)); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("%v", err)
	}
	// What others have under way counts.
	s.bodies.Add(19000)
	_, err := c.ModelInfer(ctx, input("double", make([]float32, 100)...))
	if code, after := refusal(t, err); code != codes.ResourceExhausted || after == 0 {
		t.Errorf("%v", err)
	}
	s.bodies.Add(-19000)
	if _, err := c.ModelInfer(ctx, input("double", make([]float32, 1000)...)); err != nil || s.bodies.Load() != 0 {
		t.Errorf("%v, %d bytes under way", err, s.bodies.Load())
	}
}

// A message that does not arrive, and one that waits behind it, end with the time for reading.
func TestGRPCSlow(t *testing.T) {
	s, _, _ := start(t, func(o *parts) {
		o.Config.Limits.ReadTime = Duration(200 * time.Millisecond)
		o.Config.Limits.Bodies = o.Config.Limits.Body // one at a time
	})
	ctx, conn := dial(t, s)
	open := func() grpc.ClientStream {
		x, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, "/inference.GRPCInferenceService/ModelInfer")
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	x, y := open(), open()
	got := make(map[codes.Code]int)
	for _, stream := range []grpc.ClientStream{x, y} {
		err := stream.RecvMsg(&oip.ModelInferResponse{})
		got[status.Code(err)]++
	}
	if got[codes.DeadlineExceeded] < 1 || got[codes.DeadlineExceeded]+got[codes.ResourceExhausted] != 2 {
		t.Errorf("%v", got)
	}
	if _, err := oip.NewGRPCInferenceServiceClient(conn).ModelInfer(ctx, input("double", 1)); err != nil {
		t.Errorf("after slow ones: %v", err)
	}
	if len(s.reading) != 0 {
		t.Errorf("%d messages are still read", len(s.reading))
	}
}

// An answer that is not taken counts as under way, and ends its connection after the time for it,
// also if the client takes what comes and opens no window for more.
func TestGRPCSlowReader(t *testing.T) {
	for _, patient := range []bool{false, true} {
		s, _, _ := start(t, func(o *parts) {
			if o.Config.Limits.WriteTime = Duration(time.Hour); !patient {
				o.Config.Limits.WriteTime = Duration(100 * time.Millisecond)
			}
		})
		ctx, conn := dial(t, s)
		x, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/inference.GRPCInferenceService/ModelInfer")
		if err == nil {
			err = x.SendMsg(input("double", make([]float32, 1<<18)...))
		}
		if err == nil {
			err = x.CloseSend()
		}
		if err != nil {
			t.Fatal(err)
		}
		until := func(what string, is func(n int64) bool) {
			t.Helper()
			poll.True(t, what, func() bool { return is(s.bodies.Load()) || ctx.Err() != nil })
			if ctx.Err() != nil {
				t.Fatalf("%s: %d bytes are under way", what, s.bodies.Load())
			}
		}
		const size = 1 << 20
		if patient {
			until("an answer that waits", func(n int64) bool { return n > size && n < size+1000 }) // without the request's
			if held := s.clients.known("127.0.0.1").held.Load(); held != s.bodies.Load() {
				t.Errorf("%d bytes of %d are its client's", held, s.bodies.Load())
			}
			if err := x.RecvMsg(&oip.ModelInferResponse{}); err != nil {
				t.Errorf("a patient server: %v", err)
			}
			until("an answer that was taken", func(n int64) bool { return n == 0 })
			continue
		}
		// The client has acknowledged the window that it began with, and no more.
		until("an answer that nobody took", func(n int64) bool { return n == 0 && s.conns.count() == 0 })
		if err := x.RecvMsg(&oip.ModelInferResponse{}); status.Code(err) != codes.Unavailable {
			t.Errorf("a server that waits no longer: %v", err)
		}
	}
}
