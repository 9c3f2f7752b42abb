package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/serve/internal/infer"
)

// badRequest is a mistake of the client.
type badRequest struct{ error }

func (b badRequest) Unwrap() error { return b.error }

func badf(format string, args ...any) error { return badRequest{fmt.Errorf(format, args...)} }

// Limits of what one request may name.
const (
	maxTensors = 64
	maxDims    = 8
	maxName    = 256 // bytes
)

// inference is a request of the protocol.
type inference struct {
	infer.Request
	timeout int64 // µs; 0 for the model's default
	binary  bool  // all outputs are wanted as binary data
	wanted  map[string]bool
	sizes   []int64           // binary data of each input, in bytes; -1 where it came otherwise
	from    []placed          // where each input is; in no region where it came with the request; none over gRPC
	into    map[string]placed // where outputs go that do not come with the answer
	model   string            // as the body has it, where it does
	version string
	given   bool // inputs were there
	message bool // it came by gRPC
	held    *hold

	// Memory of a request with few inputs.
	fewInputs [2]infer.Tensor
	fewSizes  [2]int64
}

// asBinary reports whether an output is wanted as binary data.
func (q *inference) asBinary(output string) bool {
	if _, ok := q.into[output]; ok {
		return false
	}
	if b, ok := q.wanted[output]; ok {
		return b
	}
	return q.binary
}

// parseHeld reads the body of a request: JSON of header bytes, and after it the binary data of
// inputs. header is -1 if all is JSON. It reserves memory for tensors that came as JSON. Binary
// data stays where it was read.
func parseHeld(body []byte, header int, h *hold) (*inference, error) {
	head, tail := body, []byte(nil)
	if header >= 0 {
		if header > len(body) {
			return nil, badf("%s is %d in a body of %d bytes", api.HeaderLength, header, len(body))
		}
		head, tail = body[:header], body[header:]
	}
	q := &inference{}
	q.Inputs, q.sizes = q.fewInputs[:0], q.fewSizes[:0]
	r := &reader{src: head, hold: h}
	if err := q.read(r); err != nil {
		return nil, badRequest{err}
	}
	if err := r.end(); err != nil {
		return nil, badRequest{err}
	}
	for i := range q.Inputs {
		if q.sizes[i] < 0 {
			continue
		}
		if q.sizes[i] > int64(len(tail)) {
			return nil, badf("input %s has %d bytes of binary data and %d are left; %s says where they begin", quoted(q.Inputs[i].Name), q.sizes[i], len(tail), api.HeaderLength)
		}
		q.Inputs[i].Data, tail = tail[:q.sizes[i]:q.sizes[i]], tail[q.sizes[i]:]
	}
	if len(tail) > 0 {
		return nil, badf("%d bytes follow the binary data of the last input", len(tail))
	}
	return q, q.check()
}

// read reads the object of a request.
func (q *inference) read(r *reader) error {
	err := r.object(func(key string) (err error) {
		switch key {
		case "id":
			q.ID, err = r.name()
		case "model_name":
			q.model, err = r.name()
		case "model_version":
			q.version, err = r.name()
		case "parameters":
			err = q.parameters(r)
		case "inputs":
			q.given = true
			err = r.array(func() error {
				if len(q.Inputs) == maxTensors {
					return r.errorf("more than %d inputs", maxTensors)
				}
				return q.input(r)
			})
		case "outputs":
			err = r.array(func() error {
				if len(q.Outputs) == maxTensors {
					return r.errorf("more than %d outputs", maxTensors)
				}
				return q.output(r)
			})
		default:
			err = r.unknown(key, "id", "model_name", "model_version", "parameters", "inputs", "outputs")
		}
		return err
	})
	if err == nil && !q.given {
		err = errors.New(`the request has no "inputs"`)
	}
	return err
}

// name reads a text of a bounded length.
func (r *reader) name() (string, error) {
	s, err := r.string()
	if err == nil && len(s) > maxName {
		err = r.errorf("a name of more than %d bytes", maxName)
	}
	return s, err
}

// longestTimeout is the most that a request may name, in microseconds.
const longestTimeout = 3600e6

// Priorities of Triton's schedule policy extension: 1 goes first.
const (
	defaultPriority = 5
	lastPriority    = 9
)

// parameters reads those of a request. Names that are not known have no meaning here, which
// the protocol allows.
func (q *inference) parameters(r *reader) error {
	return r.object(func(key string) (err error) {
		if key == "binary_data_output" {
			q.binary, err = r.boolean()
			return err
		}
		known, err := q.set(key, r.whole)
		if !known {
			_, err = r.scalar()
		}
		return err
	})
}

// set sets what a parameter says that is the same over HTTP and gRPC, and reports whether it is one
// of those. whole reads its value, a whole number from 0 to most.
func (q *inference) set(key string, whole func(key string, most int64) (int64, error)) (known bool, err error) {
	switch key {
	case "priority":
		var n int64
		if n, err = whole(key, lastPriority); err == nil && n > 0 {
			q.Priority = defaultPriority - int(n)
		}
	case "timeout":
		q.timeout, err = whole(key, longestTimeout)
	case "sequence_id", "sequence_start", "sequence_end":
		err = badf("%s: models keep no state between requests", key)
	default:
		return false, nil
	}
	return true, err
}

// whole reads the value of a parameter that is a whole number from 0 to most. Some clients
// send numbers of parameters as text.
func (r *reader) whole(key string, most int64) (int64, error) {
	if r.peek() != '"' {
		return r.integer(0, most)
	}
	s, err := r.string()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > most {
		return 0, r.errorf("%s %s is not a whole number from 0 to %d", key, quoted(s), most)
	}
	return n, nil
}

// input reads one input.
func (q *inference) input(r *reader) error {
	var t infer.Tensor
	from := placed{size: -1}
	size, data := int64(-1), -1 // where data begins
	err := r.object(func(key string) (err error) {
		switch key {
		case "name":
			t.Name, err = r.name()
		case "datatype":
			var s string
			s, err = r.name()
			t.Type = infer.Type(s)
		case "shape":
			t.Shape, err = r.shape()
		case "parameters":
			size, err = r.inputParameters(&from)
		case "data":
			r.peek()
			data = r.at
			if t.Type != "" && t.Shape != nil {
				return r.data(&t)
			}
			return r.skip() // and read below, when its type is known
		default:
			err = r.unknown(key, "name", "datatype", "shape", "parameters", "data")
		}
		return err
	})
	if err != nil {
		return err
	}
	if data >= 0 && t.Data == nil && size < 0 {
		again := &reader{src: r.src, at: data, depth: r.depth, hold: r.hold}
		if err := again.data(&t); err != nil {
			return err
		}
	}
	if err := from.check(); err != nil {
		return fmt.Errorf("input %s: %w", quoted(t.Name), err)
	}
	sources := 0
	for _, has := range []bool{data >= 0, size >= 0, from.region != ""} {
		if has {
			sources++
		}
	}
	switch sources {
	case 0:
		return fmt.Errorf(`input %s has no "data", and no parameter "binary_data_size" or "shared_memory_region"`, quoted(t.Name))
	case 2, 3:
		return fmt.Errorf(`input %s has more than one of "data", "binary_data_size" and "shared_memory_region"`, quoted(t.Name))
	}
	q.Inputs, q.sizes, q.from = append(q.Inputs, t), append(q.sizes, size), append(q.from, from)
	return nil
}

// shape reads the dimensions of a tensor.
func (r *reader) shape() ([]int64, error) {
	shape := make([]int64, 0, 4)
	err := r.array(func() error {
		n, err := r.integer(0, maxSafe)
		if shape = append(shape, n); err == nil && len(shape) > maxDims {
			err = r.errorf("more than %d dimensions", maxDims)
		}
		return err
	})
	return shape, err
}

// inputParameters reads those of an input: where it is in shared memory, and the bytes of its
// binary data, -1 for none.
func (r *reader) inputParameters(from *placed) (size int64, err error) {
	size = -1
	err = r.object(func(key string) (err error) {
		if ours, err := from.parameter(r, key); ours {
			return err
		}
		if key == "binary_data_size" {
			size, err = r.integer(0, maxSafe)
		} else {
			_, err = r.scalar()
		}
		return err
	})
	return size, err
}

// data reads the elements of a tensor whose type and shape are known, as a flat list or
// nested by its dimensions.
func (r *reader) data(t *infer.Tensor) error {
	size := t.Type.Size()
	if size == 0 {
		return fmt.Errorf("input %s: %w", quoted(t.Name), noType(t.Type))
	}
	n, err := api.Elements(t.Shape)
	if err != nil {
		return fmt.Errorf("input %s: %w", quoted(t.Name), err)
	}
	// An element takes two bytes of text at least, with its comma.
	room := min(n, int64(len(r.src)-r.at)/2+1) * size
	if r.hold != nil {
		if err := r.hold.take(room); err != nil {
			return err
		}
	}
	t.Data = make([]byte, 0, room)
	err = r.elements(func() error {
		raw, err := r.element()
		if err != nil {
			return err
		}
		if int64(len(t.Data)) == n*size {
			return fmt.Errorf("input %s of shape %v has more than %d elements", quoted(t.Name), t.Shape, n)
		}
		if t.Data, err = api.AppendElement(t.Data, string(t.Type), raw); err != nil {
			return fmt.Errorf("input %s, element %d: %s", quoted(t.Name), int64(len(t.Data))/size, short(err.Error()))
		}
		return nil
	})
	if err == nil && int64(len(t.Data)) != n*size {
		err = fmt.Errorf("input %s of shape %v has %d elements, and takes %d", quoted(t.Name), t.Shape, int64(len(t.Data))/size, n)
	}
	return err
}

// element reads an element of a tensor and returns its text.
func (r *reader) element() ([]byte, error) {
	c := r.peek()
	if c == 't' || c == 'f' {
		start := r.at
		if _, err := r.word(); err != nil {
			return nil, err
		}
		return r.src[start:r.at], nil
	}
	raw, err := r.number()
	if err != nil {
		rest := bytes.ToLower(r.src[r.at:min(len(r.src), r.at+3)])
		if string(rest) == "nan" || string(rest) == "inf" {
			err = r.errorf("expected a number, and JSON has no NaN and no infinity; send them as binary data")
		}
	}
	return raw, err
}

// elements reads a list of elements, nested or not.
func (r *reader) elements(element func() error) error {
	more, err := r.enter('[', ']')
	for more && err == nil {
		if r.peek() == '[' {
			err = r.elements(element)
		} else {
			err = element()
		}
		if err == nil {
			more, err = r.next(']')
		}
	}
	return err
}

// skip reads a list of elements and forgets it.
func (r *reader) skip() error {
	return r.elements(func() error { _, err := r.scalar(); return err })
}

func noType(t infer.Type) error {
	if t == "BYTES" {
		return fmt.Errorf("type BYTES is not supported; models take numbers")
	}
	return fmt.Errorf("no type %s; there is BOOL, UINT8 to UINT64, INT8 to INT64, FP16, FP32 and FP64", quoted(string(t)))
}

// output reads one wanted output.
func (q *inference) output(r *reader) error {
	name, binary, stated := "", false, false
	into := placed{size: -1}
	err := r.object(func(key string) (err error) {
		switch key {
		case "name":
			name, err = r.name()
		case "parameters":
			err = r.object(func(key string) (err error) {
				if ours, err := into.parameter(r, key); ours {
					return err
				}
				switch key {
				case "binary_data":
					stated = true
					binary, err = r.boolean()
				case "classification":
					err = r.errorf("%s is not supported", key)
				default:
					_, err = r.scalar()
				}
				return err
			})
		default:
			err = r.unknown(key, "name", "parameters")
		}
		return err
	})
	if err == nil {
		err = into.check()
	}
	if err != nil {
		return err
	}
	if into.region != "" {
		if q.into == nil {
			q.into = make(map[string]placed)
		}
		q.into[name] = into
	}
	for _, o := range q.Outputs {
		if o == name {
			return fmt.Errorf("output %s is asked for twice", quoted(name))
		}
	}
	if q.Outputs = append(q.Outputs, name); stated {
		if q.wanted == nil {
			q.wanted = make(map[string]bool)
		}
		q.wanted[name] = binary
	}
	return nil
}

// check errs unless every input has the bytes that its type and shape say.
func (q *inference) check() error {
	for i := range q.Inputs {
		t := &q.Inputs[i]
		size := t.Type.Size()
		if size == 0 {
			return badf("input %s: %w", quoted(t.Name), noType(t.Type))
		}
		if t.Shape == nil {
			return badf(`input %s has no "shape"`, quoted(t.Name))
		}
		n, err := api.Elements(t.Shape)
		if err != nil {
			return badf("input %s: %w", quoted(t.Name), err)
		}
		has := int64(len(t.Data))
		if i < len(q.from) && q.from[i].region != "" {
			has = q.from[i].size
		}
		if has != n*size {
			return badf("input %s of %s %v has %d bytes of data, and takes %d", quoted(t.Name), t.Type, t.Shape, has, n*size)
		}
		for j := range i { // there are few
			if q.Inputs[j].Name == t.Name {
				return badf("input %s is there twice", quoted(t.Name))
			}
		}
	}
	return nil
}

// appendResponse appends the answer to a request: JSON, and the outputs that are wanted as
// binary data. It returns where those begin, -1 if there are none.
func appendResponse(dst []byte, q *inference, resp *infer.Response) (out []byte, header int, err error) {
	header = -1
	size := int64(256) // and what outputs take at most, so that nothing is copied
	for i := range resp.Outputs {
		t := &resp.Outputs[i]
		size += 128 + q.written(t.Name, t.Type, int64(len(t.Data))/max(t.Type.Size(), 1))
	}
	dst = append(slices.Grow(dst, int(size)), `{"model_name":`...)
	dst = appendText(dst, resp.Model)
	dst = append(dst, `,"model_version":`...)
	dst = appendText(dst, resp.Version)
	if q.ID != "" {
		dst = append(dst, `,"id":`...)
		dst = appendText(dst, q.ID)
	}
	dst = append(dst, `,"parameters":{"queue_us":`...)
	dst = strconv.AppendInt(dst, resp.Queued.Microseconds(), 10)
	dst = append(dst, `,"compute_us":`...)
	dst = strconv.AppendInt(dst, resp.Computed.Microseconds(), 10)
	dst = append(dst, `,"batch":`...)
	dst = strconv.AppendInt(dst, int64(resp.Batch), 10)
	dst = append(dst, `,"device":`...)
	dst = appendText(dst, resp.Device)
	dst = append(dst, `},"outputs":[`...)
	for i := range resp.Outputs {
		t := &resp.Outputs[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"name":`...)
		dst = appendText(dst, t.Name)
		dst = append(dst, `,"datatype":"`...)
		dst = append(append(dst, t.Type...), `","shape":[`...)
		for j, d := range t.Shape {
			if j > 0 {
				dst = append(dst, ',')
			}
			dst = strconv.AppendInt(dst, d, 10)
		}
		dst = append(dst, ']')
		if p, ok := q.into[t.Name]; ok { // it is there already
			dst = append(dst, `,"parameters":{"shared_memory_region":`...)
			dst = appendText(dst, p.region)
			dst = append(dst, `,"shared_memory_offset":`...)
			dst = strconv.AppendInt(dst, p.offset, 10)
			dst = append(dst, `,"shared_memory_byte_size":`...)
			dst = strconv.AppendInt(dst, int64(len(t.Data)), 10)
			dst = append(dst, '}', '}')
			continue
		}
		if q.asBinary(t.Name) {
			header = 0
			dst = append(dst, `,"parameters":{"binary_data_size":`...)
			dst = strconv.AppendInt(dst, int64(len(t.Data)), 10)
			dst = append(dst, '}', '}')
			continue
		}
		dst = append(dst, `,"data":`...)
		w := api.Tensor{Name: t.Name, Datatype: string(t.Type), Shape: t.Shape, Data: t.Data}
		if dst, err = w.AppendJSON(dst); err != nil {
			return nil, -1, err
		}
		dst = append(dst, '}')
	}
	if dst = append(dst, ']', '}'); header < 0 {
		return dst, -1, nil
	}
	header = len(dst)
	for i := range resp.Outputs {
		if t := &resp.Outputs[i]; q.asBinary(t.Name) {
			dst = append(dst, t.Data...)
		}
	}
	return dst, header, nil
}

// appendText appends a text as JSON.
func appendText(dst []byte, s string) []byte {
	plain := true
	for i := range len(s) {
		c := s[i]
		plain = plain && c >= ' ' && c <= '~' && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&'
	}
	if plain {
		return append(append(append(dst, '"'), s...), '"')
	}
	b, err := json.Marshal(s)
	if err != nil {
		panic("serve: " + err.Error()) // every string can be marshalled
	}
	return append(dst, b...)
}
