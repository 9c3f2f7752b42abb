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
	// Data and Byte say where the first difference is, Got and Want what is there of the
	// device and of the first one of Against; of secret data (graph.Data.Secret) they tell no bytes.
	Data      string
	Byte      int64
	Got, Want string
}

// Error says who had what.
func (w *WrongResult) Error() string {
	s := fmt.Sprintf("task %q: the result of %s differs from that of %s: data %q has %s instead of %s at byte %d",
		w.Task, w.Device, strings.Join(w.Against, " and "), w.Data, w.Got, w.Want, w.Byte)
	if w.Undecided {
		return s + "; no two agree, and there is no other device that could decide"
	}
	return s
}
