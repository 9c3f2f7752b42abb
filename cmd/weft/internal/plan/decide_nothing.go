package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// nowhere is the error if the job fits on no machine.
func (w *weighing) nowhere() error {
	if len(w.unfitted) == 0 {
		return &NothingFitsError{Binding: "offers", Reason: "there is no device here and nothing to rent; allow renting, or name devices"}
	}
	var why []string
	for _, machine := range w.unfitted[:min(len(w.unfitted), 3)] {
		why = append(why, machine+": "+w.unfit[machine])
	}
	reason := "no machine can run it: " + strings.Join(why, "; ")
	if more := len(w.unfitted) - len(why); more > 0 {
		reason += fmt.Sprintf("; and %d more", more)
	}
	if !slices.ContainsFunc(w.unfitted, func(machine string) bool { return !strings.HasPrefix(w.unfit[machine], noCode) }) {
		return &NothingFitsError{Binding: "code", Reason: reason}
	}
	return &NothingFitsError{Binding: "memory", Reason: reason + "; make the job smaller or cut it into parts"}
}

// missed is the error if no option keeps the limits. It names the limit that binds and
// what would be possible with another.
func (w *weighing) missed() error {
	conf := w.Assume.Confidence
	inTime := func(o *Option) bool { return o.InTime >= conf }
	inBudget := func(o *Option) bool { return o.InBudget >= conf }
	cheapest := func(a, b *Option) int {
		return cmp.Or(cmp.Compare(a.Cost90, b.Cost90), cmp.Compare(a.Seconds90, b.Seconds90))
	}
	soonest, thriftiest := slices.MinFunc(w.options, sooner), slices.MinFunc(w.options, cheapest)
	e := new(NothingFitsError)
	switch {
	case !slices.ContainsFunc(w.options, inTime):
		e.Binding, e.Instead = "deadline", []Option{w.shown(soonest)}
		e.Reason = fmt.Sprintf("the deadline of %s is too early: nothing keeps it with probability %g; possible is %s with %s for $%s",
			span(w.Deadline.Seconds()), conf, span(soonest.Seconds90), soonest.Name, money(soonest.Cost90))
	case !slices.ContainsFunc(w.options, inBudget):
		e.Binding, e.Instead = "budget", []Option{w.shown(thriftiest)}
		e.Reason = fmt.Sprintf("the budget of $%s is too small: nothing keeps it with probability %g; possible is $%s with %s in %s",
			money(w.Budget), conf, money(thriftiest.Cost90), thriftiest.Name, span(thriftiest.Seconds90))
	default:
		cheap := slices.MinFunc(filter(w.options, inTime), cheapest)
		fast := slices.MinFunc(filter(w.options, inBudget), sooner)
		e.Binding, e.Instead = "deadline and budget", []Option{w.shown(cheap), w.shown(fast)}
		e.Reason = fmt.Sprintf("nothing keeps both the deadline and the budget; within %s it takes $%s (%s), within $%s it takes %s (%s)",
			span(w.Deadline.Seconds()), money(cheap.Cost90), cheap.Name, money(w.Budget), span(fast.Seconds90), fast.Name)
	}
	return e
}

func filter(options []*Option, keep func(*Option) bool) (out []*Option) {
	for _, o := range options {
		if keep(o) {
			out = append(out, o)
		}
	}
	return out
}

// span writes seconds as people say them.
func span(seconds float64) string {
	whole := int64(math.Ceil(min(seconds, 1e15)))
	switch {
	case seconds < 60:
		return fmt.Sprintf("%.3g s", seconds)
	case seconds < 3600:
		return fmt.Sprintf("%dm%02ds", whole/60, whole%60)
	case seconds < 48*3600:
		return fmt.Sprintf("%dh%02dm", whole/3600, whole%3600/60)
	}
	return fmt.Sprintf("%.1f days", seconds/86400)
}
