package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/serve/load"
)

// barColumns is the length of the longest bar of a drawn histogram.
const barColumns = 40

// printLoad writes a result for people.
func printLoad(w io.Writer, s *load.Result) {
	fmt.Fprintln(w, terminal.Wrap(fmt.Sprintf("model %s: %s requests a second, %s arrivals, batches of %d, %s",
		s.Model, text.Rate(s.Rate), s.Arrivals, s.Batch, terminal.Count(s.Connections, "connection")), terminal.Width))
	fmt.Fprintln(w)
	rows := [][]any{{"arrived", s.Arrived, "in " + terminal.Seconds(s.Seconds)}, {"sent", s.Sent, ""},
		{"answered", s.Answered, perSecond(s)}}
	for _, c := range []struct {
		name  string
		count uint64
		note  string
	}{
		{"refused", s.Refused, "status 429 or 503"},
		{"timed out", s.TimedOut, "sent, and not answered in time"},
		{"unsent", s.Unsent, "no connection was free for them, to the end"},
		{"unfinished", s.Unfinished, "when it was interrupted"},
		{"late", s.Late, lateNote(s)},
		{"reconnected", s.Reconnected, "connections that the server had closed"},
	} {
		if c.count > 0 || c.name == "late" {
			rows = append(rows, []any{c.name, c.count, c.note})
		}
	}
	for _, f := range s.Failures {
		note := f.Why
		if f.Said != "" {
			note = f.Said
		}
		rows = append(rows, []any{"failed", f.Count, note})
	}
	listed(w, rows)
	if s.Answered > 0 {
		fmt.Fprintf(w, "\nlatency of answered requests, from the time they were due\n\n")
		l := s.Latency
		terminal.Table(w, [][]any{{"p50", "p90", "p95", "p99", "p99.9", "max", "mean"},
			{terminal.Seconds(l.P50), terminal.Seconds(l.P90), terminal.Seconds(l.P95), terminal.Seconds(l.P99), terminal.Seconds(l.P999), terminal.Seconds(l.Max), terminal.Seconds(l.Mean)}})
		fmt.Fprintln(w)
		drawLatencies(w, s)
	}
	fmt.Fprintln(w)
	for _, v := range loadVerdict(s) {
		fmt.Fprintln(w, terminal.Wrap(v, terminal.Width))
	}
}

// lateNote says what late is, and why.
func lateNote(s *load.Result) string {
	note := "sent more than 1 ms after they were due"
	if s.Waited > 0 {
		note += fmt.Sprintf(", %d for want of a connection", s.Waited)
	}
	return note
}

// listed writes names, counts and notes in columns, with the notes to the left.
func listed(w io.Writer, rows [][]any) {
	for _, r := range rows {
		lines := strings.Split(terminal.Wrap(fmt.Sprint(r[2]), terminal.Width-24), "\n")
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%-11v  %9v  %s", r[0], r[1], lines[0]), " "))
		for _, more := range lines[1:] {
			fmt.Fprintf(w, "%22s%s\n", "", more) // which Wrap has indented by two
		}
	}
}

// perSecond is the rate that was reached.
func perSecond(s *load.Result) string {
	line := text.Rate(s.Reached) + " a second"
	if s.Batch > 1 {
		line += ", " + text.Rate(s.Reached*float64(s.Batch)) + " items a second"
	}
	return line
}

// drawLatencies draws the histogram: a line for each bar, with a mark for those that are too few for a
// column.
func drawLatencies(w io.Writer, s *load.Result) {
	most := uint64(0)
	for _, b := range s.Histogram {
		most = max(most, b.Count)
	}
	rows := make([]string, len(s.Histogram))
	for i, b := range s.Histogram {
		bar := strings.Repeat("#", int(float64(b.Count)/float64(most)*barColumns))
		if bar == "" && b.Count > 0 {
			bar = "."
		}
		rows[i] = fmt.Sprintf("%8s to %8s  %9d  %s", terminal.Seconds(b.From), terminal.Seconds(b.To), b.Count, bar)
	}
	for _, r := range rows {
		fmt.Fprintln(w, strings.TrimRight(r, " "))
	}
}

// loadVerdict says who was the bottleneck, and what is wrong with the figures.
func loadVerdict(s *load.Result) (out []string) {
	own := fmt.Sprintf("The generator itself was late by %s at the 99th percentile and %s at most", terminal.Seconds(s.Own.P99), terminal.Seconds(s.Own.Max))
	switch {
	case s.Sent == 0:
		return []string{"No request was sent."}
	case s.Bottleneck:
		out = append(out, own+": more than 1 ms and than a tenth of the latency there, so the load generator was a bottleneck too, and latencies include its delays. Use a lower rate, or a machine of its own.")
	default:
		out = append(out, own+": no more than 1 ms or than a tenth of the latency there, so it was not the bottleneck.")
	}
	waited := s.Waited + s.Unsent
	if float64(waited) > 0.001*float64(s.Arrived) {
		out = append(out, fmt.Sprintf("%s of the requests waited for a free connection: the server is slower than the rate, or more --connections than %d are needed.",
			terminal.Percent(float64(waited)/float64(s.Arrived)), s.Connections))
	}
	if lost := s.TimedOut + s.Unsent + s.Failed; lost > 0 && s.Answered > 0 {
		out = append(out, fmt.Sprintf("The latencies leave out %s that got no good answer, so users saw worse.", terminal.Count(int(lost), "request")))
	}
	return out
}

// printLoads writes the results of several rates, a line for each.
func printLoads(w io.Writer, results []*load.Result) {
	rows := [][]any{{"rate", "reached", "refused", "failed", "late", "p50", "p99", "p99.9", "max"}}
	for _, s := range results {
		l := s.Latency
		rows = append(rows, []any{text.Rate(s.Rate), text.Rate(s.Reached), s.Refused, s.Failed + s.TimedOut + s.Unsent, s.Late,
			terminal.Seconds(l.P50), terminal.Seconds(l.P99), terminal.Seconds(l.P999), terminal.Seconds(l.Max)})
	}
	terminal.Table(w, rows)
	fmt.Fprintln(w)
	for _, s := range results {
		for _, v := range loadVerdict(s) {
			fmt.Fprintln(w, terminal.Wrap(text.Rate(s.Rate)+": "+v, terminal.Width))
		}
	}
}
