package serve

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/weft-run/weft/internal/oip"
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
	t.Cleanup(func() { _ = c.Close() }) // nothing was left to say
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx, c
}

func TestX(t *testing.T) {
	s, _, _ := start(t, nil)
	ctx, c := dial(t, s)
	_, err := oip.NewGRPCInferenceServiceClient(c).ModelInfer(ctx, &oip.ModelInferRequest{ModelName: "double"})
	if status.Code(err) != codes.InvalidArgument {
		t.Error(err)
	}
}
