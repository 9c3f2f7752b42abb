package main

import (
	"cmp"
	"time"

	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/internal/dashboard"
	"github.com/weft-run/weft/internal/infer"
	"github.com/weft-run/weft/internal/serve"
)

// What weft serve shows on its dashboard beside the runtime.

// shownModels are the models of a service.
type shownModels struct{ service *infer.Service }

// Models returns every version of them with its counts.
func (m shownModels) Models() []dashboard.ModelState {
	stats := make(map[[2]string]infer.Stats)
	for _, s := range m.service.Stats() {
		stats[[2]string{s.Model, s.Version}] = s
	}
	var out []dashboard.ModelState
	for _, i := range m.service.Models() {
		s := stats[[2]string{i.Name, i.Version}]
		out = append(out, dashboard.ModelState{
			Name: i.Name, Version: i.Version, Kind: i.Kind, State: string(i.State), Reason: i.Reason,
			Devices: i.Devices, MaxBatch: i.MaxBatch,
			Succeeded: s.Succeeded, Failed: s.Failed, Refused: s.Refused, Expired: s.Expired,
			Items: s.Items, Batches: s.Batches, Waiting: s.Waiting,
			Total: s.Total,
		})
	}
	return out
}

// states are the dashboard's words for the states of jobs.
var states = map[string]string{
	api.JobQueued: "queued", api.JobRunning: "running", api.JobSucceeded: "done", api.JobFailed: "failed", api.JobCancelled: "cancelled",
	api.JobInterrupted: "failed", // its reason says that the server ended
}

// shownJobs are the jobs of a server, which is set before it listens.
type shownJobs struct{ server *serve.Server }

// List returns them, the newest first.
func (j *shownJobs) List() []dashboard.JobState {
	var out []dashboard.JobState
	for _, job := range j.server.Jobs() {
		s := dashboard.JobState{
			ID: job.ID, Name: job.Workload, State: states[job.State], Reason: job.Error, Submitted: job.Created,
			Part: -1, Left: -1,
		}
		if job.Started != nil {
			end := time.Now()
			if job.Ended != nil {
				end = *job.Ended
			}
			s.Elapsed = end.Sub(*job.Started)
		}
		switch {
		case job.State == api.JobSucceeded:
			s.Part, s.Left = 1, 0
		case job.Started != nil && job.Ended == nil:
			// A run in progress is one of as many as the job repeats.
			all := float64(max(cmp.Or(job.Repeat, 1), 1))
			s.Part = min((float64(job.Progress.Runs)+job.Progress.Part)/all, 1)
			if job.Progress.Left > 0 && all == 1 {
				s.Left = time.Duration(job.Progress.Left * float64(time.Second))
			}
		}
		out = append(out, s)
	}
	return out
}

// Cancel ends one of them.
func (j *shownJobs) Cancel(id string) error { return j.server.CancelJob(id) }
