package siege

import (
	"cmp"
	"slices"
	"time"

	"github.com/weft-run/weft/cmd/weft/internal/chaos"
	"github.com/weft-run/weft/serve/load"
)

// Account is the result of a siege.
type Account struct {
	Devices []string `json:"devices"`
	Standby bool     `json:"standby"`
	Model   string   `json:"model"`
	Seed    uint64   `json:"seed"`
	Rate    float64  `json:"rate"`
	Seconds float64  `json:"seconds"`
	// Kills counts killed workers, Losses those that had a device; the others were standbys.
	Kills  int `json:"kills"`
	Losses int `json:"losses"`
	// Sent counts requests, Succeeded those answered, and Failed the others by cause. Success is
	// Succeeded divided by Sent.
	Sent      uint64            `json:"sent"`
	Succeeded uint64            `json:"succeeded"`
	Success   float64           `json:"success"`
	Failed    map[string]uint64 `json:"failed"`
	Said      string            `json:"said,omitempty"` // the server's answer to the first that failed
	// LatencyMS covers all answers, measured from the scheduled send time.
	LatencyMS chaos.Spread `json:"latency_ms"`
	// QuietMS covers requests that StruckMS does not.
	QuietMS chaos.Spread `json:"quiet_ms"`
	// StruckMS covers requests due within 1 s after a kill.
	StruckMS chaos.Spread `json:"struck_ms"`
	// SecondsMS is the 99th percentile of each second after a kill.
	SecondsMS chaos.Spread `json:"struck_second_p99_ms"`
	// DetectMS is the time from a kill until the runtime knows of it.
	DetectMS chaos.Spread `json:"detect_ms"`
	// AnswerMS is the time from there until all requests in flight at the kill are answered.
	AnswerMS chaos.Spread `json:"answer_ms"`
	// BackMS is the time from a kill until the device takes work again.
	BackMS chaos.Spread `json:"device_back_ms"`
	// Checked counts answers compared with one from before the first kill; they are not part of the load.
	Checked int `json:"checked"`
	// Wrong counts compared answers that differed in a bit.
	Wrong int `json:"wrong"`
	// Bottleneck is true if the load generator itself was late, so that latencies include its delays.
	Bottleneck bool `json:"generator_bottleneck,omitempty"`
}

// account computes the account of a load.
func (f *field) account(r *load.Result, took time.Duration) *Account {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := &Account{
		Standby: f.Options.Standby, Model: r.Model, Seed: f.Seed, Rate: f.Rate, Seconds: max(took, 0).Seconds(), Kills: len(f.kills),
		Sent: r.Arrived, Succeeded: r.Answered, Failed: make(map[string]uint64), Checked: f.checked, Wrong: f.wrong, Bottleneck: r.Bottleneck,
	}
	for _, d := range f.rig.Devices() {
		a.Devices = append(a.Devices, d.Name)
	}
	if a.Sent > 0 {
		a.Success = float64(a.Succeeded) / float64(a.Sent)
	}
	for _, k := range []struct {
		what  string
		count uint64
	}{{"refused", r.Refused}, {"timed out", r.TimedOut}, {"unsent", r.Unsent}, {"interrupted", r.Unfinished}} {
		if k.count > 0 {
			a.Failed[k.what] = k.count
		}
	}
	for _, e := range r.Failures {
		a.Failed[e.Why] += e.Count
		if a.Said == "" {
			a.Said = e.Said
		}
	}
	if f.broke != nil && a.Said == "" {
		a.Said = f.broke.Error()
	}
	f.times(a)
	return a
}

// times computes what the account says of times.
func (f *field) times(a *Account) {
	ms := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
	slices.SortFunc(f.requests, func(x, y request) int { return x.due.Compare(y.due) })
	var all, quiet, struck, seconds, detect, answer, back []float64
	next := 0
	for _, r := range f.requests {
		for next < len(f.kills) && !f.kills[next].at.After(r.due) {
			next++
		}
		if !r.answered {
			continue
		}
		latency := ms(r.end.Sub(r.due))
		all = append(all, latency)
		if next > 0 && r.due.Sub(f.kills[next-1].at) < time.Second {
			struck = append(struck, latency)
		} else {
			quiet = append(quiet, latency)
		}
	}
	for _, k := range f.kills {
		var second []float64
		last := time.Time{} // end of what was under way
		first, _ := slices.BinarySearchFunc(f.requests, k.at, func(r request, at time.Time) int { return r.due.Compare(at) })
		for _, r := range f.requests[first:] {
			if r.due.Sub(k.at) >= time.Second {
				break
			}
			if r.answered {
				second = append(second, ms(r.end.Sub(r.due)))
			}
		}
		for _, r := range slices.Backward(f.requests[:first]) {
			if k.at.Sub(r.due) > 2*cmp.Or(f.Timeout, 10*time.Second) {
				break // no answer takes so long
			}
			if r.answered && r.end.After(k.at) && r.end.After(last) {
				last = r.end
			}
		}
		if len(second) > 0 {
			seconds = append(seconds, chaos.SpreadOf(second).P99)
		}
		if k.lost.IsZero() {
			continue
		}
		a.Losses++
		detect = append(detect, ms(k.lost.Sub(k.at)))
		if last.After(k.lost) {
			answer = append(answer, ms(last.Sub(k.lost)))
		}
		if !k.back.IsZero() {
			back = append(back, ms(k.back.Sub(k.lost)))
		}
	}
	a.LatencyMS, a.QuietMS = chaos.SpreadOf(all), chaos.SpreadOf(quiet)
	a.StruckMS, a.SecondsMS = chaos.SpreadOf(struck), chaos.SpreadOf(seconds)
	a.DetectMS, a.AnswerMS, a.BackMS = chaos.SpreadOf(detect), chaos.SpreadOf(answer), chaos.SpreadOf(back)
}
