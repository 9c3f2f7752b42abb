// Package infer serves predictions: models in folders, loaded, replaced and unloaded while
// requests are answered, and a Service that computes requests together in batches on the
// devices of a runtime. What forms a batch, where and when, and who is refused is decided
// by serve/internal/batch; this package performs it. It speaks no protocol: serve does.
//
// # Devices and models
//
// The service follows the runtime's events (devices.go): a graph is put on a device that comes into service, with the
// weights as they were loaded, and forgotten on one that goes. A model that no device in service has is not ready;
// while it is being put on one its requests wait, and else they are refused. A folder has a model.yaml (config.go), or
// folders of versions that do. A graph is tied to each device that has the memory and can run it
// (model.Prepared.On), with its weights there once; a reservoir is placed by the runtime. What a batch takes is bounded
// before anything is allocated. A model is replaced by loading the new one beside it: requests that were taken end on
// the old one, whose memory goes with the last. A graph has a fixed shape. Where batch says that the first dimension
// is the batch, requests fill it from the start and zeros are behind them; otherwise it runs for each request. Results
// have the bits that each request has alone.
//
// # Faults
//
// Requests of a batch that failed are computed one by one. Those of a lost device are computed elsewhere, or by
// itself when it is back (batch.Machine.Expect). A batch that takes ten times as long as predicted, and more than a
// second, loses its claim to the device: other models go on there, its own does not until it ends. Every request has
// its answer by its deadline, computed or not.
package infer

import (
	"errors"
	"fmt"
	"time"
)

// Type is the type of a tensor's elements, as the Open Inference Protocol names them.
type Type string

// The types of elements.
const (
	Bool   Type = "BOOL"
	Uint8  Type = "UINT8"
	Uint16 Type = "UINT16"
	Uint32 Type = "UINT32"
	Uint64 Type = "UINT64"
	Int8   Type = "INT8"
	Int16  Type = "INT16"
	Int32  Type = "INT32"
	Int64  Type = "INT64"
	FP16   Type = "FP16"
	FP32   Type = "FP32"
	FP64   Type = "FP64"
)

// Size returns the bytes of an element, 0 for a type that there is not.
func (t Type) Size() int64 {
	switch t {
	case Bool, Uint8, Int8:
		return 1
	case Uint16, Int16, FP16:
		return 2
	case Uint32, Int32, FP32:
		return 4
	case Uint64, Int64, FP64:
		return 8
	}
	return 0
}

// Tensor is a named array.
type Tensor struct {
	Name  string
	Type  Type
	Shape []int64
	Data  []byte // little-endian, C order
}

// Spec describes an input or output of a model.
type Spec struct {
	Name  string
	Type  Type
	Shape []int64 // -1 for a dimension that a request chooses; the first is the batch where the model has one
}

// Request asks a model for a prediction. The service keeps its inputs until Infer returns, and outputs share
// no memory with them.
type Request struct {
	Model, Version, ID string // Version "" is the newest that is ready
	Inputs             []Tensor
	Outputs            []string  // wanted; nil for all
	Client             string    // who asks, for fairness
	Priority           int       // higher goes first
	Deadline           time.Time // zero for the model's default
	Room               Room      // for the outputs; nil for any
}

// Room is the memory that a caller has for outputs.
type Room interface {
	// Take reserves it for all outputs of a model, of some examples, before the request waits for a batch. Its
	// error is that of Infer.
	Take(outputs []Spec, examples int) error
}

// Response answers a request.
type Response struct {
	Model, Version, ID string
	Outputs            []Tensor // in the order of Request.Outputs, or of the model
	Queued, Computed   time.Duration
	Batch              int    // requests computed together
	Device             string // where; several names are joined by commas
}

// State is the state of a model version.
type State string

// The states of a model version.
const (
	Loading   State = "loading"
	Ready     State = "ready"
	Unloading State = "unloading"
	Failed    State = "failed"
	Failing   State = "failing" // it fails on every device; requests are tried all the same
)

// Info describes a model version.
type Info struct {
	Name, Version, Kind string
	State               State
	Reason              string // of a failure
	Inputs, Outputs     []Spec
	MaxBatch            int
	Devices             []string // where its weights are
}

// Stats are the counts of a model version. All but Waiting only grow.
type Stats struct {
	Model, Version string
	Requests       uint64
	// How requests ended: Invalid ones did not fit the model, Failed ones are the server's fault.
	Succeeded, Invalid, Failed, Refused, Expired, Cancelled uint64
	Items, Batches                                          uint64 // computed; Items counts examples
	Waiting                                                 int    // requests not in a batch yet
	Queue, Compute, Total                                   Histogram
}

// Errors of a service, for errors.Is.
var (
	// ErrNotFound says that there is no model, or version of it, by the name given.
	ErrNotFound = errors.New("no such model")
	// ErrInvalid says that a request does not fit its model.
	ErrInvalid = errors.New("bad request")
	// ErrExpired says that a request's deadline passed before it was computed.
	ErrExpired = errors.New("the deadline has passed")
	// ErrUnavailable says that a model is not ready, or that the service is closing.
	ErrUnavailable = errors.New("not available")
)

// BusyError refuses a request early: its deadline cannot be met, or too many wait already.
type BusyError struct {
	Model      string
	RetryAfter time.Duration // when the same request would likely be taken
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("model %s has more requests than it can compute in time: try again in %v", e.Model, e.RetryAfter)
}
