package serve

import (
	"encoding/binary"
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/serve/internal/infer"
	"github.com/weft-run/weft/serve/internal/oip"
)

// parseMessage reads a request by gRPC. Raw inputs stay where they are.
func parseMessage(r *oip.ModelInferRequest) (*inference, error) {
	q := &inference{message: true, binary: len(r.GetRawInputContents()) > 0}
	q.Model, q.Version, q.ID = r.GetModelName(), r.GetModelVersion(), r.GetId()
	if len(q.ID) > maxName {
		return nil, badf("an id of more than %d bytes", maxName)
	}
	for key, p := range r.GetParameters() {
		if err := q.parameter(key, p); err != nil {
			return nil, err
		}
	}
	raw := r.GetRawInputContents()
	switch n := len(r.GetInputs()); {
	case n == 0:
		return nil, badf("the request has no inputs")
	case n > maxTensors || len(r.GetOutputs()) > maxTensors:
		return nil, badf("more than %d inputs or outputs", maxTensors)
	case len(raw) > 0 && len(raw) != n:
		return nil, badf("raw_input_contents has %d entries and there are %d inputs; it has one for each, or none", len(raw), n)
	}
	for i, in := range r.GetInputs() {
		t, err := parseInput(in)
		if err != nil {
			return nil, err
		}
		if c := in.GetContents(); len(raw) == 0 {
			if t.Data, err = gather(&t, c); err != nil {
				return nil, err
			}
		} else if elementsOf(c) > 0 {
			return nil, badf("input %s has contents, and there are raw_input_contents", quoted(t.Name))
		} else {
			t.Data = raw[i]
		}
		q.Inputs = append(q.Inputs, t)
	}
	seen := make(map[string]bool)
	for _, o := range r.GetOutputs() {
		name := o.GetName()
		if len(name) > maxName {
			return nil, badf("a name of more than %d bytes", maxName)
		}
		if seen[name] {
			return nil, badf("output %s is asked for twice", quoted(name))
		}
		seen[name] = true
		for key := range o.GetParameters() {
			if unsupported[key] {
				return nil, badf("output %s: %s is not supported", quoted(name), key)
			}
		}
		q.Outputs = append(q.Outputs, name)
	}
	return q, q.check()
}

// unsupported are parameters of tensors that would change what a request means.
var unsupported = map[string]bool{"classification": true, "shared_memory_region": true, "shared_memory_offset": true, "shared_memory_byte_size": true}

// parseInput reads an input without its elements.
func parseInput(in *oip.ModelInferRequest_InferInputTensor) (infer.Tensor, error) {
	t := infer.Tensor{Name: in.GetName(), Type: infer.Type(in.GetDatatype()), Shape: in.GetShape()}
	switch {
	case len(t.Name) > maxName:
		return t, badf("a name of more than %d bytes", maxName)
	case len(t.Shape) > maxDims:
		return t, badf("input %s: more than %d dimensions", quoted(t.Name), maxDims)
	case t.Shape == nil:
		t.Shape = []int64{} // messages do not tell none from an empty list
	}
	for key := range in.GetParameters() {
		if unsupported[key] {
			return t, badf("input %s: %s: shared memory is not supported; send raw_input_contents", quoted(t.Name), key)
		}
	}
	return t, nil
}

// parameter reads a parameter of a request, as parameters does from JSON.
func (q *inference) parameter(key string, p *oip.InferParameter) error {
	if key == "binary_data_output" {
		b, ok := p.GetParameterChoice().(*oip.InferParameter_BoolParam)
		if !ok {
			return badf("binary_data_output: it is true or false")
		}
		q.binary = q.binary || b.BoolParam
		return nil
	}
	_, err := q.set(key, func(key string, most int64) (int64, error) {
		n, ok := whole(p)
		if !ok || n < 0 || n > most {
			return 0, badf("%s: it is a whole number from 0 to %d", key, most)
		}
		return n, nil
	})
	return err
}

// tritonUint64 is the number of a field that Triton's clients have for parameters, and KServe's
// description has not.
const tritonUint64 = 5

// whole is a parameter that is a whole number.
func whole(p *oip.InferParameter) (int64, bool) {
	switch v := p.GetParameterChoice().(type) {
	case *oip.InferParameter_Int64Param:
		return v.Int64Param, true
	case *oip.InferParameter_StringParam:
		n, err := strconv.ParseInt(v.StringParam, 10, 64)
		return n, err == nil
	case nil:
		if p == nil {
			return 0, false
		}
		b := p.ProtoReflect().GetUnknown()
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 || field != tritonUint64 || kind != protowire.VarintType {
			return 0, false
		}
		x, m := protowire.ConsumeVarint(b[n:])
		return int64(x), m > 0 && x <= math.MaxInt64
	}
	return 0, false
}

// elementsOf returns the number of elements, of all types.
func elementsOf(c *oip.InferTensorContents) int {
	return len(c.GetBoolContents()) + len(c.GetIntContents()) + len(c.GetInt64Contents()) + len(c.GetUintContents()) +
		len(c.GetUint64Contents()) + len(c.GetFp32Contents()) + len(c.GetFp64Contents()) + len(c.GetBytesContents())
}

// gather returns the elements of a tensor, which are in the field of its type.
func gather(t *infer.Tensor, c *oip.InferTensorContents) ([]byte, error) {
	order, bad, size := binary.LittleEndian, -1, int(t.Type.Size())
	dst := make([]byte, 0, elementsOf(c)*size+4) // and what is cut off the last element
	switch t.Type {
	case infer.Bool:
		for _, v := range c.GetBoolContents() {
			b := byte(0)
			if v {
				b = 1
			}
			dst = append(dst, b)
		}
	case infer.Int8, infer.Int16, infer.Int32:
		for i, v := range c.GetIntContents() {
			if shift := 32 - 8*size; v<<shift>>shift != v {
				bad = i
			}
			dst = order.AppendUint32(dst, uint32(v))[:len(dst)+size]
		}
	case infer.Uint8, infer.Uint16, infer.Uint32:
		for i, v := range c.GetUintContents() {
			if shift := 32 - 8*size; v<<shift>>shift != v {
				bad = i
			}
			dst = order.AppendUint32(dst, v)[:len(dst)+size]
		}
	case infer.Int64:
		for _, v := range c.GetInt64Contents() {
			dst = order.AppendUint64(dst, uint64(v))
		}
	case infer.Uint64:
		for _, v := range c.GetUint64Contents() {
			dst = order.AppendUint64(dst, v)
		}
	case infer.FP32:
		for _, v := range c.GetFp32Contents() {
			dst = order.AppendUint32(dst, math.Float32bits(v))
		}
	case infer.FP64:
		for _, v := range c.GetFp64Contents() {
			dst = order.AppendUint64(dst, math.Float64bits(v))
		}
	case infer.FP16:
		return nil, badf("input %s: FP16 has no contents; send all inputs as raw_input_contents", quoted(t.Name))
	default:
		return nil, badf("input %s: %w", quoted(t.Name), noType(t.Type))
	}
	switch {
	case bad >= 0:
		return nil, badf("input %s, element %d: it does not fit %s", quoted(t.Name), bad, t.Type)
	case len(dst) != elementsOf(c)*size:
		return nil, badf("input %s has elements in a field of contents that is not that of %s", quoted(t.Name), t.Type)
	}
	return dst, nil
}

// message is the answer to a request: typed where the request is, unless one output has a
// type that only raw contents have, and raw otherwise.
func message(q *inference, resp *infer.Response) (*oip.ModelInferResponse, error) {
	out := &oip.ModelInferResponse{ModelName: resp.Model, ModelVersion: resp.Version, Id: q.ID, Parameters: map[string]*oip.InferParameter{
		"queue_us":   {ParameterChoice: &oip.InferParameter_Int64Param{Int64Param: resp.Queued.Microseconds()}},
		"compute_us": {ParameterChoice: &oip.InferParameter_Int64Param{Int64Param: resp.Computed.Microseconds()}},
		"batch":      {ParameterChoice: &oip.InferParameter_Int64Param{Int64Param: int64(resp.Batch)}},
		"device":     {ParameterChoice: &oip.InferParameter_StringParam{StringParam: resp.Device}},
	}}
	raw := q.binary
	for i := range resp.Outputs {
		raw = raw || resp.Outputs[i].Type == infer.FP16
	}
	for i := range resp.Outputs {
		t := &resp.Outputs[i]
		o := &oip.ModelInferResponse_InferOutputTensor{Name: t.Name, Datatype: string(t.Type), Shape: t.Shape}
		out.Outputs = append(out.Outputs, o)
		if raw {
			out.RawOutputContents = append(out.RawOutputContents, t.Data)
			continue
		}
		var err error
		if o.Contents, err = contents(&api.Tensor{Name: t.Name, Datatype: string(t.Type), Shape: t.Shape, Data: t.Data}); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// contents are the elements of a tensor in the field of their type.
func contents(t *api.Tensor) (c *oip.InferTensorContents, err error) {
	c = &oip.InferTensorContents{}
	switch infer.Type(t.Datatype) {
	case infer.Bool:
		c.BoolContents, err = api.Values[bool](t)
	case infer.Int8:
		c.IntContents, err = widened[int8, int32](t)
	case infer.Int16:
		c.IntContents, err = widened[int16, int32](t)
	case infer.Int32:
		c.IntContents, err = api.Values[int32](t)
	case infer.Int64:
		c.Int64Contents, err = api.Values[int64](t)
	case infer.Uint8:
		c.UintContents, err = widened[uint8, uint32](t)
	case infer.Uint16:
		c.UintContents, err = widened[uint16, uint32](t)
	case infer.Uint32:
		c.UintContents, err = api.Values[uint32](t)
	case infer.Uint64:
		c.Uint64Contents, err = api.Values[uint64](t)
	case infer.FP32:
		c.Fp32Contents, err = api.Values[float32](t)
	case infer.FP64:
		c.Fp64Contents, err = api.Values[float64](t)
	default:
		err = noType(infer.Type(t.Datatype))
	}
	return c, err
}

// widened are the elements of a tensor in a wider type.
func widened[From interface{ int8 | int16 | uint8 | uint16 }, To interface{ int32 | uint32 }](t *api.Tensor) ([]To, error) {
	list, err := api.Values[From](t)
	out := make([]To, len(list))
	for i, v := range list {
		out[i] = To(v)
	}
	return out, err
}
