package serve

import (
	"errors"
	"net/http"
	"slices"

	"github.com/weft-run/weft/serve/internal/infer"
)

// Memory of answers, which counts as that of bodies does (see hold): a client may ask for much in few bytes, and take
// nothing of it. The answer to a request for a prediction is counted before the request waits for a batch, any other
// while it is written.

// smallAnswer is the most bytes of an answer that do not count: they are as many as a connection has anyway, and
// a server that has no memory left says so with fewer.
const smallAnswer = 4 << 10

// answerWriter writes what a handler answers with, and counts it until the connection has taken it. What finds no
// room is answered with 503.
type answerWriter struct {
	http.ResponseWriter
	s       *Server
	r       *http.Request
	status  int  // that the handler has said, 0 for none; it is written with the first bytes
	begun   bool // the head of the answer is written
	refused bool // and what else the handler writes is dropped
	counted bool // by the handler
}

// Unwrap is for [http.ResponseController], which sets deadlines.
func (a *answerWriter) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader remembers the status until the answer is known to have room.
func (a *answerWriter) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// begin writes the head of the answer.
func (a *answerWriter) begin() {
	if a.begun {
		return
	}
	if a.begun = true; a.status != 0 {
		a.ResponseWriter.WriteHeader(a.status)
	}
}

// FlushError is for [http.ResponseController].
func (a *answerWriter) FlushError() error {
	a.begin()
	return http.NewResponseController(a.ResponseWriter).Flush()
}

var errNoRoom = errors.New("the answer has no room")

func (a *answerWriter) Write(b []byte) (int, error) {
	if a.refused {
		return 0, errNoRoom
	}
	if len(b) > smallAnswer && !a.counted {
		h := a.s.hold(a.r.Context())
		defer h.release()
		if err := h.take(int64(len(b))); err != nil {
			if a.begun {
				panic(http.ErrAbortHandler) // the client must not take a part for the whole
			}
			a.begun, a.refused = true, true
			a.Header().Del("ETag") // of what was to be written
			a.s.fail(a.ResponseWriter, a.r, err)
			return 0, errNoRoom
		}
	}
	a.begin()
	return a.ResponseWriter.Write(b)
}

// answerCounted says that the memory of an answer is counted by the handler that writes it.
func answerCounted(w http.ResponseWriter) {
	if a, ok := w.(*answerWriter); ok {
		a.counted = true
	}
}

// direct is the writer of package http itself.
func direct(w http.ResponseWriter) http.ResponseWriter {
	if a, ok := w.(*answerWriter); ok {
		return a.ResponseWriter
	}
	return w
}

// answerHead is room for what an answer has beside the elements of its tensors, and tensorHead for each of them.
const answerHead, tensorHead = 1024, 1024

// textBytes are the most bytes of an element as JSON, with a comma.
var textBytes = map[infer.Type]int64{
	infer.Bool: 6, infer.Uint8: 4, infer.Int8: 5, infer.Uint16: 6, infer.Int16: 7, infer.Uint32: 11, infer.Int32: 12,
	infer.Uint64: 21, infer.Int64: 21, infer.FP16: 17, infer.FP32: 17, infer.FP64: 26,
}

// Take reserves the memory of the answer: outputs of a number of examples, and what they become when they are written.
func (q *inference) Take(outputs []infer.Spec, examples int) error {
	room := int64(answerHead)
	for i := range outputs {
		o := &outputs[i]
		elements := int64(1)
		for _, d := range o.Shape {
			if d < 0 { // the batch
				d = int64(examples)
			}
			elements *= d
		}
		room += tensorHead + elements*o.Type.Size()
		if q.Request.Outputs == nil || slices.Contains(q.Request.Outputs, o.Name) {
			room += q.written(o.Name, o.Type, elements)
		}
	}
	return q.held.take(room)
}

// written returns the most bytes that elements of an output take in the answer.
func (q *inference) written(name string, kind infer.Type, elements int64) int64 {
	switch _, shared := q.into[name]; {
	case shared:
		return 0
	case q.message && !q.binary && kind != infer.FP16:
		return elements * contentsBytes
	case q.message, q.asBinary(name):
		return elements * kind.Size()
	}
	return elements * textBytes[kind]
}

// contentsBytes are the most bytes of an element as typed contents, in memory and in the message: 8 and 10.
const contentsBytes = 18
