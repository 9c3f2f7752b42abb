package main

import (
	"bytes"
	"fmt"
	"time"

	"github.com/weft-run/weft/cmd/weft/internal/plan"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
)

// writePlan prints a plan for people. If more is not nil, it adds text behind the lines that say how
// the job would be run.
func writePlan(b *bytes.Buffer, d *plan.Decision, explain bool, more func(b *bytes.Buffer)) {
	n := d.Need
	job := n.Name
	if n.Parts > 1 {
		job += fmt.Sprintf(", %d runs", n.Parts)
	}
	job += fmt.Sprintf(": %s, %s of memory traffic, %s on a device",
		terminal.SI(n.Flops, "operations"), terminal.SI(n.Bytes, "B"), terminal.SI(float64(n.PeakBytes), "B"))
	fmt.Fprintln(b, terminal.Wrap(job, terminal.Width))
	wanted := string(d.Objective)
	if d.Deadline > 0 {
		wanted += " within " + terminal.Seconds(d.Deadline)
	}
	if d.Budget > 0 {
		wanted += fmt.Sprintf(" for at most $%.2f", d.Budget)
	}
	fmt.Fprintf(b, "%s\n\n", terminal.Wrap(wanted+": "+d.Best.Name, terminal.Width))
	if d.Again {
		fmt.Fprintf(b, "the request is one that was decided before; this is the plan of %s\n\n", d.At.Format(time.DateOnly))
	}
	writeOptions(b, d)
	writeBest(b, d)
	if more != nil {
		more(b)
	}
	if len(d.Lost) > 0 {
		fmt.Fprintln(b, "\nwhy the others lost:")
		for i, l := range d.Lost {
			text := fmt.Sprintf("%d. %s%s: %s", 2+i, l.Option.Name, share(&l.Option), l.Reason)
			if l.Confidence < 0.9 {
				text += fmt.Sprintf(" (confidence %.2f)", l.Confidence)
			}
			fmt.Fprintln(b, terminal.Wrap(text, terminal.Width))
		}
	}
	fmt.Fprintln(b, "\ntime against cost, where nothing else is better in both:")
	rows := [][]any{{"option", "90 % of time", "cost"}}
	for i := range d.Front {
		o := &d.Front[i]
		rows = append(rows, []any{terminal.Cut(o.Name+share(o), 50), terminal.Seconds(o.Seconds90), usd(o.Cost)})
	}
	terminal.Table(b, rows[:min(len(rows), terminal.MaxRows)])
	if explain {
		writeExplanation(b, d)
	}
	writeCaveats(b, d, explain)
}

// writeOptions prints the best option and those that lost, with the probabilities of
// keeping the limits there are. They are numbered, since names that are cut may look alike.
func writeOptions(b *bytes.Buffer, d *plan.Decision) {
	head, room := []any{"option", "time", "90 %", "cost", "90 %"}, 44
	if d.Deadline > 0 {
		head, room = append(head, "in time"), room-9
	}
	if d.Budget > 0 {
		head, room = append(head, "in budget"), room-11
	}
	row := func(number int, o *plan.Option) []any {
		cells := []any{terminal.Cut(fmt.Sprintf("%d. %s%s", number, o.Name, share(o)), room), terminal.Seconds(o.Seconds), terminal.Seconds(o.Seconds90), usd(o.Cost), usd(o.Cost90)}
		if d.Deadline > 0 {
			cells = append(cells, terminal.Chance(o.InTime))
		}
		if d.Budget > 0 {
			cells = append(cells, terminal.Chance(o.InBudget))
		}
		return cells
	}
	rows := [][]any{head, row(1, &d.Best)}
	for i := range d.Lost {
		rows = append(rows, row(2+i, &d.Lost[i].Option))
	}
	terminal.Table(b, rows)
}

// share says which share of the work is done on the rented machine, if not all.
func share(o *plan.Option) string {
	if o.Kind != plan.Hybrid {
		return ""
	}
	return ", " + terminal.Percent(o.Share) + " there"
}

func usd(x float64) string {
	if x < 0.1 {
		return fmt.Sprintf("$%.2g", x)
	}
	return fmt.Sprintf("$%.2f", x)
}

// writeBest says how the best option would be run.
func writeBest(b *bytes.Buffer, d *plan.Decision) {
	o := &d.Best
	fmt.Fprintf(b, "\n%s\n", terminal.Wrap(fmt.Sprintf("limited by %s; %s", o.Estimate.Bottleneck, o.Estimate.Why), terminal.Width))
	fmt.Fprintln(b, terminal.Wrap(fmt.Sprintf("optimisation: %s; batch: %s at a time; policy %s; data: %s; exchange: %s",
		o.Optimisation, terminal.Count(o.Batch, "run"), o.Policy, o.Memory, o.Communication), terminal.Width))
	switch {
	case o.First != nil:
		fmt.Fprintln(b, terminal.Wrap(fmt.Sprintf("the first tasks run here and leave %s to upload, and not %s; the machine is rented when they are done",
			terminal.SI(o.First.Upload, "B"), terminal.SI(d.Need.Upload, "B")), terminal.Width))
	case o.Kind == plan.Hybrid:
		fmt.Fprintf(b, "%d of %d runs there, the others here\n", o.Parts, d.Need.Parts)
	}
	if s := o.Spot; s != nil {
		every := "no checkpoints"
		if s.Every > 0 {
			every = "a checkpoint every " + terminal.Seconds(s.Every)
		}
		fmt.Fprintf(b, "spot: %s, %.2g interruptions, %.3g × the time\n", every, s.Interruptions, s.Factor)
	}
}

// writeExplanation says what the figures of every option shown are made of.
func writeExplanation(b *bytes.Buffer, d *plan.Decision) {
	fmt.Fprintf(b, "\n%s considered of %s; %d are of an equal machine for more\n", terminal.Count(d.Considered, "option"), terminal.Count(d.Offers, "offer"), d.Pruned)
	options := []*plan.Option{&d.Best}
	for i := range d.Lost {
		options = append(options, &d.Lost[i].Option)
	}
	for _, o := range options {
		e := o.Estimate
		fmt.Fprintf(b, "\n%s%s\n", o.Name, share(o))
		lines := []string{fmt.Sprintf("computing all of it: %s, 90 %% within %s and %s; %s", terminal.Seconds(e.Median), terminal.Seconds(e.Low), terminal.Seconds(e.High), e.Why)}
		if o.Offer != nil {
			lines = append(lines, fmt.Sprintf("start %s, upload %s, download %s", terminal.Seconds(o.Start), terminal.Seconds(o.Upload), terminal.Seconds(o.Download)),
				fmt.Sprintf("$%.4g an hour (%s), egress %s, energy here %s", o.Offer.Price(), o.Offer.PriceDate.Format(time.DateOnly), usd(o.Egress), usd(o.Energy)))
		}
		if o.Spot != nil {
			lines = append(lines, fmt.Sprintf("checkpoints %.0f, interruptions %.2g", o.Spot.Checkpoints, o.Spot.Interruptions))
		}
		for _, l := range lines {
			fmt.Fprintln(b, terminal.Wrap("- "+l, terminal.Width))
		}
	}
	if len(d.Unfit) > 0 {
		fmt.Fprintln(b, "\ncannot run it:")
		for _, u := range d.Unfit {
			fmt.Fprintln(b, terminal.Wrap("- "+u, terminal.Width))
		}
	}
}

// writeCaveats names what the plan rests on.
func writeCaveats(b *bytes.Buffer, d *plan.Decision, explain bool) {
	const few = 4
	unverified := d.Unverified
	if more := len(unverified) - few; more > 0 && !explain {
		unverified = append(unverified[:few:few], fmt.Sprintf("and %d more, which --explain and --json list", more))
	}
	for _, list := range []struct {
		title string
		lines []string
	}{{"stale prices", d.Stale}, {"unverified fields", unverified}} {
		if len(list.lines) > 0 {
			fmt.Fprintf(b, "\n%s:\n", list.title)
			for _, l := range list.lines {
				fmt.Fprintln(b, terminal.Wrap("- "+l, terminal.Width))
			}
		}
	}
	fmt.Fprintln(b, "\nassumptions (--assume NAME=VALUE changes one):")
	rows := [][]any{{"name", "value", "means"}}
	for _, a := range d.Assumed {
		rows = append(rows, []any{a.Name, a.Text, a.Means})
	}
	terminal.Table(b, rows)
	if len(d.Power) > 0 {
		fmt.Fprintln(b, "\nassumed to be drawn here, not measured:")
		for _, p := range d.Power {
			fmt.Fprintln(b, terminal.Wrap("- "+p, terminal.Width))
		}
	}
}
