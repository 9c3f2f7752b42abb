package serve

import (
	"cmp"
	"time"

	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/serve/dashboard"
	"github.com/weft-run/weft/serve/internal/infer"
)

// What the dashboard shows beside the runtime.

// Models returns every version of every model with its counts.
func (s *Server) Models() []dashboard.ModelState {
	stats := make(map[[2]string]infer.Stats)
	for _, n := range s.service.Stats() {
		stats[[2]string{n.Model, n.Version}] = n
	}
	var out []dashboard.ModelState
	for _, i := range s.service.Models() {
		n := stats[[2]string{i.Name, i.Version}]
		out = append(out, dashboard.ModelState{
			Name: i.Name, Version: i.Version, Kind: i.Kind, State: string(i.State), Reason: i.Reason,
			Devices: i.Devices, MaxBatch: i.MaxBatch,
			Requests: n.Requests, Succeeded: n.Succeeded, Failed: n.Failed, Refused: n.Refused, Expired: n.Expired,
			Items: n.Items, Batches: n.Batches, Waiting: n.Waiting,
			Total: latencies{n.Total},
		})
	}
	return out
}

// latencies are those of a model.
type latencies struct{ counted infer.Histogram }

// Quantile returns a quantile of those that were counted after before.
func (l latencies) Quantile(q float64, before dashboard.Latencies) (seconds float64, ok bool) {
	then, _ := before.(latencies)
	return l.counted.Since(then.counted).Quantile(q)
}

// shownStates are the dashboard's words for the states of jobs.
var shownStates = map[string]string{
	api.JobQueued: "queued", api.JobRunning: "running", api.JobSucceeded: "done", api.JobFailed: "failed", api.JobCancelled: "cancelled",
	api.JobInterrupted: "failed", // its reason says that the server ended
}

// shownJobs are the jobs of a server.
type shownJobs struct{ jobs *jobs }

// List returns them, the newest first.
func (j shownJobs) List() []dashboard.JobState {
	var out []dashboard.JobState
	for _, job := range j.jobs.list() {
		s := dashboard.JobState{
			ID: job.ID, Name: job.Workload, State: shownStates[job.State], Reason: job.Error, Submitted: job.Created,
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
func (j shownJobs) Cancel(id string) error {
	_, err := j.jobs.stop(id)
	return err
}
