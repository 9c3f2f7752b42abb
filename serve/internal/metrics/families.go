package metrics

import (
	"runtime"
	"runtime/metrics"
	"strconv"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/serve/internal/infer"
)

// view is what a page is written from.
type view struct {
	source              *Source
	totals              *totals
	now, before, oldest *sample
}

// write writes every family. What is not known is left out.
func (v *view) write(p *page) {
	if v.source.Runtime != nil {
		v.runs(p)
		v.devices(p)
		v.health(p)
		v.scores(p)
	}
	if v.source.Models != nil {
		v.requests(p)
		v.latencies(p)
		v.throughput(p)
	}
	if v.source.Spans != nil {
		p.one("weft_trace_spans_sent_total", "counter", "Spans of traces that the collector took.", float64(v.now.spans.Sent))
		p.one("weft_trace_spans_dropped_total", "counter", "Spans of traces that were dropped because the collector is slow or away.", float64(v.now.spans.Dropped))
	}
	if v.source.Proofs != nil {
		v.proofs(p)
	}
	p.one("weft_recent_seconds", "gauge", "Length in seconds of the window of figures called recent.", v.now.at.Sub(v.oldest.at).Seconds())
	v.economy(p)
	v.machine(p)
	v.process(p)
}

// proofs writes the figures of circuits.
func (v *view) proofs(p *page) {
	p.family("weft_proofs_total", "counter", "Requests for proofs that have ended, by result; refused ones had a bad witness.")
	for _, c := range v.now.proofs {
		p.add(float64(c.Proved), "circuit", c.Circuit, "result", "proved")
		p.add(float64(c.Refused), "circuit", c.Circuit, "result", "refused")
		p.add(float64(c.Failed), "circuit", c.Circuit, "result", "failed")
	}
	for _, f := range []struct {
		name, kind, help string
		of               func(c *Proofs) float64
	}{
		{"weft_proof_seconds_total", "counter", "Time that proofs took, without waiting.", func(c *Proofs) float64 { return c.Seconds }},
		{"weft_proofs_running", "gauge", "Proofs in progress.", func(c *Proofs) float64 { return float64(c.Running) }},
		{"weft_proofs_waiting", "gauge", "Proofs that wait for their turn.", func(c *Proofs) float64 { return float64(c.Waiting) }},
		{"weft_proofs_verified_total", "counter", "Proofs that clients had verified.", func(c *Proofs) float64 { return float64(c.Verified) }},
	} {
		p.family(f.name, f.kind, f.help)
		for i := range v.now.proofs {
			p.add(f.of(&v.now.proofs[i]), "circuit", v.now.proofs[i].Circuit)
		}
	}
}

func (v *view) runs(p *page) {
	m := &v.now.runtime
	p.one("weft_uptime_seconds", "gauge", "Time since the runtime was opened.", m.Uptime.Seconds())
	p.one("weft_runs_submitted_total", "counter", "Runs that were submitted.", float64(m.Runs.Submitted))
	p.family("weft_runs_ended_total", "counter", "Runs that have ended, by result.")
	p.add(float64(m.Runs.Completed), "result", "completed")
	p.add(float64(m.Runs.Failed), "result", "failed")
	p.add(float64(m.Runs.Cancelled), "result", "cancelled")
	p.one("weft_task_retries_total", "counter", "Executions of tasks that failed and were tried again.", float64(m.Retries))
	p.one("weft_copies_total", "counter", "Copies between memories.", float64(m.Copies))
	p.one("weft_copied_bytes_total", "counter", "Bytes copied between memories.", float64(m.CopyBytes))
	p.one("weft_verified_tasks_total", "counter", "Tasks whose results two devices agreed on.", float64(m.Verified))
	p.one("weft_unverified_tasks_total", "counter", "Tasks to be verified that no second device executed.", float64(m.Unverified))
	p.one("weft_wrong_results_total", "counter", "Results of devices that were wrong, and were replaced.", float64(m.Wrong))
	p.one("weft_rebalances_total", "counter", "Moves of queued tasks from a hot device to a cold one.", float64(m.Rebalanced))
}

// devices writes what every device has.
func (v *view) devices(p *page) {
	for _, f := range []struct {
		name, kind, help string
		of               func(d *weft.DeviceMetrics) float64
	}{
		{"weft_device_in_service", "gauge", "1 if the device takes work, else 0.", func(d *weft.DeviceMetrics) float64 {
			if inService(d) {
				return 1
			}
			return 0
		}},
		{"weft_device_tasks_total", "counter", "Executions of tasks that ended on the device, whether they succeeded or failed.", func(d *weft.DeviceMetrics) float64 { return float64(d.Tasks) }},
		{"weft_device_failed_tasks_total", "counter", "Executions of tasks that failed on the device.", func(d *weft.DeviceMetrics) float64 { return float64(d.Failed) }},
		{"weft_device_losses_total", "counter", "Times the device was lost.", func(d *weft.DeviceMetrics) float64 { return float64(d.Losses) }},
		{"weft_device_busy_seconds_total", "counter", "Time the device spent in tasks.", func(d *weft.DeviceMetrics) float64 { return d.Busy.Seconds() }},
		{"weft_device_utilisation_ratio", "gauge", "Share of the last sampling interval that the device spent in tasks of this process.", func(d *weft.DeviceMetrics) float64 { return d.Util }},
		{"weft_device_queued_tasks", "gauge", "Tasks placed on the device and not finished.", func(d *weft.DeviceMetrics) float64 { return float64(d.Queued) }},
		{"weft_device_memory_used_bytes", "gauge", "Memory that data of this process takes on the device.", func(d *weft.DeviceMetrics) float64 { return float64(d.MemUsed) }},
	} {
		p.family(f.name, f.kind, f.help)
		for i := range v.now.runtime.Devices {
			d := &v.now.runtime.Devices[i]
			p.add(f.of(d), "device", d.Name)
		}
	}
	p.family("weft_device_state", "gauge", "1 for the state that the device is in.")
	for _, d := range v.now.runtime.Devices {
		p.add(1, "device", d.Name, "state", d.State)
	}
}

// health writes what devices tell of themselves, which is a part of this or nothing.
func (v *view) health(p *page) {
	for _, f := range []struct {
		name, kind, help string
		of               func(d *weft.DeviceMetrics) (float64, bool)
	}{
		{"weft_device_memory_limit_bytes", "gauge", "Memory that data of this process may take on the device.",
			func(d *weft.DeviceMetrics) (float64, bool) { return float64(d.MemBytes), d.MemBytes > 0 }},
		{"weft_device_total_utilisation_ratio", "gauge", "Utilisation of the device by all programs, as its driver reports it.",
			func(d *weft.DeviceMetrics) (float64, bool) { return d.Health.Util, d.Health.Util >= 0 }},
		{"weft_device_temperature_celsius", "gauge", "Temperature of the device.",
			func(d *weft.DeviceMetrics) (float64, bool) { return d.Health.TempC, d.Health.TempC >= 0 }},
		{"weft_device_power_watts", "gauge", "Power that the device draws.",
			func(d *weft.DeviceMetrics) (float64, bool) { return d.Health.PowerW, d.Health.PowerW >= 0 }},
		{"weft_device_clock_hertz", "gauge", "Clock of the device's processors.",
			func(d *weft.DeviceMetrics) (float64, bool) { return d.Health.ClockMHz * 1e6, d.Health.ClockMHz >= 0 }},
		{"weft_device_total_memory_used_bytes", "gauge", "Memory of the device that all programs use.",
			func(d *weft.DeviceMetrics) (float64, bool) { return float64(d.Health.MemUsed), d.Health.MemUsed >= 0 }},
		{"weft_device_memory_errors_total", "counter", "Uncorrectable errors of the device's memory since boot.",
			func(d *weft.DeviceMetrics) (float64, bool) {
				return float64(d.Health.MemErrors), d.Health.MemErrors >= 0
			}},
		{"weft_device_energy_joules_total", "counter", "Energy used by the device, integrated from samples of its power.",
			func(d *weft.DeviceMetrics) (float64, bool) { j, ok := v.totals.joules[d.Name]; return j, ok }},
	} {
		begun := false
		for i := range v.now.runtime.Devices {
			d := &v.now.runtime.Devices[i]
			x, known := f.of(d)
			if !known {
				continue
			}
			if !begun {
				p.family(f.name, f.kind, f.help)
				begun = true
			}
			p.add(x, "device", d.Name)
		}
	}
}

// scores writes how well devices work together.
func (v *view) scores(p *page) {
	ws := works(v.oldest, v.now)
	if x, ok := scalingEfficiency(ws, v.now.at.Sub(v.oldest.at)); ok {
		p.one("weft_scaling_efficiency_ratio", "gauge", "Rate of tasks over the last minute, divided by the sum of the rates of each device while it is busy.", x)
	}
	if x, ok := loadBalance(ws); ok {
		p.one("weft_load_balance_ratio", "gauge", "Mean busy time of devices over the last minute, divided by the largest.", x)
	}
	p.one("weft_fault_tolerance_ratio", "gauge", "Share of faults that failed no run.", faultTolerance(&v.now.runtime))
}

// requests writes the counts of every model version.
func (v *view) requests(p *page) {
	for _, f := range []struct {
		name, help string
		of         func(m *infer.Stats) uint64
	}{
		{"weft_requests_total", "Requests that arrived.", func(m *infer.Stats) uint64 { return m.Requests }},
		{"weft_predictions_total", "Predictions that were computed; a request may ask for several.", func(m *infer.Stats) uint64 { return m.Items }},
		{"weft_batches_total", "Batches that were computed.", func(m *infer.Stats) uint64 { return m.Batches }},
	} {
		p.family(f.name, "counter", f.help)
		for i := range v.now.models {
			m := &v.now.models[i]
			p.add(float64(f.of(m)), "model", m.Model, "version", m.Version)
		}
	}
	p.family("weft_requests_ended_total", "counter", "Requests that have ended, by result.")
	for _, m := range v.now.models {
		for _, r := range []struct {
			result string
			n      uint64
		}{{"succeeded", m.Succeeded}, {"invalid", m.Invalid}, {"failed", m.Failed}, {"refused", m.Refused}, {"expired", m.Expired}, {"cancelled", m.Cancelled}} {
			p.add(float64(r.n), "model", m.Model, "version", m.Version, "result", r.result)
		}
	}
	p.family("weft_waiting_requests", "gauge", "Requests that are not in a batch yet.")
	for _, m := range v.now.models {
		p.add(float64(m.Waiting), "model", m.Model, "version", m.Version)
	}
	p.family("weft_recent_batch_predictions", "gauge", "Mean number of predictions in a batch, over the last minute.")
	for _, m := range v.now.models {
		was := modelOf(v.oldest, m.Model, m.Version)
		if batches := grown(was.Batches, m.Batches); batches > 0 {
			p.add(grown(was.Items, m.Items)/batches, "model", m.Model, "version", m.Version)
		}
	}
}

// latencies writes histograms, and quantiles of the last minute.
func (v *view) latencies(p *page) {
	for _, f := range []struct {
		name, help string
		of         func(m *infer.Stats) *infer.Histogram
	}{
		{"weft_request_seconds", "Time from the arrival of a request to its answer.", func(m *infer.Stats) *infer.Histogram { return &m.Total }},
		{"weft_request_queue_seconds", "Time that requests waited for their batch to begin.", func(m *infer.Stats) *infer.Histogram { return &m.Queue }},
		{"weft_request_compute_seconds", "Time that the batches of requests took.", func(m *infer.Stats) *infer.Histogram { return &m.Compute }},
	} {
		p.family(f.name, "histogram", f.help)
		for i := range v.now.models {
			m := &v.now.models[i]
			h := f.of(m)
			p.histogram(h.Bounds, h.Counts, h.Sum, "model", m.Model, "version", m.Version)
		}
	}
	p.family("weft_recent_request_seconds", "summary", "Quantiles of the time from arrival to answer, over the last minute.")
	for _, m := range v.now.models {
		recent := m.Total.Since(modelOf(v.oldest, m.Model, m.Version).Total)
		l := []string{"model", m.Model, "version", m.Version}
		for _, q := range []float64{0.5, 0.95, 0.99} {
			if x, ok := recent.Quantile(q); ok {
				p.line("", x, append(l[:4:4], "quantile", strconv.FormatFloat(q, 'g', -1, 64)))
			}
		}
		p.line("_sum", m.Total.Sum, l)
		p.line("_count", float64(m.Total.Count()), l)
	}
}

// throughput writes rates of all models together.
func (v *view) throughput(p *page) {
	p.one("weft_recent_predictions_per_second", "gauge", "Predictions a second, over the last minute.", rate(v.oldest, v.now))
	p.one("weft_peak_predictions_per_second", "gauge", "Most predictions in a second between two samples, since the start.", v.totals.peak)
}

// economy writes energy, cost and return, as far as power and prices are known.
func (v *view) economy(p *page) {
	joules := 0.0
	for _, j := range v.totals.joules {
		joules += j
	}
	predictions := v.totals.predictions
	if len(v.totals.joules) > 0 {
		p.one("weft_energy_joules_total", "counter", "Energy used by all devices that report their power.", joules)
		if predictions > 0 {
			p.one("weft_energy_per_prediction_joules", "gauge", "Mean energy per prediction since the start.", joules/predictions)
		}
	}
	if v.source.Runtime != nil {
		p.one("weft_device_service_seconds_total", "counter", "Time that devices were in service, summed over devices.", v.totals.devices)
	}
	m := v.source.Prices.account(joules, v.totals.devices, predictions)
	if v.source.Prices.KWh == 0 && v.source.Prices.DeviceHour == 0 {
		return
	}
	p.family("weft_cost_total", "counter", "Cost of energy and devices, in the currency of the prices.")
	p.add(m.energy, "part", "energy")
	p.add(m.devices, "part", "devices")
	if predictions > 0 {
		p.one("weft_prediction_cost", "gauge", "Mean cost of a prediction since the start, in the currency of the prices.", m.cost()/predictions)
	}
	if v.source.Prices.Prediction > 0 && m.cost() > 0 {
		p.one("weft_return_on_investment_ratio", "gauge", "Value of all predictions less their cost, divided by the cost.", m.roi())
	}
}

// machine writes what the whole machine does.
func (v *view) machine(p *page) {
	h := &v.now.host
	if x, ok := cpuUtilisation(&v.before.host, h); ok {
		p.one("weft_machine_cpu_utilisation_ratio", "gauge", "Share of the time of all processors that was not idle since the sample before.", x)
	}
	if h.memBytes > 0 {
		p.one("weft_machine_memory_bytes", "gauge", "Memory of the machine.", h.memBytes)
		p.one("weft_machine_memory_available_bytes", "gauge", "Memory of the machine that is available to programs.", h.memAvailable)
	}
	if len(h.network) == 0 {
		return
	}
	p.family("weft_machine_network_received_bytes_total", "counter", "Bytes that a network interface received.")
	for _, l := range h.network {
		p.add(l.received, "interface", l.name)
	}
	p.family("weft_machine_network_sent_bytes_total", "counter", "Bytes that a network interface sent.")
	for _, l := range h.network {
		p.add(l.sent, "interface", l.name)
	}
	begun := false
	for _, l := range h.network {
		x, ok := networkUtilisation(&v.before.host, l, v.now.at.Sub(v.before.at).Seconds())
		if ok && !begun {
			p.family("weft_machine_network_utilisation_ratio", "gauge", "Traffic of a network interface since the sample before, divided by its speed.")
			begun = true
		}
		if ok {
			p.add(x, "interface", l.name)
		}
	}
}

// started is when the process began, or nearly.
var started = time.Now()

// process writes what this process takes, by the names that programs in Go have for it.
func (v *view) process(p *page) {
	read := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/total:bytes"}, {Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(read)
	value := func(i int) float64 {
		if read[i].Value.Kind() != metrics.KindUint64 {
			return 0
		}
		return float64(read[i].Value.Uint64())
	}
	p.one("go_goroutines", "gauge", "Goroutines that exist.", float64(runtime.NumGoroutine()))
	p.one("go_heap_objects_bytes", "gauge", "Memory of objects on Go's heap.", value(0))
	p.one("go_memory_bytes", "gauge", "Memory that Go's runtime holds from the system.", value(1))
	p.one("go_gc_cycles_total", "counter", "Collections of garbage that have ended.", value(2))
	p.one("go_processors", "gauge", "Processors that Go runs on at the same time (GOMAXPROCS).", float64(runtime.GOMAXPROCS(0)))
	p.one("process_start_time_seconds", "gauge", "When the process began, in seconds since 1970.", float64(started.UnixMilli())/1000)
	if h := &v.now.host; h.residentBytes > 0 {
		p.one("process_cpu_seconds_total", "counter", "Processor time of this process.", h.cpuSeconds)
		p.one("process_resident_memory_bytes", "gauge", "Resident memory of this process.", h.residentBytes)
		p.one("process_open_fds", "gauge", "Files that this process has open.", h.openFiles)
	}
}
