package main

import (
	"strings"
	"testing"

	"github.com/weft-run/weft/serve/load"
)

// What is printed of a load names the requests that got no answer, and who was too slow.
func TestLoadPrinted(t *testing.T) {
	slow := load.Result{Rate: 1000, Batch: 1, Connections: 2, Arrived: 2000, Sent: 1101, Answered: 1101, Unsent: 899, Waited: 1001, Latency: load.Quantiles{P99: 1.1}}
	stopped := load.Result{Rate: 99.5, Batch: 4, Connections: 1, Arrived: 51, Sent: 26, Answered: 25, Unfinished: 26, Reached: 49.50, Interrupted: true}
	late := load.Result{Rate: 10, Arrived: 5, Sent: 5, Answered: 3, TimedOut: 2, Own: load.Quantiles{P99: 2e-3, Max: 3e-3}, Bottleneck: true}
	for _, c := range []struct {
		result load.Result
		says   []string
	}{
		{slow, []string{"1000 requests a second", "unsent             899", "not the bottleneck", "95.0 % of the requests waited for a free connection", "more --connections than 2", "leave out 899 requests"}},
		{stopped, []string{"99.5 requests a second", "unfinished          26", "49.5 a second, 198 items a second"}},
		{late, []string{"was a bottleneck too", "late by 2 ms at the 99th percentile and 3 ms at most", "timed out            2", "leave out 2 requests"}},
		{load.Result{}, []string{"No request was sent."}},
	} {
		var b strings.Builder
		printLoad(&b, &c.result)
		for _, want := range c.says {
			if !strings.Contains(strings.Join(strings.Fields(b.String()), " "), strings.Join(strings.Fields(want), " ")) {
				t.Errorf("no %q in\n%s", want, b.String())
			}
		}
	}
}
