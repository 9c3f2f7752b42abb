package load

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
)

// Type is the type of a tensor's elements, as the protocol names it.
type Type string

// bytesType is the type of string elements, each preceded by its length in four bytes.
const bytesType Type = "BYTES"

// size is the size of an element in bytes, 0 where it differs or the type is unknown.
func (t Type) size() int64 {
	switch t {
	case "BOOL", "UINT8", "INT8":
		return 1
	case "UINT16", "INT16", "FP16", "BF16":
		return 2
	case "UINT32", "INT32", "FP32":
		return 4
	case "UINT64", "INT64", "FP64":
		return 8
	}
	return 0
}

// Tensor is an input that is given.
type Tensor struct {
	Name  string // "" for the only input
	Type  Type
	Shape []int64
	Data  []byte // little-endian, in C order
}

// Bounds of requests.
const (
	maxRequest  = 256 << 20 // bytes of the tensors of one request
	maxPrepared = 64 << 20  // bytes of all that are sent in turn
	variants    = 16        // requests of random inputs, or of parts of given ones
)

// compose makes the requests that are sent in turn.
func (c *Client) compose() error {
	given := make([]*Tensor, len(c.model.Inputs))
	for i := range c.o.Inputs {
		at, err := c.match(&c.o.Inputs[i])
		if err != nil {
			return err
		}
		if given[at] != nil {
			return fmt.Errorf("%w: input %q is given twice", ErrOption, c.model.Inputs[at].Name)
		}
		given[at] = &c.o.Inputs[i]
	}
	if err := c.size(given); err != nil {
		return err
	}
	total := 0
	random := rand.New(rand.NewPCG(c.o.Seed, 0))
	for v := range variants {
		tensors := make([]Tensor, len(given))
		same := true // as every other variant
		for i, in := range c.model.Inputs {
			shape := c.shape(in, given[i])
			if bytes := elements(shape) * max(in.Type.size(), 4); bytes < 0 || bytes > maxRequest {
				return fmt.Errorf("%w: input %q in the shape %v has more than %d MiB; use a smaller --batch", ErrOption, in.Name, shape, maxRequest>>20)
			}
			if given[i] != nil {
				tensors[i] = part(given[i], shape, v)
				same = same && slices.Equal(given[i].Shape, shape)
			} else {
				tensors[i] = Tensor{Type: in.Type, Shape: shape, Data: fill(random, in.Type, elements(shape))}
				same = false
			}
			tensors[i].Name = in.Name
		}
		r, err := c.infer(tensors)
		if err != nil {
			return err
		}
		c.requests = append(c.requests, r)
		if total += len(r); same || total > maxPrepared {
			break
		}
	}
	return nil
}

// match finds the input that a tensor is given for and checks that it fits.
func (c *Client) match(t *Tensor) (int, error) {
	ins := c.model.Inputs
	at := slices.IndexFunc(ins, func(s spec) bool { return s.Name == t.Name })
	if t.Name == "" && len(ins) == 1 {
		at = 0
	}
	if at < 0 {
		var names []string
		for _, in := range ins {
			names = append(names, in.Name)
		}
		return 0, fmt.Errorf("%w: model %q has no input %q; it has %q: write --input NAME=FILE", ErrOption, c.model.Name, t.Name, names)
	}
	in := ins[at]
	fits := t.Type == in.Type && (len(t.Shape) == len(in.Shape) || in.batched() && len(t.Shape) == len(in.Shape)-1)
	for i := range t.Shape {
		want := in.Shape
		if fits {
			want = in.Shape[len(in.Shape)-len(t.Shape):]
		}
		fits = fits && (want[i] == -1 || want[i] == t.Shape[i]) && t.Shape[i] > 0
	}
	if !fits {
		return 0, fmt.Errorf("%w: input %q takes %s in the shape %v, and %s in the shape %v are given", ErrOption, in.Name, in.Type, in.Shape, t.Type, t.Shape)
	}
	return at, nil
}

// batched reports whether the first dimension counts the items of a request.
func (s spec) batched() bool { return len(s.Shape) > 0 && s.Shape[0] == -1 }

// size decides how many items a request has.
func (c *Client) size(given []*Tensor) error {
	c.batch = c.o.Batch
	fixed := true
	for i, in := range c.model.Inputs {
		if !in.batched() {
			continue
		}
		fixed = false
		rows := 0
		if given[i] != nil && len(given[i].Shape) == len(in.Shape) {
			rows = int(given[i].Shape[0])
		}
		if c.o.Batch == 0 && rows > 0 {
			c.batch = max(c.batch, rows)
		}
		if c.o.Batch > 0 && rows > 0 && rows < c.o.Batch {
			return fmt.Errorf("%w: a batch of %d, and input %q is given with %d", ErrOption, c.o.Batch, in.Name, rows)
		}
	}
	if fixed && c.batch > 1 {
		return fmt.Errorf("%w: a batch of %d: the inputs of model %q have fixed shapes; leave --batch out", ErrOption, c.batch, c.model.Name)
	}
	c.batch = max(c.batch, 1)
	for i, in := range c.model.Inputs {
		if given[i] != nil && in.batched() && len(given[i].Shape) == len(in.Shape) && int(given[i].Shape[0]) < c.batch {
			return fmt.Errorf("%w: input %q is given with %d items, another with %d; choose by --batch", ErrOption, in.Name, given[i].Shape[0], c.batch)
		}
		if given[i] == nil && slices.Contains(in.Shape[min(len(in.Shape), 1):], -1) {
			return fmt.Errorf("%w: input %q has the shape %v, whose dimensions the request chooses; give it by --input %s=FILE.npy", ErrOption, in.Name, in.Shape, in.Name)
		}
	}
	return nil
}

// shape is the shape of an input in a request.
func (c *Client) shape(in spec, given *Tensor) []int64 {
	var shape []int64
	switch {
	case given == nil:
		shape = slices.Clone(in.Shape)
	case len(given.Shape) < len(in.Shape):
		shape = append([]int64{1}, given.Shape...)
	default:
		shape = slices.Clone(given.Shape)
	}
	if in.batched() {
		shape[0] = int64(c.batch)
	}
	return shape
}

// elements is the number of elements in a shape, -1 if it is more than any request has.
func elements(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		if d > maxRequest || n*d > maxRequest {
			return -1
		}
		n *= d
	}
	return n
}

// part takes the items of variant v from a tensor that is given: those behind the ones of the
// variant before, from the first again after the last. One item alone is repeated.
func part(t *Tensor, shape []int64, v int) Tensor {
	out := Tensor{Type: t.Type, Shape: shape, Data: t.Data}
	if slices.Equal(t.Shape, shape) {
		return out
	}
	items, rows := shape[0], int64(1)
	if len(t.Shape) == len(shape) {
		rows = t.Shape[0]
	}
	row := int64(len(t.Data)) / rows
	out.Data = make([]byte, 0, items*row)
	for i := range items {
		at := (int64(v)*items + i) % rows * row
		out.Data = append(out.Data, t.Data[at:at+row]...)
	}
	return out
}

// fill makes random elements: floats from 0 up to 1, whole numbers from 0 to 99, text of eight
// letters.
func fill(r *rand.Rand, t Type, n int64) []byte {
	var b []byte
	for range n {
		switch t {
		case "BOOL":
			b = append(b, byte(r.IntN(2)))
		case "UINT8", "INT8":
			b = append(b, byte(r.IntN(100)))
		case "UINT16", "INT16":
			b = binary.LittleEndian.AppendUint16(b, uint16(r.IntN(100)))
		case "UINT32", "INT32":
			b = binary.LittleEndian.AppendUint32(b, uint32(r.IntN(100)))
		case "UINT64", "INT64":
			b = binary.LittleEndian.AppendUint64(b, uint64(r.IntN(100)))
		case "FP16": // the significand of a number from 1 up to 2 would need no rounding; k/1024 has none either
			b = binary.LittleEndian.AppendUint16(b, half(float32(r.IntN(1024))/1024))
		case "BF16":
			b = binary.LittleEndian.AppendUint16(b, uint16(math.Float32bits(float32(r.IntN(128))/128)>>16))
		case "FP32":
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(r.Float32()))
		case "FP64":
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(r.Float64()))
		case bytesType:
			b = binary.LittleEndian.AppendUint32(b, 8)
			for range 8 {
				b = append(b, byte('a'+r.IntN(26)))
			}
		}
	}
	return b
}

// half encodes a number k/1024, from 0 up to 1, in sixteen bits.
func half(x float32) uint16 {
	if x == 0 {
		return 0
	}
	bits := math.Float32bits(x)
	return uint16(int(bits>>23)-127+15)<<10 | uint16(bits>>13&0x3ff)
}

// single is the value of sixteen bits.
func single(h uint16) float32 {
	sign, exp, frac := float32(1), int(h>>10&31), float64(h&0x3ff)
	if h>>15 == 1 {
		sign = -1
	}
	switch exp {
	case 0:
		return sign * float32(math.Ldexp(frac, -24))
	case 31:
		if frac != 0 {
			return float32(math.NaN())
		}
		return sign * float32(math.Inf(1))
	}
	return sign * float32(math.Ldexp(1024+frac, exp-25))
}

// jsonTensor is a tensor in the JSON of a request.
type jsonTensor struct {
	Name       string          `json:"name"`
	Type       Type            `json:"datatype"`
	Shape      []int64         `json:"shape"`
	Parameters map[string]any  `json:"parameters,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
}

// infer makes the request of an inference.
func (c *Client) infer(tensors []Tensor) ([]byte, error) {
	if c.o.Target.grpc {
		return c.inferRPC(tensors)
	}
	var body struct {
		Parameters map[string]any `json:"parameters,omitempty"`
		Inputs     []jsonTensor   `json:"inputs"`
	}
	var raw []byte
	for _, t := range tensors {
		j := jsonTensor{Name: t.Name, Type: t.Type, Shape: t.Shape}
		if c.o.Binary {
			j.Parameters = map[string]any{"binary_data_size": len(t.Data)}
			raw = append(raw, t.Data...)
		} else {
			var err error
			if j.Data, err = numbers(t.Type, t.Data); err != nil {
				return nil, fmt.Errorf("%w: input %q: %w", ErrOption, t.Name, err)
			}
		}
		body.Inputs = append(body.Inputs, j)
	}
	if c.o.Binary {
		body.Parameters = map[string]any{"binary_data_output": true}
	}
	head, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	if !c.o.Binary {
		return c.request("POST", c.path("/infer"), head), nil
	}
	return c.request("POST", c.path("/infer"), append(head, raw...),
		"Content-Type: application/octet-stream", "Inference-Header-Content-Length: "+strconv.Itoa(len(head))), nil
}

// numbers writes elements as an array of JSON.
func numbers(t Type, data []byte) (json.RawMessage, error) {
	out := []byte{'['}
	for at := 0; at < len(data); {
		if at > 0 {
			out = append(out, ',')
		}
		b := data[at:]
		var x float64
		width := 32
		switch t {
		case "BOOL":
			out = strconv.AppendBool(out, b[0] != 0)
		case "UINT8":
			out = strconv.AppendUint(out, uint64(b[0]), 10)
		case "INT8":
			out = strconv.AppendInt(out, int64(int8(b[0])), 10)
		case "UINT16":
			out = strconv.AppendUint(out, uint64(binary.LittleEndian.Uint16(b)), 10)
		case "INT16":
			out = strconv.AppendInt(out, int64(int16(binary.LittleEndian.Uint16(b))), 10)
		case "UINT32":
			out = strconv.AppendUint(out, uint64(binary.LittleEndian.Uint32(b)), 10)
		case "INT32":
			out = strconv.AppendInt(out, int64(int32(binary.LittleEndian.Uint32(b))), 10)
		case "UINT64":
			out = strconv.AppendUint(out, binary.LittleEndian.Uint64(b), 10)
		case "INT64":
			out = strconv.AppendInt(out, int64(binary.LittleEndian.Uint64(b)), 10)
		case "FP16":
			x = float64(single(binary.LittleEndian.Uint16(b)))
		case "BF16":
			x = float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16))
		case "FP32":
			x = float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
		case "FP64":
			x, width = math.Float64frombits(binary.LittleEndian.Uint64(b)), 64
		case bytesType:
			n := int(binary.LittleEndian.Uint32(b))
			text, err := json.Marshal(string(b[4 : 4+n]))
			if err != nil {
				return nil, err
			}
			out = append(out, text...)
			at += 4 + n
			continue
		}
		if t == "FP16" || t == "BF16" || t == "FP32" || t == "FP64" {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				return nil, fmt.Errorf("element %d is %v, which JSON cannot hold; use --binary", int64(at)/t.size(), x)
			}
			out = strconv.AppendFloat(out, x, 'g', -1, width)
		}
		at += int(t.size())
	}
	return append(out, ']'), nil
}
