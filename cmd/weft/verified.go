package main

import (
	"fmt"
	"io"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
)

// verified counts the tasks of all runs that --verify had executed on two devices.
type verified struct {
	Tasks      int                `json:"tasks"`
	Of         int                `json:"of_tasks"` // that there were
	Unverified int                `json:"unverified"`
	Errors     []string           `json:"errors,omitempty"` // of second executions
	Wrong      []weft.WrongResult `json:"wrong"`            // not nil, so that JSON always has a list
}

// with adds what was checked of a run; nil is of no run in which there was anything to check.
func (v *verified) with(rep *weft.Report) *verified {
	if rep.Verified+rep.Unverified+len(rep.Wrong) == 0 {
		return v
	}
	if v == nil {
		v = &verified{Wrong: []weft.WrongResult{}}
	}
	v.Tasks += rep.Verified
	v.Of += rep.Tasks
	v.Unverified += rep.Unverified
	v.Errors = append(v.Errors, rep.VerifyErrors...)
	v.Wrong = append(v.Wrong, rep.Wrong...)
	return v
}

// text writes it: a line for each device that was wrong, with its first wrong result.
func (v *verified) text(w io.Writer) {
	if v == nil {
		return
	}
	fmt.Fprintf(w, "Verified: two devices agreed on the results of %d of %s.\n", v.Tasks, terminal.Count(v.Of, "task"))
	if v.Unverified > 0 {
		fmt.Fprintf(w, "Not verified: %s, since no second device could execute them and be compared.\n", terminal.Count(v.Unverified, "task"))
	}
	if len(v.Errors) > 0 {
		fmt.Fprintf(w, "Second executions failed, which left the first results as they are. The first: %s.\n", v.Errors[0])
	}
	count := make(map[string]int)
	for _, x := range v.Wrong {
		count[x.Device]++
	}
	for _, x := range v.Wrong {
		if n := count[x.Device]; n > 0 {
			fmt.Fprintf(w, "Wrong: %s of %s, replaced by right ones; the device was drained. The first: %s.\n", terminal.Count(n, "result"), x.Device, x.Error())
			count[x.Device] = 0
		}
	}
	if left := v.Of - v.Tasks - v.Unverified; left > 0 && len(v.Wrong) > 0 {
		fmt.Fprintf(w, "%s were not picked to be checked, and what a device that was wrong computed for them stays; --verify 1 checks all.\n", terminal.Count(left, "task"))
	}
}
