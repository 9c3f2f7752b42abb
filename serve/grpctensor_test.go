package serve

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/serve/internal/infer"
	"github.com/weft-run/weft/serve/internal/oip"
)

// echo is a service whose model gives what it takes.
type echo struct {
	*fake
	got chan []infer.Tensor
}

func (e *echo) Infer(_ context.Context, r *infer.Request) (*infer.Response, error) {
	e.got <- slices.Clone(r.Inputs)
	outputs := slices.Clone(r.Inputs)
	for i := range outputs {
		outputs[i].Data = bytes.Clone(outputs[i].Data)
	}
	return &infer.Response{Model: r.Model, Version: "1", Outputs: outputs}, nil
}

// samples has elements of every type, with the least and the greatest, as JSON and by name of
// the field of contents.
var samples = []struct {
	datatype, json string
	data           []byte
	contents       *oip.InferTensorContents // nil where there is none
}{
	{"BOOL", "[true,false,true]", []byte{1, 0, 1}, &oip.InferTensorContents{BoolContents: []bool{true, false, true}}},
	{"UINT8", "[0,7,255]", []byte{0, 7, 255}, &oip.InferTensorContents{UintContents: []uint32{0, 7, 255}}},
	{"UINT16", "[0,7,65535]", []byte{0, 0, 7, 0, 255, 255}, &oip.InferTensorContents{UintContents: []uint32{0, 7, 65535}}},
	{"UINT32", "[0,7,4294967295]", words[uint32](0, 7, math.MaxUint32), &oip.InferTensorContents{UintContents: []uint32{0, 7, math.MaxUint32}}},
	{"UINT64", "[0,7,18446744073709551615]", words[uint64](0, 7, math.MaxUint64), &oip.InferTensorContents{Uint64Contents: []uint64{0, 7, math.MaxUint64}}},
	{"INT8", "[-128,-1,127]", []byte{128, 255, 127}, &oip.InferTensorContents{IntContents: []int32{-128, -1, 127}}},
	{"INT16", "[-32768,-1,32767]", words[int16](-32768, -1, 32767), &oip.InferTensorContents{IntContents: []int32{-32768, -1, 32767}}},
	{"INT32", "[-2147483648,-1,2147483647]", words[int32](math.MinInt32, -1, math.MaxInt32), &oip.InferTensorContents{IntContents: []int32{math.MinInt32, -1, math.MaxInt32}}},
	{"INT64", "[-9223372036854775808,-1,9223372036854775807]", words[int64](math.MinInt64, -1, math.MaxInt64), &oip.InferTensorContents{Int64Contents: []int64{math.MinInt64, -1, math.MaxInt64}}},
	{"FP16", "[1,-2,65504]", []byte{0, 0x3c, 0, 0xc0, 0xff, 0x7b}, nil},
	{"FP32", "[0.1,-2,3.4028235e38]", words[float32](0.1, -2, math.MaxFloat32), &oip.InferTensorContents{Fp32Contents: []float32{0.1, -2, math.MaxFloat32}}},
	{"FP64", "[0.1,-2,1.7976931348623157e308]", words[float64](0.1, -2, math.MaxFloat64), &oip.InferTensorContents{Fp64Contents: []float64{0.1, -2, math.MaxFloat64}}},
}

// words are numbers as bytes.
func words[T any](list ...T) []byte {
	b, err := binary.Append(nil, binary.LittleEndian, list)
	if err != nil {
		panic(err)
	}
	return b
}

// The same request by JSON, by binary data, and by gRPC with typed and with raw contents is
// the same to the service, and the answers have the same elements.
func TestSameByAll(t *testing.T) {
	e := &echo{newFake(), make(chan []infer.Tensor, 1)}
	s, _, address := start(t, func(o *parts) { o.Service = e })
	ctx, conn := dial(t, s)
	c := oip.NewGRPCInferenceServiceClient(conn)
	for _, x := range samples {
		want := []infer.Tensor{{Name: "x", Type: infer.Type(x.datatype), Shape: []int64{1, 3}, Data: x.data}}
		check := func(way string, data []byte) {
			t.Helper()
			if got := <-e.got; !reflect.DeepEqual(got, want) {
				t.Errorf("%s by %s is %v", x.datatype, way, got)
			}
			if !bytes.Equal(data, x.data) {
				t.Errorf("%s by %s has the answer %v, want %v", x.datatype, way, data, x.data)
			}
		}
		check("JSON", post(t, address, fmt.Sprintf(`{"inputs":[{"name":"x","shape":[1,3],"datatype":%q,"data":%s}]}`, x.datatype, x.json), -1))
		head := fmt.Sprintf(`{"inputs":[{"name":"x","shape":[1,3],"datatype":%q,"parameters":{"binary_data_size":%d}}],"parameters":{"binary_data_output":true}}`, x.datatype, len(x.data))
		check("binary data", post(t, address, head+string(x.data), len(head)))
		in := &oip.ModelInferRequest_InferInputTensor{Name: "x", Shape: []int64{1, 3}, Datatype: x.datatype}
		raw, err := c.ModelInfer(ctx, &oip.ModelInferRequest{ModelName: "m", Inputs: []*oip.ModelInferRequest_InferInputTensor{in}, RawInputContents: [][]byte{x.data}})
		if err != nil || len(raw.RawOutputContents) != 1 || raw.Outputs[0].Contents != nil {
			t.Fatalf("%s: %v, %v", x.datatype, raw, err)
		}
		check("raw contents", raw.RawOutputContents[0])
		in.Contents = x.contents
		typed, err := c.ModelInfer(ctx, &oip.ModelInferRequest{ModelName: "m", Inputs: []*oip.ModelInferRequest_InferInputTensor{in}})
		if x.contents == nil {
			if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "raw_input_contents") {
				t.Errorf("%s as contents: %v", x.datatype, err)
			}
			continue
		}
		if err != nil || len(typed.RawOutputContents) > 0 || !proto.Equal(typed.Outputs[0].Contents, x.contents) {
			t.Fatalf("%s: %v, %v", x.datatype, typed, err)
		}
		check("typed contents", x.data)
	}
}

// post makes a request over HTTP, and returns the bytes of the answer's only output.
func post(t *testing.T, address, body string, header int) []byte {
	t.Helper()
	r, err := http.NewRequest("POST", address+"/v2/models/m/infer", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if header >= 0 {
		r.Header.Set(api.HeaderLength, strconv.Itoa(header))
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%s: status %d, %v: %s", body, resp.StatusCode, err, got)
	}
	if header >= 0 {
		at, err := strconv.Atoi(resp.Header.Get(api.HeaderLength))
		if err != nil {
			t.Fatal(err)
		}
		return got[at:]
	}
	var out struct {
		Outputs []struct {
			Datatype string
			Data     []json.RawMessage
		}
	}
	if err := json.Unmarshal(got, &out); err != nil || len(out.Outputs) != 1 {
		t.Fatalf("%v: %s", err, got)
	}
	var data []byte
	for _, e := range out.Outputs[0].Data {
		if data, err = api.AppendElement(data, out.Outputs[0].Datatype, e); err != nil {
			t.Fatal(err)
		}
	}
	return data
}

// Mistakes are said with what they are about.
func TestGRPCMistakes(t *testing.T) {
	param := func(v string) map[string]*oip.InferParameter {
		return map[string]*oip.InferParameter{v: {ParameterChoice: &oip.InferParameter_StringParam{StringParam: "x"}}}
	}
	long := strings.Repeat("x", maxName+1)
	for want, change := range map[string]func(r *oip.ModelInferRequest){
		"no inputs":                       func(r *oip.ModelInferRequest) { r.Inputs = nil },
		"there twice":                     func(r *oip.ModelInferRequest) { r.Inputs = append(r.Inputs, r.Inputs[0]) },
		"more than 64 inputs":             func(r *oip.ModelInferRequest) { r.Inputs = make([]*oip.ModelInferRequest_InferInputTensor, 65) },
		"no type":                         func(r *oip.ModelInferRequest) { r.Inputs[0].Datatype = "FP31" },
		"BYTES is not supported":          func(r *oip.ModelInferRequest) { r.Inputs[0].Datatype = "BYTES" },
		"field of contents":               func(r *oip.ModelInferRequest) { r.Inputs[0].Datatype = "FP64" },
		"takes 12":                        func(r *oip.ModelInferRequest) { r.Inputs[0].Shape = []int64{3} },
		"negative":                        func(r *oip.ModelInferRequest) { r.Inputs[0].Shape = []int64{-1, -1} },
		"more than 8 dimensions":          func(r *oip.ModelInferRequest) { r.Inputs[0].Shape = make([]int64, 9) },
		"one for each":                    func(r *oip.ModelInferRequest) { r.RawInputContents = make([][]byte, 2) },
		"has contents, and there are raw": func(r *oip.ModelInferRequest) { r.RawInputContents = make([][]byte, 1) },
		"asked for twice": func(r *oip.ModelInferRequest) {
			r.Outputs = []*oip.ModelInferRequest_InferRequestedOutputTensor{{}, {}}
		},
		"classification is not": func(r *oip.ModelInferRequest) {
			r.Outputs = []*oip.ModelInferRequest_InferRequestedOutputTensor{{Parameters: param("classification")}}
		},
		"a name of more":                 func(r *oip.ModelInferRequest) { r.Inputs[0].Name = long },
		"an id of more":                  func(r *oip.ModelInferRequest) { r.Id = long },
		"priority: it is a whole number": func(r *oip.ModelInferRequest) { r.Parameters = param("priority") },
		"timeout: it is a whole number":  func(r *oip.ModelInferRequest) { r.Parameters = param("timeout") },
		"binary_data_output: it":         func(r *oip.ModelInferRequest) { r.Parameters = param("binary_data_output") },
		"keep no state":                  func(r *oip.ModelInferRequest) { r.Parameters = param("sequence_id") },
		"shared memory":                  func(r *oip.ModelInferRequest) { r.Inputs[0].Parameters = param("shared_memory_region") },
		"does not fit INT8": func(r *oip.ModelInferRequest) {
			r.Inputs[0].Datatype, r.Inputs[0].Contents = "INT8", &oip.InferTensorContents{IntContents: []int32{128}}
		},
		"element 1: it does not fit UINT16": func(r *oip.ModelInferRequest) {
			r.Inputs[0].Datatype, r.Inputs[0].Contents = "UINT16", &oip.InferTensorContents{UintContents: []uint32{1, 1 << 16}}
		},
	} {
		r := input("m", 1)
		change(r)
		if _, err := parseMessage(r); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Whatever arrives is refused as a mistake, or has the bytes that its types and shapes say; and
// the elements come back as they were.
func FuzzGRPCRequest(f *testing.F) {
	for _, x := range samples {
		r := &oip.ModelInferRequest{ModelName: "m", Inputs: []*oip.ModelInferRequest_InferInputTensor{{Name: "x", Datatype: x.datatype, Shape: []int64{3}, Contents: x.contents}}}
		for range 2 {
			b, err := proto.Marshal(r)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
			r.Inputs[0].Contents, r.RawInputContents = nil, [][]byte{x.data}
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		r := &oip.ModelInferRequest{}
		reserved, sized := decodedBytes(src, r.ProtoReflect().Descriptor())
		if proto.Unmarshal(src, r) != nil {
			return // it is refused
		}
		if many := len(r.Inputs) > maxTensors || len(r.Outputs) > maxTensors; (sized != nil) != many {
			t.Fatalf("%d inputs and %d outputs: %v", len(r.Inputs), len(r.Outputs), sized)
		}
		if sized == nil && reserved < int64(proto.Size(r)) {
			t.Fatalf("%d bytes are reserved for %d", reserved, proto.Size(r))
		}
		q, err := parseMessage(r)
		if err != nil {
			if code, _ := statusOf(err); code != http.StatusBadRequest {
				t.Fatalf("%v has status %d", err, code)
			}
			return
		}
		for _, in := range q.Inputs {
			if n, err := api.Elements(in.Shape); err != nil || n*in.Type.Size() != int64(len(in.Data)) {
				t.Fatalf("%+v, %v", in, err)
			}
		}
		m, err := message(q, &infer.Response{Outputs: q.Inputs})
		if err != nil {
			t.Fatalf("%+v: %v", q.Inputs, err)
		}
		for i, o := range m.Outputs {
			in := r.Inputs[i]
			back := &oip.ModelInferRequest_InferInputTensor{Name: o.Name, Datatype: o.Datatype, Shape: o.Shape, Contents: o.Contents}
			if len(m.RawOutputContents) > 0 {
				if string(m.RawOutputContents[i]) != string(q.Inputs[i].Data) {
					t.Fatalf("raw output %d has changed", i)
				}
				continue
			}
			again, err := gather(&infer.Tensor{Type: infer.Type(back.Datatype)}, back.Contents)
			if err != nil || string(again) != string(q.Inputs[i].Data) || elementsOf(back.Contents) != elementsOf(in.Contents) {
				t.Fatalf("%v has become %v, %v", in, back, err)
			}
		}
	})
}
