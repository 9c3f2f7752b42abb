package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/weft-run/weft/serve/internal/oip"
)

// Bounds of connections of gRPC that no configuration has.
const (
	leastPing  = 10 * time.Second // between pings of a client
	longestAge = time.Hour        // of a connection; its client opens another
	window     = 64 << 10         // bytes of a message that are taken before somebody reads it
	mostReads  = 1 << 16          // messages that are read at a time
)

// newGRPC makes the server of gRPC, for connections of a network.
func (s *Server) newGRPC(network string) *grpc.Server {
	l := s.limits
	// A message does not say its size before it is read, so each that is read is taken for
	// the largest there may be. One client has half of the places, and one.
	s.reading = make(chan struct{}, min(max(int64(l.Bodies/l.Body), 1), mostReads))
	s.clients.reads = max(cap(s.reading)/2, 1)
	options := []grpc.ServerOption{
		grpc.InTapHandle(cancellable), grpc.StreamInterceptor(s.guardGRPC), grpc.ForceServerCodecV2(codec{encoding.GetCodecV2("proto")}),
		grpc.MaxRecvMsgSize(int(l.Body)), grpc.MaxHeaderListSize(uint32(l.Header)), grpc.MaxConcurrentStreams(uint32(l.Concurrent)),
		grpc.ConnectionTimeout(time.Duration(l.ReadTime)), grpc.StaticStreamWindowSize(window), grpc.StaticConnWindowSize(16 * window),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: time.Duration(l.IdleTime), MaxConnectionAge: longestAge, MaxConnectionAgeGrace: time.Duration(l.DrainTime),
			Time: time.Duration(l.IdleTime), Timeout: time.Duration(l.WriteTime),
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: leastPing, PermitWithoutStream: true}),
	}
	if s.secure(network) {
		options = append(options, grpc.Creds(credentials.NewTLS(s.tlsConfig())))
	}
	g := grpc.NewServer(options...)
	g.RegisterService(s.guarded(oip.GRPCInferenceService_ServiceDesc), &models{s: s})
	g.RegisterService(s.guarded(healthpb.Health_ServiceDesc), &health{s: s})
	reflection.Register(registrar{g, s})
	return g
}

// registrar registers services as guarded ones.
type registrar struct {
	*grpc.Server
	s *Server
}

func (r registrar) RegisterService(d *grpc.ServiceDesc, service any) {
	r.Server.RegisterService(r.s.guarded(*d), service)
}

// guarded is a service whose methods of one message are called before that is read, so that
// the guard stands before it, and whose streams read as asking does. To clients it is the same.
func (s *Server) guarded(d grpc.ServiceDesc) *grpc.ServiceDesc {
	d.Streams = slices.Clone(d.Streams)
	for i := range d.Streams {
		next := d.Streams[i].Handler
		d.Streams[i].Handler = func(service any, stream grpc.ServerStream) error {
			a := s.asking(stream)
			defer func() { a.call.hold.release() }()
			return next(service, a)
		}
	}
	for _, m := range d.Methods {
		next := func(service any, stream grpc.ServerStream) error {
			answer, err := m.Handler(service, stream.Context(), stream.RecvMsg, nil)
			if err != nil {
				return err
			}
			return stream.SendMsg(answer)
		}
		// Package grpc has an interceptor for streams of several messages alone.
		info := &grpc.StreamServerInfo{FullMethod: "/" + d.ServiceName + "/" + m.MethodName}
		d.Streams = append(d.Streams, grpc.StreamDesc{StreamName: m.MethodName, Handler: func(service any, stream grpc.ServerStream) error {
			return s.guardGRPC(service, stream, info, next)
		}})
	}
	d.Methods = nil
	return &d
}

// listenGRPC takes the address of gRPC.
func (s *Server) listenGRPC() error {
	network, address, err := s.config.grpcAddress()
	if err != nil {
		return err
	}
	l, err := s.listen(network, address)
	if err != nil {
		return fmt.Errorf("gRPC: %w; choose another address by --grpc or the key grpc, or none for no gRPC", err)
	}
	s.grpcAt = &rpcListener{Listener: l, patience: time.Duration(s.limits.WriteTime), silent: make(map[*rpcConn]bool)}
	return nil
}

// GRPC returns the address at which the server answers gRPC, "" if there is none.
func (s *Server) GRPC() string {
	if s.grpcAt == nil {
		return ""
	}
	at := s.grpcAt.Addr()
	switch {
	case at.Network() == "unix":
		return s.config.GRPC
	case s.secure("tcp"):
		return "grpcs://" + at.String()
	}
	return "grpc://" + at.String()
}

// stopGRPC ends the server of gRPC when the calls under way have ended, or ctx has.
func (s *Server) stopGRPC(ctx context.Context) error {
	if s.grpc == nil {
		return nil
	}
	if s.grpcAt != nil {
		s.grpcAt.end()
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.grpc.GracefulStop()
	}()
	err := error(nil)
	select {
	case <-ended:
	case <-ctx.Done():
		s.grpc.Stop()
		err = fmt.Errorf("gRPC calls under way were cut off: %w", ctx.Err())
	}
	if s.grpcAt == nil {
		return err
	}
	if shut := s.grpcAt.Close(); !errors.Is(shut, net.ErrClosed) { // where nobody served
		err = errors.Join(err, shut)
	}
	return err
}
