package infer

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"encoding/binary"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/serve/internal/batch"
)

// call is a request under way.
type call struct {
	item     batch.Item
	v        *version
	examples int
	begun    time.Time
	at       int // in the items of its batch; guarded by Service.mu

	// mu guards inputs: a batch copies them, and the caller takes them back when it
	// leaves. It is held for as long as a copy takes.
	mu     sync.Mutex
	inputs []Tensor  // in the order of the model; nil once the caller has left
	first  [1]Tensor // room for them where there is one

	outputs []Tensor // in the order of the model
	started time.Time
	took    time.Duration
	batch   int // requests of its batch
	device  string
	err     error
	done    chan struct{} // closed with the answer
}

// leave takes the inputs back.
func (c *call) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inputs = nil
}

// copyInput copies an input behind what is in dst for the examples before it. If the caller
// has left, nobody sees what is computed.
func (c *call) copyInput(i int, dst []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inputs != nil {
		copy(dst, c.inputs[i].Data)
	}
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// arrange checks the inputs of a request against those of a model and returns them in its
// order, in the room that is given if it suffices, with how many examples they bring.
func (v *version) arrange(r *Request, room []Tensor) (inputs []Tensor, examples int, err error) {
	if inputs = room; len(room) != len(v.inputs) {
		inputs = make([]Tensor, len(v.inputs))
	}
	for _, t := range r.Inputs {
		i := slices.IndexFunc(v.inputs, func(s Spec) bool { return s.Name == t.Name })
		if i < 0 {
			return nil, 0, invalid("%v", text.Unknown("input", t.Name, names(v.inputs)))
		}
		if inputs[i].Type != "" {
			return nil, 0, invalid("input %s is there twice", t.Name)
		}
		if err := v.inputs[i].check(&t, v.config.Finite); err != nil {
			return nil, 0, err
		}
		inputs[i] = t
	}
	for i := range inputs {
		if inputs[i].Type == "" {
			return nil, 0, invalid("input %s is missing", v.inputs[i].Name)
		}
	}
	for _, name := range r.Outputs {
		if !slices.ContainsFunc(v.outputs, func(s Spec) bool { return s.Name == name }) {
			return nil, 0, invalid("%v", text.Unknown("output", name, names(v.outputs)))
		}
	}
	if !v.batched {
		return inputs, 1, nil
	}
	n := inputs[0].Shape[0]
	for _, t := range inputs {
		if t.Shape[0] != n {
			return nil, 0, invalid("input %s has %d examples and input %s %d: all have as many", inputs[0].Name, n, t.Name, t.Shape[0])
		}
	}
	if n > int64(v.most) {
		return nil, 0, invalid("%d examples in one request: model %s takes at most %d", n, v.name, v.most)
	}
	return inputs, int(n), nil
}

func names(specs []Spec) []string {
	names := make([]string, len(specs))
	for i, s := range specs {
		names[i] = s.Name
	}
	return names
}

// check errs unless a tensor is what a spec asks for.
func (s *Spec) check(t *Tensor, finite bool) error {
	if t.Type != s.Type {
		return invalid("input %s is %s: the model takes %s", s.Name, t.Type, s.Type)
	}
	fits := len(t.Shape) == len(s.Shape)
	for i := range s.Shape {
		fits = fits && t.Shape[i] > 0 && (s.Shape[i] < 0 || t.Shape[i] == s.Shape[i])
	}
	if !fits {
		return invalid("input %s has shape %v: the model takes %v", s.Name, t.Shape, s.Shape)
	}
	n, ok := count(t.Shape)
	if !ok || n*t.Type.Size() != int64(len(t.Data)) {
		return invalid("input %s of shape %v has %s of data: %s takes %d", s.Name, t.Shape, text.Count(len(t.Data), "byte"), t.Type, n*t.Type.Size())
	}
	if t.Type == Bool {
		for i, b := range t.Data {
			if b > 1 {
				return invalid("element %d of input %s is %d: a BOOL is 0 or 1", i, s.Name, b)
			}
		}
	}
	if finite {
		if i := notFinite(t); i >= 0 {
			return invalid("element %d of input %s is not finite: the model takes finite numbers only", i, s.Name)
		}
	}
	return nil
}

// notFinite returns the first element of a tensor that is infinite or no number, -1 if
// there is none.
func notFinite(t *Tensor) int {
	size := int(t.Type.Size())
	for i := 0; i+size <= len(t.Data); i += size {
		switch t.Type {
		case FP16:
			if binary.LittleEndian.Uint16(t.Data[i:])&0x7c00 == 0x7c00 {
				return i / size
			}
		case FP32:
			if binary.LittleEndian.Uint32(t.Data[i:])&0x7f800000 == 0x7f800000 {
				return i / size
			}
		case FP64:
			if f := math.Float64frombits(binary.LittleEndian.Uint64(t.Data[i:])); math.IsNaN(f) || math.IsInf(f, 0) {
				return i / size
			}
		default:
			return -1
		}
	}
	return -1
}

// respond makes the response of a call that is done.
func (c *call) respond(r *Request) *Response {
	res := &Response{
		Model: c.v.name, Version: c.v.number, ID: r.ID,
		Queued: c.started.Sub(c.begun), Computed: c.took,
		Batch: c.batch, Device: c.device,
	}
	if r.Outputs == nil {
		res.Outputs = c.outputs
		return res
	}
	for _, name := range r.Outputs {
		for _, t := range c.outputs {
			if t.Name == name {
				res.Outputs = append(res.Outputs, t)
			}
		}
	}
	return res
}
