package trace

import (
	"fmt"
	"strings"
)

// WrongResult is a result of a task that differs from what other devices computed from the same
// inputs.
type WrongResult struct {
	Task string
	// Device is the one with this result, and Against are those that agree on another. Where
	// no two agree, Undecided is set: any of them may be right.
	Device    string
	Against   []string
	Undecided bool `json:",omitempty"`
	// Data and Byte locate the first difference, Got and Want show it: the value of the device
	// and that of the first entry of Against. Of secret data (graph.Data.Secret) no bytes
	// appear.
	Data      string
	Byte      int64
	Got, Want string
}

// Error says who had what.
func (w *WrongResult) Error() string {
	s := fmt.Sprintf("task %q: the result of %s differs from the result of %s: data %q has %s instead of %s at byte %d",
		w.Task, w.Device, strings.Join(w.Against, " and "), w.Data, w.Got, w.Want, w.Byte)
	if w.Undecided {
		return s + "; no two agree, and there is no other device that could decide"
	}
	return s
}
