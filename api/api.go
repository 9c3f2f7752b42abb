// Package api is what programs say to weft serve and what it answers: the wire types, and a
// client for predictions and jobs.
//
// Predictions are the Open Inference Protocol, version 2, so [Client.Infer] also talks to
// other servers of that protocol. Jobs run the workloads of weft on the server's devices.
// The package uses the standard library alone, and none of weft's runtime.
package api

import (
	"encoding/json"
	"time"
)

// InferRequest asks a model for a prediction.
type InferRequest struct {
	Model   string
	Version string // "" for the newest that is ready
	ID      string // given back with the answer
	Inputs  []Tensor
	Outputs []string // wanted; nil for all
	// Into is room in shared memory for outputs, by their names; those are wanted too where Outputs
	// names any. See [Region].
	Into []Tensor
	// Priority is a level of Triton's schedule policy extension: 1 is the most urgent and 0
	// the server's default.
	Priority int
	// Timeout is after how long an answer is of no use any more: the server does not begin
	// a request that is that old. 0 is the model's default.
	Timeout time.Duration
	// JSON sends and asks for tensors as JSON, for servers without the binary tensor data
	// extension. NaN and infinities cannot be sent then.
	JSON bool
}

// InferResponse is a prediction.
type InferResponse struct {
	Model   string
	Version string
	ID      string
	Outputs []Tensor
	// Queued and Computed are how long the request waited and how long its batch took, Batch
	// the requests that were computed with it, Device where. Servers other than weft do not
	// tell.
	Queued   time.Duration
	Computed time.Duration
	Batch    int
	Device   string
}

// Output returns the output of a name, nil if there is none.
func (r *InferResponse) Output(name string) *Tensor {
	for i := range r.Outputs {
		if r.Outputs[i].Name == name {
			return &r.Outputs[i]
		}
	}
	return nil
}

// ServerMetadata says what a server is.
type ServerMetadata struct {
	Name       string   `json:"name"`
	Version    string   `json:"version"`
	Extensions []string `json:"extensions"`
}

// ModelMetadata says what a model takes and gives.
type ModelMetadata struct {
	Name     string       `json:"name"`
	Versions []string     `json:"versions,omitempty"`
	Platform string       `json:"platform"`
	Inputs   []TensorSpec `json:"inputs"`
	Outputs  []TensorSpec `json:"outputs"`
}

// TensorSpec describes a tensor. A dimension of -1 is chosen by the request.
type TensorSpec struct {
	Name     string  `json:"name"`
	Datatype string  `json:"datatype"`
	Shape    []int64 `json:"shape"`
}

// ModelStatus is one version of a model in the index of the server's models.
type ModelStatus struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	State   string `json:"state"` // READY, LOADING, UNLOADING or UNAVAILABLE
	Reason  string `json:"reason"`
}

// JobRequest describes a job: a workload of weft (weft run lists them) with its parameters,
// which are the flags of weft run.
type JobRequest struct {
	Workload   string         `json:"workload"`
	Parameters map[string]any `json:"parameters,omitempty"` // text, numbers, true or false
	// Devices names the devices to run it on, as in "cpu/2"; "" means the server's.
	Devices string `json:"devices,omitempty"`
	Repeat  int    `json:"repeat,omitempty"` // how often to run it; 0 is once
	Check   *bool  `json:"check,omitempty"`  // compare the result with a reference; nil does
	// StructureText is the text of a protein's structure in the PDB or mmCIF format, for a job that is of another one
	// than those that come with weft. The server tells of its size alone.
	StructureText string `json:"structure_text,omitempty"`
}

// States of a job.
const (
	JobQueued    = "queued"
	JobRunning   = "running"
	JobSucceeded = "succeeded"
	JobFailed    = "failed"
	JobCancelled = "cancelled"
	// JobInterrupted is a job that ran when the server ended. It is not run again by itself, but for one that has a
	// checkpoint, which is queued again when the server is started.
	JobInterrupted = "interrupted"
)

// Job is a job of the server.
type Job struct {
	ID string `json:"id"`
	JobRequest
	// StructureBytes is the size of the structure that came with the request.
	StructureBytes int         `json:"structure_bytes,omitempty"`
	State          string      `json:"state"`
	Error          string      `json:"error,omitempty"` // why it failed or was interrupted, or its end is not kept
	Created        time.Time   `json:"created"`
	Started        *time.Time  `json:"started,omitempty"`
	Ended          *time.Time  `json:"ended,omitempty"`
	Progress       JobProgress `json:"progress"`
	// Resumed says that the job ran before the server was started, and from which checkpoint it goes on.
	Resumed *JobResumed `json:"resumed,omitempty"`
}

// JobResumed is the last time that a job went on from a checkpoint.
type JobResumed struct {
	At   time.Time `json:"at"`   // when it was made to wait for that
	From int64     `json:"from"` // tasks or steps that were done
	Of   int64     `json:"of"`   // those that there are
}

// Over reports whether the job has ended.
func (j *Job) Over() bool { return j.State != JobQueued && j.State != JobRunning }

// JobProgress counts what a job has done.
type JobProgress struct {
	Runs int     `json:"runs"` // that have ended
	Part float64 `json:"part"` // of the run in progress, from 0 to 1
	Left float64 `json:"left_seconds,omitempty"`
}

// JobResult has the result of a job and the times of its runs.
type JobResult struct {
	ID      string      `json:"id"`
	Job     string      `json:"job"`   // the workload with its sizes
	Class   string      `json:"class"` // what stays the same however work is divided: X, R or T
	Tasks   int         `json:"tasks"` // of the last run, as the next two
	Devices []JobDevice `json:"devices"`
	Result  string      `json:"result,omitempty"` // in a few words, where the workload has them
	Runs    []JobRun    `json:"runs"`
	Checked bool        `json:"checked"`
	Misses  []JobMiss   `json:"misses,omitempty"`
	Proofs  []JobProof  `json:"proofs,omitempty"` // of a job of proofs, in the order of the witnesses
	// Report and Trajectory are of a folding: the numbers that weft run fold --json writes, and the bytes of the file
	// that its --out writes.
	Report     json.RawMessage `json:"report,omitempty"`
	Trajectory []byte          `json:"trajectory,omitempty"`
}

// JobProof is one of the proofs of a job, or the reason why there is none.
type JobProof struct {
	Proof  []byte            `json:"proof,omitempty"`
	Public map[string]string `json:"public,omitempty"`
	Took   float64           `json:"seconds,omitempty"`
	Error  string            `json:"error,omitempty"`
}

// JobDevice has the figures of one device in the last run of a job.
type JobDevice struct {
	Name  string  `json:"name"`
	Tasks int     `json:"tasks"`
	Busy  float64 `json:"busy_seconds"`
}

// JobRun is one run of a job.
type JobRun struct {
	Seconds   float64 `json:"seconds"`
	Predicted float64 `json:"predicted_seconds"`
	Rate      string  `json:"rate"`
}

// JobMiss is an error that the check of a result may not have seen, and the chance of that.
type JobMiss struct {
	What   string  `json:"what"`
	Chance float64 `json:"chance"`
}

// Kinds of events.
const (
	EventJob     = "job"     // a job changed or went on: Job is set
	EventRuntime = "runtime" // something happened to devices or tasks: Text says what
	EventMissed  = "missed"  // Missed events before the next one are not told
)

// Event is one thing that happened at the server.
type Event struct {
	ID     string    `json:"-"` // to go on after it
	Kind   string    `json:"kind"`
	Time   time.Time `json:"time"`
	Job    *Job      `json:"job,omitempty"`
	Text   string    `json:"text,omitempty"`
	Device string    `json:"device,omitempty"`
	Missed uint64    `json:"missed,omitempty"`
}
