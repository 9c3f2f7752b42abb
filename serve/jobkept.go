package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/checkpoint"
	"github.com/weft-run/weft/internal/checkpoint/disk"
	"github.com/weft-run/weft/internal/safefile"
	"github.com/weft-run/weft/workload"
)

// Checkpoints of jobs. With a state folder the runtime of the server is opened with a folder in it for them, in which
// each job that is kept has a folder of its own, by its id. A server that was ended leaves the job marked as running; the
// next one has it wait again, before those that waited, and it goes on from its newest checkpoint. It does so only if
// that has more of it than the one before which the server was started the last time: a job that brings the server down
// comes nearer to its end each time, or is interrupted.

// checkpointsFolder is the name of the folder in the state folder.
const checkpointsFolder = "checkpoints"

// keepAfter is the least time that a run is predicted to take for its job to be kept in checkpoints: less is as soon
// computed again, and to keep it takes a hash of its input.
var keepAfter = 20 * time.Second

// checkpoint says where the runtime of the server keeps jobs.
func (c *Config) checkpoint() weft.Checkpoint {
	if c.State == "" {
		return weft.Checkpoint{}
	}
	return weft.Checkpoint{Dir: filepath.Join(c.State, checkpointsFolder), ResumeIfAny: true}
}

// heldByAnother says of an error of the runtime's opening that another server has the folder.
func (c *Config) heldByAnother(err error) error {
	if err != nil && c.State != "" && errors.Is(err, safefile.ErrLocked) {
		return fmt.Errorf("state: %s belongs to another server that runs; choose another folder, or end that one", c.State)
	}
	return err
}

// checkpoints is the folder of the checkpoints of jobs, "" for none.
type checkpoints struct {
	dir string
	rt  *weft.Runtime
	log *slog.Logger
}

// name is the name under which a job is kept, "" where none are.
func (k *checkpoints) name(id string) string {
	if k.dir == "" {
		return ""
	}
	return id
}

// newest returns how many tasks or steps the newest checkpoint of a job has, and of how many; 0 for none.
func (k *checkpoints) newest(id string) (done, total int64) {
	if k.dir == "" {
		return 0, 0
	}
	f, err := disk.Open(k.dir, id, false)
	if err != nil {
		return 0, 0
	}
	defer f.Close()
	found, _, err := checkpoint.Manifests(f)
	if err != nil || len(found) == 0 {
		return 0, 0
	}
	return found[0].Done, found[0].Total
}

// lastWritten is the longest time to wait for the last checkpoint of a job that has ended.
const lastWritten = 10 * time.Second

// remove removes the checkpoints of a job. ran says that it ran in this process, which may be writing the last one still.
func (k *checkpoints) remove(id string, ran bool) {
	if k.dir == "" {
		return
	}
	err := error(nil)
	if ran {
		ctx, cancel := context.WithTimeout(context.Background(), lastWritten)
		defer cancel()
		err = k.rt.Forget(ctx, id)
	} else {
		err = disk.Remove(k.dir, id)
	}
	if err != nil {
		k.log.Error("the checkpoints of a job that has ended could not be removed", "job", id, "err", err)
	}
}

// sweep removes checkpoints of jobs that do not go on from them.
func (k *checkpoints) sweep(all []*job) {
	if k.dir == "" {
		return
	}
	names, _ := disk.Folders(k.dir) // none where it cannot be read
	for _, name := range names {
		if jobID.MatchString(name) && !slices.ContainsFunc(all, func(j *job) bool { return j.ID == name && !j.Over() && j.Resumed != nil }) {
			k.remove(name, false)
		}
	}
}

// goOn has a job wait again that ran when the server ended, with the lock held, and reports whether it can go on from a
// checkpoint that has more of it than the last one that it went on from.
func (js *jobs) goOn(j *job, plan func(*api.JobRequest) (task, error)) bool {
	done, total := js.kept.newest(j.ID)
	if done == 0 || j.Resumed != nil && done <= j.Resumed.From {
		return false
	}
	run, err := plan(j.asked())
	if err != nil {
		return false
	}
	at := js.now().UTC()
	if js.turn(j, func(j *job) { j.wait(done, total, at) }) != nil {
		return false
	}
	j.run = run
	return true
}

// wait has a job wait to go on from a checkpoint.
func (j *job) wait(done, total int64, at time.Time) {
	j.State, j.Started, j.Progress = api.JobQueued, nil, api.JobProgress{}
	j.Resumed = &api.JobResumed{At: at, From: done, Of: total}
}

// goesOnLater is why a job has no result that goes on when the server is started again.
const goesOnLater = "the server ended while the job ran; it goes on from its last checkpoint when the server is started again"

// pause ends a job that was cut off because the server ends, with the lock held, and reports whether it has a
// checkpoint and waits in the state folder to go on from that.
func (js *jobs) pause(j *job) bool {
	done, total := js.kept.newest(j.ID)
	if done == 0 || js.state == nil {
		return false
	}
	at, waits := js.now().UTC(), *j
	waits.wait(done, total, at)
	if js.keep(&waits) != nil {
		return false
	}
	j.paused = true
	j.finish(api.JobInterrupted, goesOnLater, at)
	j.leave()
	js.tell(j)
	return true
}

// keptAs is under which name a job is kept in checkpoints, and whether it goes on from one.
type keptAs struct {
	name    string
	resumed bool
}

type keptKey struct{}

// keptOf is the name under which the job of a context may be kept. It is "" for a job that runs on devices of its own,
// or several times.
func (s *Server) keptOf(ctx context.Context, q api.JobRequest) keptAs {
	as, _ := ctx.Value(keptKey{}).(keptAs)
	if q.Devices != "" || q.Repeat != 1 {
		return keptAs{}
	}
	return as
}

// runKept is workload.Run for a job that is kept in checkpoints if its run takes long. resumed reports whether it
// went on from one.
func runKept(ctx context.Context, rt *weft.Runtime, job workload.Job, as keptAs, params map[string]string, before func(workload.Job, *graph.Graph, *weft.Prediction)) (res *workload.Result, resumed bool, err error) {
	if as.name == "" || workload.Keepable(job) != nil {
		res, err = workload.Run(ctx, rt, job, before)
		return res, false, err
	}
	keep := weft.Keep{Name: as.name, Params: params}
	if as.resumed {
		res, err = workload.RunStages(ctx, rt, job, keep, before)
	} else {
		res, err = workload.RunLong(ctx, rt, job, keep, keepAfter, before)
	}
	return res, as.resumed, err
}
