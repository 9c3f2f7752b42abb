package serve

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weft-run/weft/internal/test/poll"
	"github.com/weft-run/weft/serve/internal/infer"
	"github.com/weft-run/weft/serve/internal/oip"
)

// two are a server that knows ann and bob, and their contexts.
func two(t *testing.T, change func(l *Limits)) (s *Server, f *fake, conn *grpc.ClientConn, ann, bob context.Context) {
	const other = "fedcba9876543210fedcba9876543210"
	s, f, _ = start(t, func(o *parts) {
		o.Config.Tokens = tokenFile(t, "ann "+secretToken+"\nbob "+other)
		change(&o.Config.Limits)
	})
	ctx, conn := dial(t, s)
	as := func(token string) context.Context {
		return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	return s, f, conn, as(secretToken), as(other)
}

// A client that begins calls and sends nothing has half of the places for messages that are
// read, and leaves the others to others.
func TestGRPCPlacesOfOne(t *testing.T) {
	s, _, conn, ann, bob := two(t, func(l *Limits) {
		l.ReadTime, l.Body, l.Bodies = Duration(10*patience), 1<<20, 4<<20
	})
	if cap(s.reading) != 4 {
		t.Fatalf("%d messages of 1 MiB are read at a time in 4 MiB", cap(s.reading))
	}
	ann, cancel := context.WithCancel(ann)
	for range 3 * cap(s.reading) {
		if _, err := conn.NewStream(ann, &grpc.StreamDesc{ClientStreams: true}, "/inference.GRPCInferenceService/ModelInfer"); err != nil {
			t.Fatal(err)
		}
	}
	under := func() int {
		s.clients.mu.Lock()
		defer s.clients.mu.Unlock()
		return s.clients.find("ann", time.Now()).under
	}
	poll.True(t, "all calls are there", func() bool { return under() == 3*cap(s.reading) && len(s.reading) > 0 })
	for range 10 {
		if _, err := oip.NewGRPCInferenceServiceClient(conn).ModelInfer(bob, input("double", 1)); err != nil {
			t.Fatalf("beside a client that sends nothing: %v", err)
		}
	}
	if n := len(s.reading); n != cap(s.reading)/2 {
		t.Errorf("%d of %d places are one client's", n, cap(s.reading))
	}
	cancel()
	poll.True(t, "all places are free", func() bool { return len(s.reading) == 0 && under() == 0 })
}

// Probes of a client that sends nothing are among what it has places for.
func TestGRPCPlacesOfProbes(t *testing.T) {
	s, _, _ := start(t, func(o *parts) {
		o.Config.Limits.ReadTime, o.Config.Limits.Bodies = Duration(10*patience), 4*o.Config.Limits.Body
	})
	ctx, conn := dial(t, s)
	ctx, cancel := context.WithCancel(ctx)
	for range 3 * cap(s.reading) {
		if _, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, "/grpc.health.v1.Health/Check"); err != nil {
			t.Fatal(err)
		}
	}
	own := s.clients.known("127.0.0.1").reading
	poll.True(t, "its places are taken", func() bool { return len(own) == cap(own) && len(s.reading) > 0 })
	if n := len(s.reading); n > cap(s.reading)/2 {
		t.Errorf("%d of %d places are one client's", n, cap(s.reading))
	}
	cancel()
	poll.True(t, "all places are free", func() bool { return len(s.reading) == 0 && len(own) == 0 })
}

// Messages count as what their client has, which is half of the memory for bodies at the most.
func TestGRPCBodiesOfOne(t *testing.T) {
	s, f, conn, ann, bob := two(t, func(l *Limits) { l.Body, l.Bodies = 4000, 8000 })
	c := oip.NewGRPCInferenceServiceClient(conn)
	within := false
	f.before = func(context.Context, *infer.Request) error {
		if within {
			return nil
		}
		within = true
		_, err := c.ModelInfer(ann, input("double", make([]float32, 100)...))
		if code, after := refusal(t, err); code != codes.ResourceExhausted || after == 0 || !strings.Contains(err.Error(), "your requests") {
			t.Errorf("a second of the same client: %v", err)
		}
		if _, err := c.ModelInfer(bob, input("double", make([]float32, 100)...)); err != nil {
			t.Errorf("one of another client: %v", err)
		}
		return nil
	}
	if _, err := c.ModelInfer(ann, input("double", make([]float32, 350)...)); err != nil {
		t.Fatal(err)
	}
	poll.True(t, "all is given back", func() bool { return s.bodies.Load() == 0 && s.clients.known("ann").held.Load() == 0 })
}

// What a message becomes counts, and not what was sent of it.
func TestGRPCDecoded(t *testing.T) {
	s, f, _ := start(t, func(o *parts) { o.Config.Limits.Body, o.Config.Limits.Bodies = 1<<20, 4<<20 })
	ctx, conn := dial(t, s)
	c := oip.NewGRPCInferenceServiceClient(conn)
	for _, n := range []int{100_000, 200_000} { // 1.6 and 3.2 MB of 0.1 and 0.2
		f.mu.Lock()
		f.before = func(_ context.Context, r *infer.Request) error {
			if held := s.bodies.Load(); held < 16*int64(n) {
				t.Errorf("%d bytes are held for %d numbers", held, n)
			}
			return fmt.Errorf("%w: enough", infer.ErrInvalid)
		}
		f.mu.Unlock()
		want := codes.InvalidArgument
		if n > 100_000 {
			want = codes.ResourceExhausted
		}
		r := &oip.ModelInferRequest{ModelName: "double", Inputs: []*oip.ModelInferRequest_InferInputTensor{{
			Name: "x", Datatype: "INT64", Shape: []int64{int64(n)}, Contents: &oip.InferTensorContents{Int64Contents: make([]int64, n)},
		}}}
		if _, err := c.ModelInfer(ctx, r); status.Code(err) != want {
			t.Errorf("%d numbers: %v", n, err)
		}
	}
	many := input("double", 1)
	for range maxTensors {
		many.Inputs = append(many.Inputs, many.Inputs[0])
	}
	if _, err := c.ModelInfer(ctx, many); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "more than 64 inputs") {
		t.Errorf("too many inputs: %v", err)
	}
	poll.True(t, "all is given back", func() bool { return s.bodies.Load() == 0 })
}

// A message takes no more memory than was reserved for it, whatever it is made of.
func TestDecodedBytes(t *testing.T) {
	d := (&oip.ModelInferRequest{}).ProtoReflect().Descriptor()
	field := func(name string) protowire.Number { return d.Fields().ByName(protoreflect.Name(name)).Number() }
	piece := func(n protowire.Number, b ...byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), b)
	}
	contents := func(b []byte) []byte { // of an input
		in := (&oip.ModelInferRequest_InferInputTensor{}).ProtoReflect().Descriptor()
		return piece(field("inputs"), piece(in.Fields().ByName("contents").Number(), b...)...)
	}
	list := func(name string, packed bool) []byte {
		n := (&oip.InferTensorContents{}).ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(name)).Number()
		if packed {
			return contents(piece(n, make([]byte, 1<<19)...))
		}
		return contents([]byte(strings.Repeat(string(append(protowire.AppendTag(nil, n, protowire.VarintType), 0)), 1<<18)))
	}
	var parameters []byte
	for i := range 1 << 15 {
		parameters = append(parameters, piece(field("parameters"), piece(1, fmt.Appendf(nil, "%d", i)...)...)...)
	}
	for name, src := range map[string][]byte{
		"packed":     list("int64_contents", true),
		"flags":      list("bool_contents", true),
		"unpacked":   list("int64_contents", false),
		"raw":        []byte(strings.Repeat(string(piece(field("raw_input_contents"))), 1<<18)),
		"parameters": parameters,
		"unknown":    []byte(strings.Repeat(string(piece(99, 1)), 1<<17)),
		"inputs":     []byte(strings.Repeat(string(piece(field("inputs"))), maxTensors)),
	} {
		reserved, err := decodedBytes(src, d)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var before, after runtime.MemStats
		m := &oip.ModelInferRequest{}
		runtime.GC()
		runtime.ReadMemStats(&before)
		if err := proto.Unmarshal(src, m); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		const noise = 64 << 10 // of other goroutines
		if took := int64(after.HeapAlloc) - int64(before.HeapAlloc); took > reserved+noise {
			t.Errorf("%s: %d bytes of %d became %d, and %d were reserved", name, len(src), len(src), took, reserved)
		} else {
			t.Logf("%s: %d bytes became %d, and %d were reserved", name, len(src), took, reserved)
		}
		runtime.KeepAlive(m)
		runtime.KeepAlive(src)
	}
	if _, err := decodedBytes([]byte{0x0a, 0xff}, d); err == nil {
		t.Error("a message that is cut off has a size")
	}
}

// Messages of streams are short, counted while they are held, and arrive in time.
func TestGRPCStreamMessages(t *testing.T) {
	s, _, _ := start(t, nil)
	ctx, conn := dial(t, s)
	watch := func(bytes int) (context.CancelFunc, error) {
		ctx, cancel := context.WithCancel(ctx)
		w, err := healthpb.NewHealthClient(conn).Watch(ctx, &healthpb.HealthCheckRequest{Service: strings.Repeat("x", bytes)})
		if err == nil {
			_, err = w.Recv()
		}
		return cancel, err
	}
	const fits = streamBytes - 4 // beside the tag and the length
	for range 3 {
		cancel, err := watch(fits)
		if err != nil {
			t.Fatal(err)
		}
		defer cancel()
	}
	if n := s.bodies.Load(); n < 3*fits {
		t.Errorf("3 streams that hold %d bytes each count as %d", fits, n)
	}
	for _, n := range []int{fits + 1, 16 << 20} {
		cancel, err := watch(n)
		if cancel(); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "65536 are the most") {
			t.Errorf("a name of %d bytes: %v", n, err)
		}
	}
	reflect, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{strings.Repeat("x", fits-3000), "y", strings.Repeat("z", fits+1)} {
		if err := reflect.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: name}}); err != nil {
			t.Fatal(err)
		}
		_, err := reflect.Recv()
		if long := len(name) > fits; long != (status.Code(err) == codes.ResourceExhausted) || !long && err != nil {
			t.Errorf("reflection, a name of %d bytes: %v", len(name), err)
		}
		if n := s.bodies.Load(); n > int64(3*fits+len(name)+4*1024) {
			t.Errorf("%d bytes are held, of messages that were answered too", n)
		}
	}
}

// A stream that sends nothing is ended, and leaves its place and its memory.
func TestGRPCStreamLate(t *testing.T) {
	s, _, _ := start(t, func(o *parts) { o.Config.Limits.ReadTime = Duration(50 * time.Millisecond) })
	ctx, conn := dial(t, s)
	r, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Recv(); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a stream that says nothing: %v", err)
	}
	poll.True(t, "nothing is held", func() bool { return len(s.reading) == 0 && s.bodies.Load() == 0 && s.streams.Load() == 0 })
}
