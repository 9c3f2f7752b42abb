package serve

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/serve/internal/infer"
)

// parseInference reads the body of a request: JSON of header bytes, and after it the binary
// data of inputs. header is -1 if all is JSON.
func parseInference(body []byte, header int) (*inference, error) {
	return parseHeld(body, header, nil)
}

var inferSeeds = []string{
	doubled,
	`{"id":"a","parameters":{"priority":3,"timeout":"10","binary_data_output":false},"inputs":[{"name":"x","shape":[2,1],"datatype":"UINT8","data":[[1],[255]]}],"outputs":[{"name":"y","parameters":{"binary_data":true}}]}`,
	`{"inputs":[{"data":[true,false],"name":"b","datatype":"BOOL","shape":[2]},{"name":"h","datatype":"FP16","shape":[1],"data":[0.1]}]}`,
	`{"inputs":[{"name":"\u00e9\n","shape":[],"datatype":"INT64","data":[-9223372036854775808]}]}`,
	`{"inputs":[{"name":"x","shape":[0,5],"datatype":"FP64","data":[]}]}`,
	`{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1e400]}]}`,
	`{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","parameters":{"shared_memory_region":"r","shared_memory_offset":4,"shared_memory_byte_size":4}}],"outputs":[{"name":"y","parameters":{"shared_memory_region":"r","shared_memory_byte_size":4}}]}`,
	`{"inputs":[{}]}`, `[`, `{"inputs":"x"}`,
}

// reference reads a request by encoding/json, without any of the limits.
func reference(t *testing.T, src []byte) (tensors []infer.Tensor) {
	var q struct {
		Inputs []struct {
			Name     string
			Shape    []int64
			Datatype string
			Data     any
		}
	}
	d := json.NewDecoder(bytes.NewReader(src))
	d.UseNumber()
	if err := d.Decode(&q); err != nil {
		t.Fatalf("encoding/json refuses %q: %v", src, err)
	}
	if _, err := d.Token(); err != io.EOF {
		t.Fatalf("something follows: %q", src)
	}
	for _, in := range q.Inputs {
		x := infer.Tensor{Name: in.Name, Type: infer.Type(in.Datatype), Shape: in.Shape}
		var walk func(v any)
		walk = func(v any) {
			switch v := v.(type) {
			case []any:
				for _, e := range v {
					walk(e)
				}
			case bool:
				x.Data, _ = api.AppendElement(x.Data, in.Datatype, []byte(strconv.FormatBool(v)))
			case json.Number:
				x.Data, _ = api.AppendElement(x.Data, in.Datatype, []byte(v))
			default:
				t.Fatalf("%T in data: %q", v, src)
			}
		}
		walk(in.Data)
		tensors = append(tensors, x)
	}
	return tensors
}

// elsewhere reports whether tensors of a request are in shared memory.
func elsewhere(q *inference) bool {
	return len(q.into) > 0 || slices.ContainsFunc(q.from, func(p placed) bool { return p.region != "" })
}

// What is taken means the same to encoding/json, and an answer of the same tensors is JSON
// that reads back as them.
func FuzzInferJSON(f *testing.F) {
	for _, s := range inferSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		q, err := parseInference(src, -1)
		if err != nil {
			if status, _ := statusOf(err); status != 400 {
				t.Errorf("status %d: %v", status, err)
			}
			return
		}
		if elsewhere(q) {
			return
		}
		want := reference(t, src)
		if len(want) != len(q.Inputs) {
			t.Fatalf("%d inputs, %d by encoding/json", len(q.Inputs), len(want))
		}
		for i := range want {
			got := q.Inputs[i]
			if got.Name != want[i].Name || got.Type != want[i].Type || !bytes.Equal(got.Data, want[i].Data) || len(got.Shape) > 0 && !reflect.DeepEqual(got.Shape, want[i].Shape) {
				t.Errorf("%+v, %+v by encoding/json", got, want[i])
			}
		}
		answer(t, q)
	})
}

// answer checks the answer with the inputs of a request as outputs.
func answer(t *testing.T, q *inference) {
	t.Helper()
	out, at, err := appendResponse(nil, q, &infer.Response{Model: "m\"", Version: "1", Device: "a,b", Outputs: q.Inputs})
	if err != nil {
		return // a NaN that came as binary data
	}
	head := out
	if at >= 0 {
		head = out[:at]
	}
	if !json.Valid(head) {
		t.Fatalf("not JSON: %q", head)
	}
	var back struct {
		Outputs []struct {
			Datatype   string
			Data       []json.RawMessage
			Parameters struct {
				Size *int `json:"binary_data_size"`
			}
		}
	}
	if err := json.Unmarshal(head, &back); err != nil || len(back.Outputs) != len(q.Inputs) {
		t.Fatalf("%v: %q", err, head)
	}
	tail := out[len(head):]
	for i, o := range back.Outputs {
		var data []byte
		if o.Parameters.Size != nil {
			data, tail = tail[:*o.Parameters.Size], tail[*o.Parameters.Size:]
		}
		for _, e := range o.Data {
			if data, err = api.AppendElement(data, o.Datatype, e); err != nil {
				t.Fatal(err)
			}
		}
		same := bytes.Equal(data, q.Inputs[i].Data)
		if o.Datatype == "BOOL" { // any byte but 0 is true
			same = len(data) == len(q.Inputs[i].Data)
		}
		if !same {
			t.Errorf("output %d is % x and was % x", i, data, q.Inputs[i].Data)
		}
	}
	if len(tail) > 0 {
		t.Errorf("%d bytes follow", len(tail))
	}
}

// Any header length and any bytes are a request or a mistake of the client.
func FuzzInferBinary(f *testing.F) {
	head := `{"inputs":[{"name":"x","shape":[2],"datatype":"FP32","parameters":{"binary_data_size":8}}],"parameters":{"binary_data_output":true}}`
	f.Add([]byte(head+"12345678"), len(head))
	f.Add([]byte(head+"1234567"), len(head))
	f.Add([]byte(head+"123456789"), len(head))
	f.Add([]byte(head), 1<<40)
	f.Add([]byte(`{"inputs":[{"name":"x","shape":[1],"datatype":"BOOL","parameters":{"binary_data_size":1}},{"name":"y","shape":[1],"datatype":"INT16","data":[-2]}]}`+"\x02"), 150)
	f.Fuzz(func(t *testing.T, src []byte, header int) {
		if header < 0 {
			return
		}
		q, err := parseInference(src, header)
		if err != nil {
			if status, _ := statusOf(err); status != 400 {
				t.Errorf("status %d: %v", status, err)
			}
			return
		}
		if elsewhere(q) {
			return
		}
		total := 0
		for i, x := range q.Inputs {
			n, err := api.Elements(x.Shape)
			if err != nil || int64(len(x.Data)) != n*x.Type.Size() {
				t.Errorf("input %d of %v has %d bytes, %v", i, x.Shape, len(x.Data), err)
			}
			if q.sizes[i] >= 0 {
				total += len(x.Data)
			}
		}
		if total != len(src)-header {
			t.Errorf("%d bytes of binary data, %d in inputs", len(src)-header, total)
		}
		answer(t, q)
	})
}

// What a job asks for is read or refused.
func FuzzJobJSON(f *testing.F) {
	f.Add([]byte(`{"workload":"gemm","parameters":{"m":64,"seed":"1"},"devices":"cpu/2","repeat":3,"check":false}`))
	f.Add([]byte(`{"workload":"gemm","parameters":{"m":1e999}}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		q, err := readJob(src)
		if err != nil {
			return
		}
		var want api.JobRequest
		d := json.NewDecoder(bytes.NewReader(src))
		d.UseNumber()
		if err := d.Decode(&want); err != nil {
			t.Fatalf("encoding/json refuses %q: %v", src, err)
		}
		if q.Workload != want.Workload || q.Devices != want.Devices || len(q.Parameters) != len(want.Parameters) {
			t.Errorf("%+v, %+v by encoding/json", q, want)
		}
		s := &Server{}
		_, _ = s.plan(&q) // refused, since there is no runtime
	})
}
