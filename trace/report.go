package trace

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Report is the account of one run.
type Report struct {
	Run       int64 // its number; events have the same
	Tasks     int   // tasks of the graph
	Executed  int   // executions that succeeded, replays included
	Retries   int   // executions that failed and were tried again
	Replays   int   // tasks run again because their result was lost
	Moves     int   // queued tasks moved between devices
	Copies    int   // copies of its values that succeeded
	CopyBytes int64
	CopyTime  time.Duration // of all copies, added up
	Evictions int           // copies of its values that were evicted
	Commits   int           // values copied to host memory to bound the cost of a loss
	// LongestReplay is the longest chain of tasks any loss made run again.
	LongestReplay int
	Submitted     time.Duration
	Started       time.Duration
	Ended         time.Duration
	Devices       []DeviceReport // by device
	Names         []string       // of the devices; shared, not to be changed; nil in a simulation
	// Lanes is, by device, the number of tasks that count for Busy at the same time: 1 for the cores
	// of a processor, whose Busy is of all of them together. Shared; nil for 1 of each.
	Lanes []int
	// Verified is the number of its tasks that were executed twice, on different devices, and their
	// results compared; Unverified is the number that could not be, because only one device took them
	// at the time, no other's results are comparable, or the second execution failed.
	// VerifyErrors says why second executions failed, of many the first. Wrong are the results that another
	// device had right, and that were replaced.
	Verified   int           `json:",omitempty"`
	Unverified int           `json:",omitempty"`
	Wrong      []WrongResult `json:",omitempty"`

	VerifyErrors []string `json:",omitempty"`
	// LeftOut says which devices or backends of the machine could not be opened, and why:
	// GPUs, where main does not call weft.Worker. Shared, not to be changed.
	LeftOut []string
}

// Elapsed returns the duration of the run.
func (r *Report) Elapsed() time.Duration { return r.Ended - r.Started }

// DeviceReport is the work of one device for a run.
type DeviceReport struct {
	Tasks     int
	Failed    int // executions that failed there
	Busy      time.Duration
	Predicted time.Duration // of the same tasks, when they were placed
	// EnergyJ is an estimate of the energy its tasks took, in joules: the power sampled while
	// they ran, divided by the tasks that ran at a time. It is 0 where power is not known.
	EnergyJ float64 `json:",omitempty"`
	// Health is the condition of a device that reports it, as last sampled; nil of others.
	Health *Health `json:",omitempty"`
}

// EnergyJ is an estimate of the energy the run took, in joules, on the devices whose power is
// known; 0 where none is.
func (r *Report) EnergyJ() (joules float64) {
	for i := range r.Devices {
		joules += r.Devices[i].EnergyJ
	}
	return joules
}

// Health is the condition of a device when it was last sampled. Negative numbers are not
// known.
type Health struct {
	Sampled   time.Duration // when, by the clock of reports
	Util      float64       // utilisation by all programs, 0 to 1
	TempC     float64
	PowerW    float64
	ClockMHz  float64
	MemUsed   int64 // bytes of its memory that all programs use
	MemBytes  int64 // its memory in all
	MemErrors int64 // uncorrectable, since boot
}

// TaskError says which task failed on which device. It unwraps to the cause.
type TaskError struct {
	Task   string
	Device string // "" when it was on none
	Err    error
	// Attempts are the executions of the task that came to nothing, oldest first, with the last;
	// of very many, the latest.
	Attempts []Attempt
}

// Error names the cause in a line and, where there were several attempts, each of them unless all
// failed alike.
func (t *TaskError) Error() string {
	if w, ok := t.Err.(*WrongResult); ok && w.Task == t.Task && t.Device == "" {
		return w.Error() // which names the task
	}
	var b strings.Builder
	fmt.Fprintf(&b, "task %q", t.Task)
	if t.Device != "" {
		fmt.Fprintf(&b, " on %s", t.Device)
	}
	fmt.Fprintf(&b, ": %v", t.Err)
	var q *Quarantine
	if n := len(t.Attempts); n > 1 && !(errors.As(t.Err, &q) && len(q.Losses) == n) { // which names them all
		fmt.Fprintf(&b, " (%d attempts", n)
		if why := t.Err.Error(); slices.ContainsFunc(t.Attempts, func(a Attempt) bool { return a.Err == nil || a.Err.Error() != why }) {
			listAttempts(&b, t.Attempts)
		} else {
			b.WriteString(", all the same")
		}
		b.WriteByte(')')
	}
	return b.String()
}

// listAttempts names attempts, the first after a colon.
func listAttempts(b *strings.Builder, list []Attempt) {
	for i, a := range list {
		sep := ", "
		if i == 0 {
			sep = ": "
		}
		fmt.Fprintf(b, "%s%s at %v (%v)", sep, a.Device, a.At.Round(time.Millisecond), a.Err)
	}
}

func (t *TaskError) Unwrap() error { return t.Err }

// RunError is the error of a run that failed: the cause, and every unfinished task.
type RunError struct {
	Err   error
	Names []string // of the tasks that did not finish, all of them
}

// Error names the cause, or causes, and the first few unfinished tasks in a line;
// Names has all.
func (r *RunError) Error() string {
	const show = 8
	cause := strings.ReplaceAll(r.Err.Error(), "\n", "; ") // where several were joined
	if len(r.Names) == 0 {
		return cause // it ended while results were brought home
	}
	s := fmt.Sprintf("%s; %s unfinished", cause, count(len(r.Names), "task"))
	if len(r.Names) > show {
		return s + ": " + strings.Join(r.Names[:show], ", ") + ", …"
	}
	return s + ": " + strings.Join(r.Names, ", ")
}

func (r *RunError) Unwrap() error { return r.Err }

// Attempt is an execution of a task that came to nothing: where, when and why.
type Attempt struct {
	Device string
	At     time.Duration // when it ended, by the clock of reports
	Err    error
	Lost   bool // the device was lost while the task ran there
}

// Quarantine is why a task is not tried again: several devices, or one several times,
// were lost while it ran.
type Quarantine struct {
	Losses []Attempt
}

// Error names every loss.
func (q *Quarantine) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "quarantined, since %s lost while it ran", plural(len(q.Losses), "device was", "devices were"))
	listAttempts(&b, q.Losses)
	return b.String()
}

// Unwrap returns the last loss.
func (q *Quarantine) Unwrap() error { return q.Losses[len(q.Losses)-1].Err }
