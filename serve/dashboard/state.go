package dashboard

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/machine"
)

// pageState is all that the page shows. Times are in seconds, sizes in bytes, shares from 0 to 1;
// what is not known is null.
type pageState struct {
	Started  int64         `json:"started"` // ms since 1970; another one after a restart
	Name     string        `json:"name"`
	Uptime   float64       `json:"uptime"`
	Window   float64       `json:"window"` // seconds that rates and latencies are of
	Devices  []pageDevice  `json:"devices"`
	Totals   pageTotals    `json:"totals"`
	Now      pageNow       `json:"now"`
	Running  []pageTask    `json:"running"`
	Runs     []pageRun     `json:"runs"`
	MoreRuns int64         `json:"moreRuns"` // that are not listed
	Models   []pageModel   `json:"models"`   // null where nothing is served
	Jobs     []pageJob     `json:"jobs"`     // null where there are none
	HasJobs  bool          `json:"hasJobs"`
	Serves   bool          `json:"serves"`
	Verdicts []pageVerdict `json:"verdicts"`
	Events   []pageEvent   `json:"events"` // the oldest first
	Machine  *pageMachine  `json:"machine,omitempty"`
	History  *pageHistory  `json:"history,omitempty"`
}

// pageDevice is a device and its condition.
type pageDevice struct {
	Name       string   `json:"name"`
	Model      string   `json:"model"`
	Kind       string   `json:"kind"`
	Units      int      `json:"units"` // cores
	Lanes      int      `json:"lanes"`
	HostMemory bool     `json:"hostMemory"`
	State      string   `json:"state"`
	Util       float64  `json:"util"`
	AllUtil    *float64 `json:"allUtil"` // by all programs
	Queued     int      `json:"queued"`
	Running    int      `json:"running"`
	Tasks      int64    `json:"tasks"`
	Rate       *float64 `json:"rate"` // tasks a second
	Busy       float64  `json:"busy"`
	MemUsed    int64    `json:"memUsed"`  // by data
	MemBytes   int64    `json:"memBytes"` // that data may take; 0 for no limit
	AllMem     *float64 `json:"allMem"`   // used by all programs
	Temp       *float64 `json:"temp"`     // °C
	Power      *float64 `json:"power"`    // W
	PowerMax   *float64 `json:"powerMax"`
	Clock      *float64 `json:"clock"` // MHz
	Failed     int64    `json:"failed"`
	Losses     int64    `json:"losses"`
	LastError  string   `json:"lastError"`
}

// Totals count what the runtime has done since it was opened.
type pageTotals struct {
	Submitted int64 `json:"submitted"`
	Completed int64 `json:"completed"`
	Failed    int64 `json:"failed"`
	Cancelled int64 `json:"cancelled"`
	Retries   int64 `json:"retries"`
	Losses    int64 `json:"losses"`
	Copies    int64 `json:"copies"`
	CopyBytes int64 `json:"copyBytes"`
	Moved     int64 `json:"moved"` // queued tasks that changed the device, in so many moves
}

// Now sums up what all devices do.
type pageNow struct {
	Devices   int      `json:"devices"`   // in service
	Util      float64  `json:"util"`      // mean over those
	Queued    int      `json:"queued"`    // tasks
	Power     *float64 `json:"power"`     // of those that report it
	TaskRate  *float64 `json:"taskRate"`  // a second
	CopyRate  *float64 `json:"copyRate"`  // bytes a second
	RunRate   *float64 `json:"runRate"`   // runs that ended, a second
	Requests  *float64 `json:"requests"`  // of all models, a second
	Active    int64    `json:"active"`    // runs
	JobsOpen  int      `json:"jobsOpen"`  // not ended
	JobsEnded int      `json:"jobsEnded"` // of those listed
	Words     string   `json:"words"`     // what devices do, as a sentence
}

// pageTask is a task that a device runs.
type pageTask struct {
	Device    string  `json:"device"`
	Run       int64   `json:"run"`
	Task      string  `json:"task"`
	For       float64 `json:"for"`
	Predicted float64 `json:"predicted"`
}

// pageRun is a run that has not ended.
type pageRun struct {
	Run     int64    `json:"run"`
	Tasks   int      `json:"tasks"`
	Done    int      `json:"done"`
	Running int      `json:"running"`
	Bytes   int64    `json:"bytes"`
	Elapsed float64  `json:"elapsed"`
	Part    float64  `json:"part"`
	Left    *float64 `json:"left"`
}

// pageJob is a job as the page knows it. Two can be compared.
type pageJob struct {
	ID        string  `json:"id"`
	Name      string  `json:"name"`
	State     string  `json:"state"`
	Client    string  `json:"client"`
	Reason    string  `json:"reason"`
	Submitted int64   `json:"submitted"` // ms since 1970
	Elapsed   float64 `json:"elapsed"`
	Part      float64 `json:"part"` // negative if unknown
	Left      float64 `json:"left"` // negative if unknown
}

// pageMachine describes host memory and the links between devices.
type pageMachine struct {
	Name      string     `json:"name"`
	HostBytes int64      `json:"hostBytes"` // 0 for no limit
	HostRate  float64    `json:"hostRate"`  // bytes a second
	Links     []pageLink `json:"links"`
}

// Link joins two memories.
type pageLink struct {
	A       string  `json:"a"` // a device, or "host"
	B       string  `json:"b"`
	Kind    string  `json:"kind"`
	Rate    float64 `json:"rate"` // bytes a second in each direction
	Latency float64 `json:"latency"`
}

// pageHistory holds earlier samples, for charts that begin in the past. Every list has a
// number for each of At.
type pageHistory struct {
	At      []float64                        `json:"at"` // uptime
	Devices map[string]map[string][]*float64 `json:"devices"`
}

// point is a sample that rates and charts are made from.
type point struct {
	at      time.Time
	uptime  float64
	devices []pageDevice
	tasks   int64
	copied  int64
	ended   int64
	models  map[modelKey]ModelState
}

const (
	// rateWindow is the time that rates and latencies are of, and up to a sample more: short
	// enough to be called now, long enough for some requests.
	rateWindow = 10 * time.Second
	// historyWindow is the time that charts show.
	historyWindow = 120 * time.Second
)

// now returns the state of the runtime.
func (d *dashboard) now() *pageState {
	m, devices := d.rt.Metrics(), d.rt.Devices()
	s := &pageState{Started: d.started, Name: d.o.Name, Uptime: m.Uptime.Seconds(), Machine: machineOf(d.rt.Machine())}
	s.Totals = pageTotals{
		Submitted: m.Runs.Submitted, Completed: m.Runs.Completed, Failed: m.Runs.Failed, Cancelled: m.Runs.Cancelled,
		Retries: m.Retries, Losses: m.Losses, Copies: m.Copies, CopyBytes: m.CopyBytes, Moved: m.Rebalanced,
	}
	for i := range m.Devices {
		s.Devices = append(s.Devices, deviceOf(&m.Devices[i], &devices[i]))
	}
	for _, t := range d.rt.Running() {
		s.Running = append(s.Running, pageTask{Device: t.Device, Run: t.Run, Task: t.Task, For: t.For.Seconds(), Predicted: t.Predicted.Seconds()})
		if i := slices.IndexFunc(s.Devices, func(d pageDevice) bool { return d.Name == t.Device }); i >= 0 {
			s.Devices[i].Running++
		}
	}
	for _, p := range d.rt.Runs() {
		s.Runs = append(s.Runs, pageRun{Run: p.Run, Tasks: p.Tasks, Done: p.Done, Running: p.Running, Bytes: p.Bytes,
			Elapsed: p.Elapsed.Seconds(), Part: finite(p.Part), Left: known(p.Left.Seconds())})
	}
	s.Now.Active = max(m.Runs.Submitted-m.Runs.Completed-m.Runs.Failed-m.Runs.Cancelled, int64(len(s.Runs)))
	s.MoreRuns = s.Now.Active - int64(len(s.Runs))
	d.addJobs(s)
	var models []ModelState
	if d.o.Serving != nil {
		s.Serves, models = true, d.o.Serving.Models()
	}
	d.mu.Lock()
	s.Events = d.log.all()
	d.mu.Unlock()
	d.addRates(s, &m, models)
	s.sumUp()
	d.addVerdicts(s)
	return s
}

// deviceOf puts together what is told of a device.
func deviceOf(m *weft.DeviceMetrics, d *weft.Device) pageDevice {
	return pageDevice{
		Name: m.Name, Model: d.Model, Kind: d.Kind.String(), Units: d.ComputeUnits, Lanes: max(d.Lanes, 1),
		HostMemory: d.HostMemory, State: m.State, Util: finite(m.Util), AllUtil: known(m.Health.Util),
		Queued: m.Queued, Tasks: m.Tasks, Busy: m.Busy.Seconds(), MemUsed: m.MemUsed, MemBytes: m.MemBytes,
		AllMem: known(float64(m.Health.MemUsed)), Temp: known(m.Health.TempC), Power: known(m.Health.PowerW),
		PowerMax: positive(d.PowerWatts), Clock: known(m.Health.ClockMHz), Failed: m.Failed, Losses: m.Losses, LastError: m.LastError,
	}
}

// addJobs adds the jobs to the state.
func (d *dashboard) addJobs(s *pageState) {
	if d.o.Jobs == nil {
		return
	}
	s.HasJobs = true
	for _, j := range d.o.Jobs.List() {
		s.Jobs = append(s.Jobs, pageJob{
			ID: j.ID, Name: j.Name, State: j.State, Client: j.Client, Reason: j.Reason, Submitted: j.Submitted.UnixMilli(),
			Elapsed: j.Elapsed.Seconds(), Part: finite(j.Part), Left: j.Left.Seconds(),
		})
		if j.State == "queued" || j.State == "running" {
			s.Now.JobsOpen++
		} else {
			s.Now.JobsEnded++
		}
	}
}

// addRates adds what follows from this sample and those before it, and keeps this one.
func (d *dashboard) addRates(s *pageState, m *weft.Metrics, models []ModelState) {
	p := point{at: time.Now(), uptime: s.Uptime, devices: s.Devices, copied: m.CopyBytes, models: make(map[modelKey]ModelState, len(models)),
		ended: m.Runs.Completed + m.Runs.Failed + m.Runs.Cancelled}
	for _, dev := range s.Devices {
		p.tasks += dev.Tasks
	}
	for _, mod := range models {
		p.models[modelKey{mod.Name, mod.Version}] = mod
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.past = slices.DeleteFunc(d.past, func(q point) bool { return p.at.Sub(q.at) > historyWindow })
	first := slices.IndexFunc(d.past, func(q point) bool { return p.at.Sub(q.at) <= rateWindow+d.sampler.every })
	var before *point
	if first >= 0 && p.uptime > d.past[first].uptime {
		before = &d.past[first]
		s.Window = p.uptime - before.uptime
		per := func(now, then int64) *float64 { return known(float64(now-then) / s.Window) }
		s.Now.TaskRate, s.Now.CopyRate, s.Now.RunRate = per(p.tasks, before.tasks), per(p.copied, before.copied), per(p.ended, before.ended)
		for i := range s.Devices {
			s.Devices[i].Rate = per(s.Devices[i].Tasks, before.devices[i].Tasks)
		}
	}
	for _, mod := range models {
		s.Models = append(s.Models, modelOf(&mod, before, s.Window))
	}
	s.History = d.history()
	if n := len(d.past); n == 0 || p.at.Sub(d.past[n-1].at) >= d.sampler.every/2 {
		d.past = append(d.past, p)
	}
}

// history returns the samples that are kept as lists for charts.
func (d *dashboard) history() *pageHistory {
	h := &pageHistory{At: []float64{}, Devices: make(map[string]map[string][]*float64)}
	for i := range d.past {
		h.At = append(h.At, d.past[i].uptime)
	}
	if len(d.past) == 0 {
		return h
	}
	for i, dev := range d.past[0].devices {
		series := make(map[string][]*float64)
		for j := range d.past {
			v := &d.past[j].devices[i]
			series["util"] = append(series["util"], &v.Util)
			series["mem"] = append(series["mem"], ptr(float64(v.MemUsed)))
			series["queued"] = append(series["queued"], ptr(float64(v.Queued)))
			series["temp"] = append(series["temp"], v.Temp)
			series["power"] = append(series["power"], v.Power)
		}
		h.Devices[dev.Name] = series
	}
	return h
}

// sumUp fills in Now from the rest of the state.
func (s *pageState) sumUp() {
	n := &s.Now
	watts, metered, requests, serves := 0.0, false, 0.0, false
	for i := range s.Devices {
		d := &s.Devices[i]
		n.Queued += d.Queued
		if d.State == "healthy" {
			n.Devices++
			n.Util += d.Util
		}
		if d.Power != nil {
			watts, metered = watts+*d.Power, true
		}
	}
	if n.Devices > 0 {
		n.Util /= float64(n.Devices)
	}
	n.Words = s.words()
	if metered {
		n.Power = &watts
	}
	for i := range s.Models {
		if r := s.Models[i].Rate; r != nil {
			requests, serves = requests+*r, true
		}
	}
	if serves {
		n.Requests = &requests
	}
}

// words says in a sentence or two what the devices in service do.
func (s *pageState) words() string {
	var most, least *pageDevice
	for i := range s.Devices {
		d := &s.Devices[i]
		if d.State != "healthy" {
			continue
		}
		if most == nil || d.Util > most.Util {
			most = d
		}
		if least == nil || d.Util < least.Util {
			least = d
		}
	}
	if most == nil {
		return "No device takes work: drain fewer, or recover one."
	}
	if s.Now.Queued == 0 && s.Now.Util < 0.01 {
		return "The devices have nothing to do."
	}
	out := fmt.Sprintf("The devices in service are busy %.0f %% of the time.", 100*s.Now.Util)
	if most.Util-least.Util > 0.2 {
		out += fmt.Sprintf(" %s is busiest with %.0f %%, %s least with %.0f %%.", most.Name, 100*most.Util, least.Name, 100*least.Util)
	}
	return out
}

// machineOf describes the links of a machine by the names of devices.
func machineOf(m *machine.Machine) *pageMachine {
	out := &pageMachine{Name: m.Name, HostBytes: m.HostBytes, HostRate: finite(m.HostBPS), Links: []pageLink{}}
	name := func(d machine.DeviceID) string {
		if d == machine.Host {
			return "host"
		}
		return m.Devices[d].Name
	}
	for _, l := range m.Links {
		out.Links = append(out.Links, pageLink{A: name(l.A), B: name(l.B), Kind: l.Kind.String(), Rate: finite(l.BPS), Latency: finite(l.LatencyNS / 1e9)})
	}
	return out
}

// collect takes in events until the context ends or the runtime is closed.
func (d *dashboard) collect(ctx context.Context) {
	if d.rt == nil {
		return
	}
	d.mu.Lock()
	d.strip.reset(d.rt.Devices(), d.rt.Metrics().Uptime)
	d.mu.Unlock()
	for e := range d.rt.Events(ctx) {
		d.mu.Lock()
		switch e.Kind {
		case weft.EventTaskDone:
			d.strip.add(&e)
		case weft.EventMissed:
			d.strip.missed += e.Missed
			d.log.add(&e)
		case weft.EventTaskFailed:
			d.strip.add(&e)
			d.log.add(&e)
		default:
			d.log.add(&e)
		}
		d.mu.Unlock()
	}
}

// known returns nil for what is negative, or no number.
func known(x float64) *float64 {
	if x < 0 || math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// positive returns nil for what is not above 0.
func positive(x float64) *float64 {
	if x <= 0 {
		return nil
	}
	return known(x)
}

// finite returns 0 in place of what JSON cannot write.
func finite(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return x
}

func ptr(x float64) *float64 { return &x }
