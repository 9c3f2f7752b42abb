package sched

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weft-run/weft/machine"
)

// explain fills an Explanation with a row for every device. note, when not
// nil, adds a policy's own numbers to the rows of devices that fit. The caller
// sets Why when something was chosen.
func (m *estimator) explain(v *Situation, i int, policy string, chosen machine.DeviceID, note func(d machine.DeviceID) string) Explanation {
	m.begin()
	t := &v.Tasks[i]
	e := Explanation{
		Task:   fmt.Sprintf("task %d of run %d", t.Task, t.Run),
		Policy: policy,
		Chosen: chosen,
		Why:    "no device can take it",
		Rows:   make([]ExplainRow, len(v.Devices)),
	}
	if t.Kernel != nil {
		e.Task += " (" + t.Kernel.Name + ")"
	}
	for k := range v.Devices {
		d := machine.DeviceID(k)
		r := &e.Rows[k]
		r.Device = d
		if j := judge(v, t, d); j != fits {
			r.Out, r.Note = true, j.reason(v, t, d)
			continue
		}
		o := m.offer(v, t, d)
		r.Starts = v.begins(t, d) - v.Now
		r.Transfer, r.Runs, r.Finishes = o.transfer, o.runs, o.finish-v.Now
		if note != nil {
			r.Note = note(d)
		}
		if d == t.Hint {
			r.Note = strings.TrimPrefix(r.Note+"; hint", "; ")
		}
	}
	return e
}

// reason puts an eligibility into words.
func (j eligibility) reason(v *Situation, t *Ready, d machine.DeviceID) string {
	switch j {
	case notAccepting:
		return "takes no work now"
	case cannotRun:
		return "cannot run it"
	case notAllowed:
		return "not among the devices allowed"
	case tooBig:
		return fmt.Sprintf("needs %d bytes, has %d", t.need(&v.Devices[d]), v.Devices[d].CapBytes)
	}
	return ""
}

func (m *estimator) name(d machine.DeviceID) string { return deviceName(m.machine, d) }

func deviceName(m *machine.Machine, d machine.DeviceID) string {
	switch {
	case d == machine.Host:
		return "host"
	case m != nil && d >= 0 && int(d) < len(m.Devices) && m.Devices[d].Name != "":
		return m.Devices[d].Name
	}
	return fmt.Sprintf("device %d", d)
}

// Text renders an explanation as an aligned table with a line for every
// device, the chosen one marked, and one sentence. The machine supplies the
// names of devices.
func (e Explanation) Text(m *machine.Machine) string {
	var b strings.Builder
	to := "nowhere"
	if e.Chosen >= 0 {
		to = deviceName(m, e.Chosen)
	}
	fmt.Fprintf(&b, "%s → %s by %s\n", e.Task, to, e.Policy)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "  device\tstarts\ttransfer\truns\tfinishes\t\n")
	for _, r := range e.Rows {
		mark := " "
		if r.Device == e.Chosen {
			mark = ">"
		}
		if r.Out {
			fmt.Fprintf(w, "%s %s\t-\t-\t-\t-\t%s\n", mark, deviceName(m, r.Device), r.Note)
			continue
		}
		fmt.Fprintf(w, "%s %s\t%v\t%v\t%v\t%v\t%s\n", mark, deviceName(m, r.Device), Round(r.Starts), Round(r.Transfer), Round(r.Runs), Round(r.Finishes), r.Note)
	}
	w.Flush()
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n") + e.Why + ".\n"
}

// Round shortens a duration to three digits, for people.
func Round(d time.Duration) time.Duration {
	for unit := time.Duration(1); ; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit)
		}
	}
}
