package serve

import (
	"context"
	"errors"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weft-run/weft/serve/internal/infer"
)

type cancelKey struct{}

// cancellable is called at the beginning of a call, whose context ends by what it adds: also
// while a message is awaited, which nothing else ends.
func cancellable(ctx context.Context, _ *tap.Info) (context.Context, error) {
	ctx, cancel := context.WithCancelCause(ctx) // which ends with the call's own
	return timed{context.WithValue(ctx, cancelKey{}, cancel)}, nil
}

// timed is a context that ends as by a deadline if a message was late, which package grpc
// tells the client.
type timed struct{ context.Context }

func (t timed) Err() error {
	err := t.Context.Err()
	if err != nil && context.Cause(t.Context) == errSlow {
		return context.DeadlineExceeded
	}
	return err
}

// rpcProbes are the methods that ask how the server is, which anybody may.
var rpcProbes = map[string]bool{
	"/inference.GRPCInferenceService/ServerLive":  true,
	"/inference.GRPCInferenceService/ServerReady": true,
	"/grpc.health.v1.Health/Check":                true,
}

// guardGRPC stands before every call, as guard before every request.
func (s *Server) guardGRPC(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	ctx := stream.Context()
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("a call panicked", "method", short(info.FullMethod), "panic", p, "stack", string(debug.Stack()))
			err = failf(http.StatusInternalServerError, "this call made the server fail; its log says more")
		}
		err = s.status(ctx, info.FullMethod, err)
	}()
	head, _ := metadata.FromIncomingContext(ctx)
	for _, name := range []string{"origin", "sec-fetch-site"} {
		if len(head[name]) > 0 {
			return failf(http.StatusForbidden, "web pages may not use gRPC; they have HTTP")
		}
	}
	p, _ := peer.FromContext(ctx) // every call has one
	at := p.Addr.(rpcAddr)
	from := address(at.String())
	probe := rpcProbes[info.FullMethod]
	known := withConnection(ctx, at.conn.Conn)
	ask, err := s.admit(known, from, first(head, "authorization"), probe)
	if err != nil || ask.conn == nil {
		defer connectionOf(known).stranger()()
	}
	if err != nil {
		return err
	}
	defer s.dismiss(ask)
	c := &call{
		ServerStream: stream, s: s, conn: at.conn, ctx: ask,
		cancel: ctx.Value(cancelKey{}).(context.CancelCauseFunc), unread: probe && s.tokens.Load() != nil,
		hold: s.hold(ask),
	}
	ask.held = c.hold
	if !info.IsClientStream && !info.IsServerStream {
		defer c.hold.release()
		return next(service, c)
	}
	if s.streams.Add(1) > int64(s.limits.Streams) {
		s.streams.Add(-1)
		return busyf(http.StatusTooManyRequests, time.Second, "there are %d streams already", s.limits.Streams)
	}
	defer s.streams.Add(-1)
	defer context.AfterFunc(s.looking, func() { c.cancel(errEnding) })()
	return next(service, &watch{stream, c.ctx})
}

// first is the first value of a header.
func first(head metadata.MD, name string) string {
	if v := head.Get(name); len(v) > 0 {
		return v[0]
	}
	return ""
}

// watch is a stream of messages.
type watch struct {
	grpc.ServerStream
	ctx context.Context
}

func (w *watch) Context() context.Context { return w.ctx }

// call is a call with one message.
type call struct {
	grpc.ServerStream
	s      *Server
	conn   *rpcConn
	ctx    context.Context
	cancel context.CancelCauseFunc
	unread bool // whoever calls is not known, and what it sends is not read
	hold   *hold
}

func (c *call) Context() context.Context { return c.ctx }

// Why the server ends a call.
var (
	errEnding = busyf(http.StatusServiceUnavailable, time.Second, "the server is ending")
	errSlow   = failf(http.StatusRequestTimeout, "the message did not arrive in time")
)

// SendMsg sends the answer, within limits of size and time.
func (c *call) SendMsg(m any) error {
	return c.ServerStream.SendMsg(&reply{message: m, held: c.s.hold(c.ctx), conn: c.conn})
}

// rpcCodes are the codes of gRPC for those of HTTP.
var rpcCodes = map[int]codes.Code{
	http.StatusBadRequest:            codes.InvalidArgument,
	http.StatusUnauthorized:          codes.Unauthenticated,
	http.StatusForbidden:             codes.PermissionDenied,
	http.StatusNotFound:              codes.NotFound,
	http.StatusRequestTimeout:        codes.DeadlineExceeded,
	http.StatusConflict:              codes.FailedPrecondition,
	http.StatusRequestEntityTooLarge: codes.ResourceExhausted,
	http.StatusTooManyRequests:       codes.ResourceExhausted,
	http.StatusServiceUnavailable:    codes.Unavailable,
	http.StatusGatewayTimeout:        codes.DeadlineExceeded,
}

// status is the answer to a call that ended with an error.
func (s *Server) status(ctx context.Context, method string, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause == errSlow || cause == errEnding {
		if _, ours := err.(failure); !ours {
			err = cause
		}
	}
	if said, ok := status.FromError(err); ok {
		return said.Err() // of package grpc itself
	}
	kind, after := statusOf(err)
	code, ok := rpcCodes[kind]
	busy := (*infer.BusyError)(nil)
	switch {
	case errors.As(err, &busy):
		code = codes.ResourceExhausted
	case !ok && ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	case !ok:
		code = codes.Internal
		s.log.Error("a call failed", "method", short(method), "err", err)
	}
	said := status.New(code, strings.ReplaceAll(err.Error(), "\n", "; "))
	if after > 0 {
		if with, err := said.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(after)}); err == nil {
			said = with
		}
	}
	return said.Err()
}
