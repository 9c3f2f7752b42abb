package serve

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/serve/internal/infer"
	"github.com/weft-run/weft/serve/internal/oip"
)

// models answers the protocol's calls.
type models struct {
	oip.UnimplementedGRPCInferenceServiceServer
	s *Server
}

func (m *models) ServerLive(context.Context, *oip.ServerLiveRequest) (*oip.ServerLiveResponse, error) {
	return &oip.ServerLiveResponse{Live: m.s.alive() == nil}, nil
}

func (m *models) ServerReady(context.Context, *oip.ServerReadyRequest) (*oip.ServerReadyResponse, error) {
	return &oip.ServerReadyResponse{Ready: m.s.ready() == nil}, nil
}

func (m *models) ServerMetadata(context.Context, *oip.ServerMetadataRequest) (*oip.ServerMetadataResponse, error) {
	return &oip.ServerMetadataResponse{Name: "weft", Version: m.s.version, Extensions: extensions}, nil
}

func (m *models) ModelReady(_ context.Context, r *oip.ModelReadyRequest) (*oip.ModelReadyResponse, error) {
	if err := named(r.GetName(), r.GetVersion()); err != nil {
		return nil, err
	}
	info, err := m.s.service.Model(r.GetName(), r.GetVersion())
	if err != nil {
		return nil, err
	}
	return &oip.ModelReadyResponse{Ready: info.State == infer.Ready}, nil
}

func (m *models) ModelMetadata(_ context.Context, r *oip.ModelMetadataRequest) (*oip.ModelMetadataResponse, error) {
	if err := named(r.GetName(), r.GetVersion()); err != nil {
		return nil, err
	}
	d, err := m.s.describe(r.GetName(), r.GetVersion())
	if err != nil {
		return nil, err
	}
	return &oip.ModelMetadataResponse{Name: d.Name, Versions: d.Versions, Platform: d.Platform, Inputs: rpcSpecs(d.Inputs), Outputs: rpcSpecs(d.Outputs)}, nil
}

func rpcSpecs(list []api.TensorSpec) []*oip.ModelMetadataResponse_TensorMetadata {
	out := make([]*oip.ModelMetadataResponse_TensorMetadata, len(list))
	for i, t := range list {
		out[i] = &oip.ModelMetadataResponse_TensorMetadata{Name: t.Name, Datatype: t.Datatype, Shape: t.Shape}
	}
	return out
}

func (m *models) ModelInfer(ctx context.Context, r *oip.ModelInferRequest) (*oip.ModelInferResponse, error) {
	arrived := time.Now()
	if err := named(r.GetModelName(), r.GetModelVersion()); err != nil {
		return nil, err
	}
	q, err := parseMessage(r)
	if err != nil {
		return nil, err
	}
	if a, ok := ctx.Value(askedKey{}).(*asked); ok {
		q.held = a.held
	}
	head, _ := metadata.FromIncomingContext(ctx)
	resp, err := m.s.predict(ctx, q, arrived, first(head, "traceparent"))
	if err != nil {
		return nil, err
	}
	return message(q, resp)
}

func (m *models) RepositoryModelLoad(ctx context.Context, r *oip.RepositoryModelLoadRequest) (*oip.RepositoryModelLoadResponse, error) {
	if err := m.change(ctx, m.s.service.Load, r.GetModelName()); err != nil {
		return nil, err
	}
	return &oip.RepositoryModelLoadResponse{ModelName: r.GetModelName(), IsLoaded: true}, nil
}

func (m *models) RepositoryModelUnload(ctx context.Context, r *oip.RepositoryModelUnloadRequest) (*oip.RepositoryModelUnloadResponse, error) {
	if err := m.change(ctx, m.s.service.Unload, r.GetModelName()); err != nil {
		return nil, err
	}
	return &oip.RepositoryModelUnloadResponse{ModelName: r.GetModelName(), IsUnloaded: true}, nil
}

func (m *models) change(ctx context.Context, change func(ctx context.Context, name string) error, name string) error {
	if err := named(name, ""); err != nil {
		return err
	}
	return m.s.perform(ctx, change, name)
}

// health answers the standard calls that ask how a server is. It knows the server as a whole,
// "", and the protocol's service, which are as ready as each other.
type health struct {
	healthpb.UnimplementedHealthServer
	s *Server
}

// lookAgain is the time between two looks at a watched state.
const lookAgain = time.Second

// state is that of a service, by its name.
func (h *health) state(name string) healthpb.HealthCheckResponse_ServingStatus {
	switch {
	case name != "" && name != oip.GRPCInferenceService_ServiceDesc.ServiceName:
		return healthpb.HealthCheckResponse_SERVICE_UNKNOWN
	case h.s.ready() != nil:
		return healthpb.HealthCheckResponse_NOT_SERVING
	}
	return healthpb.HealthCheckResponse_SERVING
}

func (h *health) Check(_ context.Context, r *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	is := h.state(r.GetService())
	if is == healthpb.HealthCheckResponse_SERVICE_UNKNOWN {
		return nil, status.Errorf(codes.NotFound, "no service %s", quoted(r.GetService()))
	}
	return &healthpb.HealthCheckResponse{Status: is}, nil
}

func (h *health) List(context.Context, *healthpb.HealthListRequest) (*healthpb.HealthListResponse, error) {
	all := make(map[string]*healthpb.HealthCheckResponse)
	for _, name := range []string{"", oip.GRPCInferenceService_ServiceDesc.ServiceName} {
		all[name] = &healthpb.HealthCheckResponse{Status: h.state(name)}
	}
	return &healthpb.HealthListResponse{Statuses: all}, nil
}

// Watch sends the state, and again whenever it has changed.
func (h *health) Watch(r *healthpb.HealthCheckRequest, stream grpc.ServerStreamingServer[healthpb.HealthCheckResponse]) error {
	t := time.NewTicker(lookAgain)
	defer t.Stop()
	for last := healthpb.HealthCheckResponse_UNKNOWN; ; {
		if is := h.state(r.GetService()); is != last {
			if err := stream.Send(&healthpb.HealthCheckResponse{Status: is}); err != nil {
				return err
			}
			last = is
		}
		select {
		case <-t.C:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}
