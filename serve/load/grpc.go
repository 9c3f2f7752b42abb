package load

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	head "google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weft-run/weft/serve/internal/oip"
)

// rpcConn is a connection of gRPC. Package grpc makes it again after it has ended.
type rpcConn struct {
	*grpc.ClientConn
	made atomic.Uint64 // how often
}

// openRPC begins gRPC on a connection, and waits until it can be used or cannot.
func (c *conn) openRPC(ctx context.Context, first net.Conn) error {
	r, o := &rpcConn{}, &c.client.o
	secret := insecure.NewCredentials()
	if o.Target.tls != nil {
		secret = credentials.NewTLS(o.Target.tls)
	}
	var err error
	r.ClientConn, err = grpc.NewClient("passthrough:///"+o.Target.host, grpc.WithTransportCredentials(secret), grpc.WithUserAgent("weft-load"),
		grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxRequest), grpc.MaxCallSendMsgSize(2*maxRequest)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			if r.made.Add(1) == 1 {
				return first, nil
			}
			return o.dial(ctx)
		}))
	if err != nil {
		first.Close()
		return err
	}
	c.rpc = r
	r.Connect()
	for is := r.GetState(); is != connectivity.Ready && is != connectivity.TransientFailure; is = r.GetState() {
		if !r.WaitForStateChange(ctx, is) {
			c.closeRPC()
			return ctx.Err()
		}
	}
	return nil // what is wrong is told by the first call
}

func (c *conn) closeRPC() {
	c.rpc.Close()
	c.again = c.remade()
	c.rpc = nil
}

// remade returns the number of times that a connection was made again.
func (c *conn) remade() uint64 {
	if c.rpc == nil {
		return c.again
	}
	return c.again + max(c.rpc.made.Load(), 1) - 1
}

// maxMetadata is the most bytes of what a server says of a model, which takes many times as much
// memory.
const maxMetadata = 1 << 20

// askRPC finds out what a model takes.
func (c *Client) askRPC(ctx context.Context, cn *conn) error {
	deadline := time.Now().Add(c.o.Timeout)
	if err := cn.open(ctx, deadline); err != nil {
		return c.o.Target.failed(err)
	}
	calling, cancel := context.WithDeadline(c.authorized(ctx), deadline)
	defer cancel()
	said, err := oip.NewGRPCInferenceServiceClient(cn.rpc).ModelMetadata(calling, &oip.ModelMetadataRequest{Name: c.model.Name, Version: c.o.Version},
		grpc.MaxCallRecvMsgSize(maxMetadata))
	a, err := answered(ctx, err)
	switch {
	case err != nil:
		return c.o.Target.failed(err)
	case a.status == http.StatusNotFound:
		return fmt.Errorf("%s: no model %q there (%s); --model names another", c.o.Target, c.model.Name, a.reason())
	case a.status != http.StatusOK:
		return fmt.Errorf("%s: asked for model %q, the server answered with %s", c.o.Target, c.model.Name, a.reason())
	}
	for _, in := range said.GetInputs() {
		c.model.Inputs = append(c.model.Inputs, spec{Name: in.GetName(), Type: Type(in.GetDatatype()), Shape: in.GetShape()})
	}
	if err := c.model.check(); err != nil {
		return fmt.Errorf("%s: what the server says of model %q: %w", c.o.Target, c.model.Name, err)
	}
	return nil
}

// authorized is a context of calls with the token.
func (c *Client) authorized(ctx context.Context) context.Context {
	if c.o.Token == "" {
		return ctx
	}
	return head.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.o.Token)
}

// inferRPC makes the message of an inference.
func (c *Client) inferRPC(tensors []Tensor) ([]byte, error) {
	r := &oip.ModelInferRequest{ModelName: c.model.Name, ModelVersion: c.o.Version}
	for _, t := range tensors {
		r.Inputs = append(r.Inputs, &oip.ModelInferRequest_InferInputTensor{Name: t.Name, Datatype: string(t.Type), Shape: t.Shape})
		r.RawInputContents = append(r.RawInputContents, t.Data)
	}
	return proto.Marshal(r)
}

// call sends a message and waits for the answer, which must be there by the deadline and is
// dropped.
func (c *conn) call(ctx context.Context, request []byte, deadline time.Time) (answer, error) {
	if err := c.open(ctx, deadline); err != nil {
		return answer{}, err
	}
	calling, cancel := context.WithDeadline(c.client.authorized(ctx), deadline)
	defer cancel()
	return answered(ctx, c.rpc.Invoke(calling, oip.GRPCInferenceService_ModelInfer_FullMethodName, request, nil, grpc.ForceCodecV2(ready{})))
}

// ready is a codec for messages that are bytes already. It ignores answers.
type ready struct{}

func (ready) Name() string { return "proto" }

func (ready) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (ready) Unmarshal(mem.BufferSlice, any) error { return nil }

// rpcStatuses maps the gRPC statuses that are told apart to statuses of HTTP.
var rpcStatuses = map[codes.Code]int{
	codes.OK: http.StatusOK, codes.NotFound: http.StatusNotFound, codes.ResourceExhausted: http.StatusTooManyRequests,
	codes.Unavailable: http.StatusServiceUnavailable,
}

// answered returns the outcome of a call.
func answered(ctx context.Context, err error) (answer, error) {
	said := status.Convert(err)
	if err != nil && ctx.Err() != nil {
		return answer{}, context.Cause(ctx)
	}
	again := false // the server says when to ask again
	for _, d := range said.Details() {
		_, is := d.(*errdetails.RetryInfo)
		again = again || is
	}
	switch {
	case said.Code() == codes.DeadlineExceeded:
		return answer{}, context.DeadlineExceeded
	case said.Code() == codes.Unavailable && !again: // nor did the server say it, as far as is known
		return answer{}, errors.New(said.Message())
	}
	a := answer{status: cmp.Or(rpcStatuses[said.Code()], http.StatusInternalServerError)}
	if a.code = said.Code().String(); err != nil {
		a.body, err = json.Marshal(map[string]string{"error": said.Message()})
	}
	return a, err
}
