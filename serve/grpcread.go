package serve

import (
	"context"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// RecvMsg reads the message, within limits of size and time.
func (c *call) RecvMsg(m any) error { return c.read(m, int(c.s.limits.Body)) }

// read reads a message of some bytes at most.
func (c *call) read(m any, most int) error {
	if c.unread {
		return nil
	}
	late := time.AfterFunc(time.Duration(c.s.limits.ReadTime), func() { c.cancel(errSlow) })
	defer late.Stop()
	// A place of its client's before one of all, so that who waits keeps nobody else waiting.
	for _, places := range []chan struct{}{c.places(), c.s.reading} {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		case <-c.ctx.Done():
			if context.Cause(c.ctx) == errSlow {
				return busyf(http.StatusTooManyRequests, time.Second, "too many messages are being read")
			}
			return c.ctx.Err()
		}
	}
	a := &arrival{message: m.(proto.Message), hold: c.hold, most: most}
	if err := c.ServerStream.RecvMsg(a); err != nil {
		return err
	}
	return a.refused
}

// places are those of the caller. Probes have them too, though they count as no request.
func (c *call) places() chan struct{} {
	if c.hold.who != nil {
		return c.hold.who.reading
	}
	return c.s.clients.known(clientOf(c.ctx)).reading
}

// streamBytes is the most bytes of a message of a stream: each has a name in it, or not even that.
const streamBytes = 64 << 10

// asking is a stream whose messages are read as those of calls are: within limits of size and time,
// and counted, each until the next.
type asking struct {
	grpc.ServerStream
	call *call
}

// asking makes one of a stream that was let in. The caller releases what it holds.
func (s *Server) asking(stream grpc.ServerStream) *asking {
	ctx := stream.Context()
	c := &call{ServerStream: stream, s: s, ctx: ctx, cancel: ctx.Value(cancelKey{}).(context.CancelCauseFunc), hold: s.hold(ctx)}
	return &asking{stream, c}
}

func (a *asking) RecvMsg(m any) error {
	a.call.hold.release()
	a.call.hold = a.call.s.hold(a.call.ctx)
	return a.call.read(m, streamBytes)
}

// arrival is a message that arrives. The memory that it takes is reserved before it is decoded.
type arrival struct {
	message proto.Message
	hold    *hold
	most    int   // bytes that it may have
	refused error // why it was not decoded
}

// decode decodes the message from bytes, or says why not.
func (a *arrival) decode(src []byte) error {
	if len(src) > a.most {
		return failf(http.StatusRequestEntityTooLarge, "the message has %d bytes, and %d are the most here", len(src), a.most)
	}
	bytes, err := decodedBytes(src, a.message.ProtoReflect().Descriptor())
	if err != nil {
		return err
	}
	if err := a.hold.take(bytes); err != nil {
		if status, after := statusOf(err); status == http.StatusServiceUnavailable {
			err = busyf(http.StatusTooManyRequests, after, "%w", err) // gRPC has another code for it
		}
		return err
	}
	if err := proto.Unmarshal(src, a.message); err != nil {
		return badf("the message: %w", err)
	}
	return nil
}

// Unmarshal decodes a message that arrives once there is room for it. Package grpc would tell
// the client an error of its own for one that is returned here.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	a, ok := v.(*arrival)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	b := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer b.Free()
	a.refused = a.decode(b.ReadOnlyData())
	return nil
}

// Upper bounds in bytes for the overhead of a decoded message, a map entry, and a string or bytes
// field.
const (
	messageBytes = 256
	entryBytes   = 256
	stringBytes  = 48
)

// decodedBytes is the memory that a message takes when it is decoded, at most: a number of a byte
// may become one of eight. Lists of numbers count twice, as tensors are made of them.
func decodedBytes(src []byte, d protoreflect.MessageDescriptor) (int64, error) {
	all := int64(messageBytes)
	listed := make(map[protowire.Number]int)
	for len(src) > 0 {
		number, kind, n := protowire.ConsumeTag(src)
		if n < 0 {
			return 0, badf("the message: %w", protowire.ParseError(n))
		}
		m := protowire.ConsumeFieldValue(number, kind, src[n:])
		if m < 0 {
			return 0, badf("the message: %w", protowire.ParseError(m))
		}
		field, value := d.Fields().ByNumber(number), src[n:n+m]
		src = src[n+m:]
		switch {
		case field == nil:
			all += 2 * int64(n+m) // it is kept as it is, in memory that grows
			continue
		case kind != protowire.BytesType:
			all += max(3*numberBytes(field.Kind()), 2*int64(n+m)) // in memory that grows
			continue
		}
		value, _ = protowire.ConsumeBytes(value)
		switch of := field.Kind(); {
		case field.Message() != nil:
			if field.IsMap() {
				all += entryBytes
			} else if listed[number]++; field.IsList() && listed[number] > maxTensors {
				return 0, badf("more than %d %s", maxTensors, field.Name())
			}
			inner, err := decodedBytes(value, field.Message())
			if err != nil {
				return 0, err
			}
			all += inner
		case of == protoreflect.StringKind || of == protoreflect.BytesKind:
			all += stringBytes + int64(len(value))
		case !field.IsList():
			all += 2 * int64(n+m) // as what is in no field
		default:
			all += 2 * numberBytes(of) * packed(value, of)
		}
	}
	return all, nil
}

// numberBytes is the size of a number of a kind in memory.
func numberBytes(k protoreflect.Kind) int64 {
	switch k {
	case protoreflect.BoolKind:
		return 1
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Uint32Kind, protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind,
		protoreflect.FloatKind, protoreflect.EnumKind:
		return 4
	}
	return 8
}

// packed returns the number of elements in a packed list of a kind.
func packed(b []byte, k protoreflect.Kind) (n int64) {
	switch k {
	case protoreflect.FloatKind, protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind:
		return int64(len(b) / 4)
	case protoreflect.DoubleKind, protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind:
		return int64(len(b) / 8)
	}
	for _, c := range b {
		if c < 0x80 { // the last byte of one
			n++
		}
	}
	return n
}
