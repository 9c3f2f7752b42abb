package workload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// ErrKept is returned by RunStages and Keepable for jobs that cannot be resumed.
var ErrKept = errors.New("this work cannot be kept in checkpoints")

// Keepable returns an error that wraps ErrKept if RunStages would refuse the job, which no
// runtime is needed for.
func Keepable(j Job) error {
	if _, ok := j.(Stateful); ok {
		return fmt.Errorf("%w: its state is on devices from run to run", ErrKept)
	}
	return nil
}

// The parameters of a checkpoint by which a job's graph is built again as it was. How work is
// cut follows from what was measured, which the next process may measure differently.
const (
	variantParam = "variant"
	rangesParam  = "ranges"
	machineParam = "machine" // of jobs that are Placed
)

// RunStages runs a job as Run does, in stages with checkpoints in between: see
// [weft.Runtime.RunStages]. Resumed, the work is cut as it was, whatever the devices are now: a job
// that says which device does what (Placed) needs those that its graph names, by name.
// The parameters of keep are what the job was made from. A job that keeps state on devices
// from run to run (Stateful) cannot be resumed.
func RunStages(ctx context.Context, rt *weft.Runtime, j Job, keep weft.Keep, before ...func(Job, *graph.Graph, *weft.Prediction)) (*Result, error) {
	if rt == nil {
		return nil, fmt.Errorf("%s: %w", j.Name(), errNoRuntime)
	}
	j = form(rt, j)
	res, err := runStages(ctx, rt, j, keep, before)
	if err != nil {
		err = fmt.Errorf("%s: %w", j.Name(), err)
	}
	return res, err
}

// RunLong runs a job that is not resumed: as RunStages does if its run is predicted to take at least a time, and as Run does
// otherwise.
func RunLong(ctx context.Context, rt *weft.Runtime, j Job, keep weft.Keep, least time.Duration, before ...func(Job, *graph.Graph, *weft.Prediction)) (*Result, error) {
	if rt == nil {
		return nil, fmt.Errorf("%s: %w", j.Name(), errNoRuntime)
	}
	j = form(rt, j)
	if err := Keepable(j); err != nil {
		return nil, fmt.Errorf("%s: %w", j.Name(), err)
	}
	res, err := run(ctx, rt, j, before, false, func(p *weft.Plan, res *Result) (long bool, err error) {
		if p.Prediction == nil || p.Prediction.Median < least {
			return false, nil
		}
		on := ""
		if _, placed := j.(Placed); placed {
			on = formatMachine(rt.Machine())
		}
		res.Report, err = rt.RunStages(ctx, keepAs(keep, p.Ranges, variantOf(res.Variants), on), p.Graph, j.Bind()...)
		return true, err
	})
	if err != nil && res == nil {
		return nil, fmt.Errorf("%s: %w", j.Name(), err)
	}
	return res, err
}

// variantOf returns the name of the variant that was taken, "" for none.
func variantOf(list []Variant) string {
	if i := slices.IndexFunc(list, func(w Variant) bool { return w.Taken }); i >= 0 {
		return list[i].Name
	}
	return ""
}

// keepAs adds to keep what building a job's graph again needs. on is the machine of a job that is
// Placed.
func keepAs(keep weft.Keep, ranges []sched.Range, variant, on string) weft.Keep {
	keep.Params = maps.Clone(keep.Params)
	if keep.Params == nil {
		keep.Params = make(map[string]string)
	}
	keep.Params[rangesParam] = formatRanges(ranges)
	if variant != "" {
		keep.Params[variantParam] = variant
	}
	if on != "" {
		keep.Params[machineParam] = on
	}
	return keep
}

func runStages(ctx context.Context, rt *weft.Runtime, j Job, keep weft.Keep, before []func(Job, *graph.Graph, *weft.Prediction)) (*Result, error) {
	defer stopWith(ctx, j)()
	if err := Keepable(j); err != nil {
		return nil, err
	}
	old, resumed, err := rt.Kept(keep)
	if err != nil {
		return nil, err
	}
	m, err := machineOf(old[machineParam], rt.Machine())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", weft.ErrCheckpoint, err)
	}
	p, placed := j.(Placed)
	if placed {
		if err := p.Place(m); err != nil {
			return nil, err
		}
	}
	var res Result
	variant := ""
	if v, ok := j.(Varied); ok {
		if resumed {
			if variant, err = old[variantParam], v.Take(old[variantParam]); err != nil {
				err = fmt.Errorf("%w: %s %q: %w", weft.ErrCheckpoint, variantParam, variant, err)
			}
		} else if res.Variants, err = v.Vary(pricer(ctx, rt)); err == nil {
			variant = variantOf(res.Variants)
		}
		if err != nil {
			return nil, err
		}
	}
	var ranges []sched.Range
	if resumed {
		if ranges, err = parseRanges(old[rangesParam], j.Items().Extent); err != nil {
			return nil, fmt.Errorf("%w: %w", weft.ErrCheckpoint, err)
		}
	} else {
		work := workOf(j)
		work.Graph = nil // the ranges are enough
		p, err := rt.Plan(ctx, work)
		if err != nil {
			return nil, err
		}
		res.Partition, ranges = p.Partition, p.Ranges
	}
	g, err := graphOf(ctx, j, ranges)
	if err != nil {
		return nil, err
	}
	if res.Prediction, err = rt.Predict(ctx, g, j.Bind()...); err != nil {
		if !sameDevices(m, rt.Machine()) {
			err = fmt.Errorf("it was begun on %s, by which it is placed: %w", namesOf(m), err)
		}
		return nil, err
	}
	res.Tasks, res.Predicted = g.NumTasks(), res.Prediction.Median
	for _, f := range before {
		f(j, g, res.Prediction)
	}
	on := old[machineParam]
	if placed && !resumed {
		on = formatMachine(m)
	}
	res.Report, err = rt.RunStages(ctx, keepAs(keep, ranges, variant, on), g, j.Bind()...)
	return &res, err
}

// formatMachine writes a machine as text of one line, "" if that could not be read back.
func formatMachine(m *machine.Machine) string {
	var b bytes.Buffer
	if json.Compact(&b, machine.Encode(m)) != nil {
		return ""
	}
	if _, err := machine.Decode(b.Bytes()); err != nil {
		return ""
	}
	return b.String()
}

// machineOf reads a machine that a job was placed on, which is now if there is no text. Where now has the same
// devices, it is now with what was measured then, or the job would be placed otherwise.
func machineOf(text string, now *machine.Machine) (*machine.Machine, error) {
	if text == "" {
		return now, nil
	}
	then, err := machine.Decode([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("the machine that it was begun on: %w", err)
	}
	if !sameDevices(then, now) {
		return then, nil
	}
	m := *now
	m.Devices = slices.Clone(now.Devices)
	m.HostBPS, m.Links, m.Resources = then.HostBPS, then.Links, then.Resources
	for i := range m.Devices {
		d := &then.Devices[i]
		m.Devices[i].Rates, m.Devices[i].MemBytes, m.Devices[i].Resources = d.Rates, d.MemBytes, d.Resources
	}
	return &m, nil
}

// sameDevices reports whether two machines have the same devices, as far as placing asks.
func sameDevices(a, b *machine.Machine) bool {
	return slices.EqualFunc(a.Devices, b.Devices, func(a, b machine.Device) bool {
		return a.Name == b.Name && a.Kind == b.Kind && a.ComputeUnits == b.ComputeUnits
	})
}

// namesOf lists the devices of a machine.
func namesOf(m *machine.Machine) string {
	names := make([]string, len(m.Devices))
	for i := range m.Devices {
		names[i] = m.Devices[i].Name
	}
	return strings.Join(names, ", ")
}

// formatRanges writes ranges as text, as in "0-512 512-1024".
func formatRanges(ranges []sched.Range) string {
	words := make([]string, len(ranges))
	for i, r := range ranges {
		words[i] = fmt.Sprintf("%d-%d", r.Lo, r.Hi)
	}
	return strings.Join(words, " ")
}

// parseRanges reads ranges and sees that they are all of the items, each once.
func parseRanges(text string, items int64) ([]sched.Range, error) {
	var out []sched.Range
	for word := range strings.FieldsSeq(text) {
		lo, hi, _ := strings.Cut(word, "-")
		r := sched.Range{}
		var err1, err2 error
		r.Lo, err1 = strconv.ParseInt(lo, 10, 64)
		r.Hi, err2 = strconv.ParseInt(hi, 10, 64)
		if err1 != nil || err2 != nil || r.Lo < 0 || r.Hi < r.Lo || r.Hi > items {
			return nil, fmt.Errorf("%q is no range of %d items", word, items)
		}
		out = append(out, r)
	}
	next := int64(0)
	for _, r := range slices.SortedFunc(slices.Values(out), func(a, b sched.Range) int { return int(min(max(a.Lo-b.Lo, -1), 1)) }) {
		if r.Hi == r.Lo {
			continue
		}
		if r.Lo != next {
			return nil, fmt.Errorf("its ranges leave out or repeat item %d", min(r.Lo, next))
		}
		next = r.Hi
	}
	if next != items {
		return nil, fmt.Errorf("its ranges end at %d of %d items", next, items)
	}
	return out, nil
}
