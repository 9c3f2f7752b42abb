package otlp

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// Place is a span among all there are: its trace and its own number.
type Place struct {
	Trace [16]byte
	Span  [8]byte
	// Sampled says that the spans of the trace are kept.
	Sampled bool
}

// Span is a part of the work for a request.
type Span struct {
	Place
	Parent     [8]byte // zero for none
	Name       string
	Server     bool // it answers a request of another process
	Start, End time.Time
	Attributes []Attribute
	Err        string // why it failed; "" if it did not
}

// Attribute is a fact about a span: text, a whole number or a number.
type Attribute struct {
	Key   string
	Value any // string, int64 or float64
}

// ParseTraceparent reads the header traceparent of the W3C's Trace Context: version, trace, span and
// flags in hexadecimal. Versions to come may have more behind that.
func ParseTraceparent(s string) (p Place, ok bool) {
	f := strings.SplitN(s, "-", 5)
	if len(f) < 4 || len(f[0]) != 2 || len(f[1]) != 32 || len(f[2]) != 16 || len(f[3]) != 2 || f[0] == "ff" || f[0] == "00" && len(f) > 4 || s != strings.ToLower(s) {
		return Place{}, false
	}
	var version, flags [1]byte
	for _, part := range []struct {
		to   []byte
		from string
	}{{version[:], f[0]}, {p.Trace[:], f[1]}, {p.Span[:], f[2]}, {flags[:], f[3]}} {
		if _, err := hex.Decode(part.to, []byte(part.from)); err != nil {
			return Place{}, false
		}
	}
	if p.Trace == [16]byte{} || p.Span == [8]byte{} {
		return Place{}, false
	}
	p.Sampled = flags[0]&1 == 1
	return p, true
}

type callerKey struct{}

// WithCaller returns a context whose spans are below the one that a header traceparent names. A header
// that is none is ignored, as the standard asks.
func WithCaller(ctx context.Context, traceparent string) context.Context {
	if p, ok := ParseTraceparent(traceparent); ok {
		return context.WithValue(ctx, callerKey{}, p)
	}
	return ctx
}

// begin places a new span below the caller of ctx, or in a trace of its own.
func (e *Exporter) begin(ctx context.Context) (p Place, parent [8]byte) {
	if caller, ok := ctx.Value(callerKey{}).(Place); ok {
		return Place{Trace: caller.Trace, Span: newSpan(), Sampled: caller.Sampled}, caller.Span
	}
	binary.BigEndian.PutUint64(p.Trace[:8], rand.Uint64()|1) // zero is no trace
	low := rand.Uint64()
	binary.BigEndian.PutUint64(p.Trace[8:], low)
	p.Span, p.Sampled = newSpan(), float64(low) < e.sample*math.MaxUint64 || e.sample == 1
	return p, parent
}

// newSpan makes the number of a span.
func newSpan() (s [8]byte) {
	binary.BigEndian.PutUint64(s[:], rand.Uint64()|1)
	return s
}

// Objects of OTLP's JSON.
type (
	object map[string]any
	list   []any
)

// message is an ExportTraceServiceRequest.
func message(spans []Span) object {
	out := make(list, len(spans))
	for i := range spans {
		out[i] = spans[i].encode()
	}
	return object{"resourceSpans": list{object{
		"resource":   object{"attributes": attributes([]Attribute{{"service.name", "weft"}})},
		"scopeSpans": list{object{"scope": object{"name": "weft"}, "spans": out}},
	}}}
}

func (s *Span) encode() object {
	nano := func(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }
	o := object{"traceId": hex.EncodeToString(s.Trace[:]), "spanId": hex.EncodeToString(s.Span[:]), "name": s.Name,
		"kind": 1, "startTimeUnixNano": nano(s.Start), "endTimeUnixNano": nano(s.End), "attributes": attributes(s.Attributes)}
	if s.Server {
		o["kind"] = 2
	}
	if s.Parent != [8]byte{} {
		o["parentSpanId"] = hex.EncodeToString(s.Parent[:])
	}
	if s.Err != "" {
		o["status"] = object{"code": 2, "message": strings.ToValidUTF8(s.Err, "�")}
	}
	return o
}

func attributes(as []Attribute) list {
	out := list{}
	for _, a := range as {
		v := object{}
		switch x := a.Value.(type) {
		case string:
			v["stringValue"] = strings.ToValidUTF8(x, "�")
		case int64:
			v["intValue"] = strconv.FormatInt(x, 10)
		case float64:
			v["doubleValue"] = x
		}
		out = append(out, object{"key": a.Key, "value": v})
	}
	return out
}
