package serve

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weft-run/weft/api"
)

// task makes and runs what a job asks for, and tells how far it is.
type task func(ctx context.Context, tell func(api.JobProgress)) (*api.JobResult, error)

// jobs are those the server has: queued, running, and for a while those that ended.
type jobs struct {
	limits Jobs
	hub    *hub
	log    *slog.Logger
	now    func() time.Time

	mu       sync.Mutex
	all      []*job // oldest first
	queue    []*job
	number   uint64 // of the newest
	running  int
	closed   bool
	state    *state // where they are kept; nil for memory alone
	kept     checkpoints
	later    *time.Timer // tries to begin jobs again; nil if none is held up
	held     bool        // a job could not be begun, which was logged
	released bool        // and the folder is not this server's any more
	tasks    sync.WaitGroup
}

// job is one of them. Its fields are guarded by the lock of jobs.
type job struct {
	api.Job
	run    task
	cancel context.CancelFunc
	wanted bool      // to be cancelled
	cut    bool      // because the server ends
	paused bool      // which is going on from a checkpoint when it is started again
	told   time.Time // when its progress was told last
	result json.RawMessage
	// structure is the text of a structure that came with the request, until the job has ended. Nobody is shown it.
	structure string
	key       string // of the client that submitted it, "" for none
	hash      [sha256.Size]byte
	number    uint64   // later ones have higher ones
	size      int64    // bytes of its record
	gone      []func() // are called when it has ended
}

// progressEvery is the least time between two events that tell how far a job is. Short runs
// would crowd out all other events.
const progressEvery = 200 * time.Millisecond

// submit adds a job, or returns the one that was added by the same key. body is what the
// client sent. gone are called when a job that was added has ended.
func (js *jobs) submit(q api.JobRequest, run task, key string, body []byte, gone ...func()) (out api.Job, fresh bool, err error) {
	js.mu.Lock()
	defer js.mu.Unlock()
	js.forget()
	hash := sha256.Sum256(body)
	if key != "" {
		for _, j := range js.all {
			if j.key != key {
				continue
			}
			if j.hash != hash {
				return out, false, failf(http.StatusConflict, "this Idempotency-Key came with another job before: use a new one")
			}
			return j.Job, false, nil
		}
	}
	switch {
	case js.closed:
		return out, false, busyf(http.StatusServiceUnavailable, 5*time.Second, "the server is ending")
	case js.limits.Concurrent == 0:
		return out, false, failf(http.StatusForbidden, "this server runs no jobs: jobs.concurrent is 0 in its configuration")
	case js.running >= js.limits.Concurrent && len(js.queue) >= js.limits.Queue:
		return out, false, busyf(http.StatusServiceUnavailable, 5*time.Second, "%d jobs wait already, and no more may", len(js.queue))
	}
	js.number++
	j := &job{run: run, structure: q.StructureText, key: key, hash: hash, number: js.number, gone: gone}
	q.StructureText = ""
	j.Job = api.Job{StructureBytes: len(j.structure), ID: strings.ToLower(rand.Text()), JobRequest: q, State: api.JobQueued, Created: js.now().UTC()}
	if err := js.keep(j); err != nil {
		js.drop(j) // its name may be there although it is not known to last
		js.log.Error("a job could not be written to the state folder", "err", err)
		return out, false, busyf(http.StatusServiceUnavailable, 5*time.Second, "the server cannot write to its state folder, and takes no jobs")
	}
	js.all = append(js.all, j)
	js.queue = append(js.queue, j)
	js.tell(j)
	js.next()
	return j.Job, true, nil
}

// tryAgain is the time after which jobs are tried again that could not be marked as running.
const tryAgain = time.Second

// next starts queued jobs as far as the limit goes, with the lock held. One that cannot be marked as
// running in the state folder waits, and those behind it, until it can: else it might run twice.
func (js *jobs) next() {
	for js.running < js.limits.Concurrent && len(js.queue) > 0 && !js.closed {
		j := js.queue[0]
		at := js.now().UTC()
		if err := js.turn(j, func(j *job) { j.State, j.Started = api.JobRunning, &at }); err != nil {
			js.hold(err)
			return
		}
		js.held = false
		js.queue = slices.Delete(js.queue, 0, 1)
		ctx, cancel := context.WithCancel(context.Background())
		j.cancel = cancel
		js.running++
		js.tell(j)
		ctx = context.WithValue(ctx, keptKey{}, keptAs{js.kept.name(j.ID), j.Resumed != nil})
		js.tasks.Go(func() {
			defer cancel()
			result, err := js.perform(ctx, j)
			js.end(j, result, err)
			if !j.paused {
				js.kept.remove(j.ID, true)
			}
		})
	}
}

// hold has jobs wait for a while that could not be begun, with the lock held.
func (js *jobs) hold(err error) {
	if !js.held {
		js.held = true
		js.log.Error("no job can be begun, because the state folder cannot be written; it is tried again every "+tryAgain.String(), "err", err)
	}
	if js.later != nil {
		return
	}
	js.later = time.AfterFunc(tryAgain, func() {
		js.mu.Lock()
		defer js.mu.Unlock()
		js.later = nil
		js.next()
	})
}

// turn changes a job once its file has the change, with the lock held. Where that cannot be written
// the job stays as it was.
func (js *jobs) turn(j *job, change func(*job)) error {
	as := *j
	change(&as)
	if err := js.keep(&as); err != nil {
		return err
	}
	*j = as
	return nil
}

// perform runs a job. A panic is its failure.
func (js *jobs) perform(ctx context.Context, j *job) (result *api.JobResult, err error) {
	defer func() {
		if p := recover(); p != nil {
			js.log.Error("a job panicked", "job", j.ID, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("the job panicked: %v", p)
		}
	}()
	return j.run(ctx, func(p api.JobProgress) {
		js.mu.Lock()
		defer js.mu.Unlock()
		j.Progress = p
		if at := js.now(); at.Sub(j.told) >= progressEvery {
			j.told = at
			js.tell(j)
		}
	})
}

// end records how a job ended and starts the next.
func (js *jobs) end(j *job, result *api.JobResult, err error) {
	js.mu.Lock()
	defer js.mu.Unlock()
	js.running--
	if err == nil {
		result.ID = j.ID
		j.result, err = json.Marshal(result) // once, so that whoever asks gets the same bytes
	}
	switch {
	case err == nil:
		js.ran(j, api.JobSucceeded, "")
	case j.wanted && errors.Is(err, context.Canceled):
		js.ran(j, api.JobCancelled, "")
	case j.cut && errors.Is(err, context.Canceled) && js.pause(j):
	case j.cut && errors.Is(err, context.Canceled):
		js.ran(j, api.JobInterrupted, leftOff)
	default:
		js.ran(j, api.JobFailed, err.Error())
	}
	js.next()
	js.forget()
}

// over gives a job its last state, with the lock held. One whose state is not written stays as it was.
func (js *jobs) over(j *job, state, why string) error {
	at := js.now().UTC()
	err := js.turn(j, func(j *job) { j.finish(state, why, at) })
	if err == nil {
		j.leave()
		js.tell(j)
		if j.Started == nil { // or its checkpoints go once nothing is written there
			js.kept.remove(j.ID, false)
		}
	}
	return err
}

// leave calls the functions that were given for the end of the job.
func (j *job) leave() {
	for _, gone := range j.gone {
		gone()
	}
	j.gone = nil
}

// asked returns the request of the client, including the text of its structure, which no answer shows.
func (j *job) asked() *api.JobRequest {
	q := j.JobRequest
	q.StructureText = j.structure
	return &q
}

func (j *job) finish(state, why string, at time.Time) {
	j.structure = ""
	j.State, j.Error, j.Ended, j.run = state, strings.ReplaceAll(why, "\n", "; "), &at, nil
}

// ran gives a job its last state that was marked as running, with the lock held. It has ended, whether
// that can be written or not: if not, its error says so.
func (js *jobs) ran(j *job, state, why string) {
	err := js.over(j, state, why)
	if err == nil {
		return
	}
	js.log.Error("the end of a job could not be written to the state folder", "job", j.ID, "err", err)
	if why != "" {
		why += "; "
	}
	j.finish(state, why+"its end could not be written to the state folder, and once the server is started again the job is interrupted: "+err.Error(), js.now().UTC())
	j.leave()
	js.tell(j)
}

// tell tells those who watch how a job is, with the lock held.
func (js *jobs) tell(j *job) {
	copied := j.Job
	js.hub.tell(api.Event{Kind: api.EventJob, Job: &copied})
}

// forget removes jobs that ended long ago or before many others, or before others that are large,
// with the lock held.
func (js *jobs) forget() {
	ended, size := 0, int64(0)
	for _, j := range js.all {
		if j.Over() {
			ended++
			size += j.size
		}
	}
	js.all = slices.DeleteFunc(js.all, func(j *job) bool {
		if !j.Over() {
			return false
		}
		gone := ended > js.limits.Keep || size > int64(js.limits.KeepBytes) || js.now().Sub(*j.Ended) > time.Duration(js.limits.KeepFor)
		if gone {
			ended--
			size -= j.size
			js.drop(j)
		}
		return gone
	})
}

// find returns a job, with the lock held.
func (js *jobs) find(id string) (*job, error) {
	js.forget()
	for _, j := range js.all {
		if j.ID == id {
			return j, nil
		}
	}
	return nil, failf(http.StatusNotFound, "no job %s; jobs are forgotten some time after their end", quoted(id))
}

func (js *jobs) get(id string) (api.Job, error) {
	js.mu.Lock()
	defer js.mu.Unlock()
	j, err := js.find(id)
	if err != nil {
		return api.Job{}, err
	}
	return j.Job, nil
}

// list returns all jobs, the newest first.
func (js *jobs) list() []api.Job {
	js.mu.Lock()
	defer js.mu.Unlock()
	js.forget()
	out := make([]api.Job, 0, len(js.all))
	for _, j := range slices.Backward(js.all) {
		out = append(out, j.Job)
	}
	return out
}

// stop cancels a job. One that runs ends as soon as it can.
func (js *jobs) stop(id string) (api.Job, error) {
	js.mu.Lock()
	defer js.mu.Unlock()
	j, err := js.find(id)
	if err != nil {
		return api.Job{}, err
	}
	if err := js.halt(j); err != nil {
		js.log.Error("a job could not be cancelled", "job", j.ID, "err", err)
		return api.Job{}, busyf(http.StatusServiceUnavailable, 5*time.Second, "the server cannot write to its state folder, and the job waits still: cancel it again later")
	}
	return j.Job, nil
}

// halt cancels a job, with the lock held. One that waits does so still where that cannot be written.
func (js *jobs) halt(j *job) error {
	switch j.State {
	case api.JobQueued:
		if err := js.over(j, api.JobCancelled, ""); err != nil {
			return err
		}
		js.queue = slices.DeleteFunc(js.queue, func(q *job) bool { return q == j })
	case api.JobRunning:
		j.wanted = true
		j.cancel()
	}
	return nil
}

// resultOf returns what came out of a job.
func (js *jobs) resultOf(id string) (json.RawMessage, error) {
	js.mu.Lock()
	defer js.mu.Unlock()
	j, err := js.find(id)
	switch {
	case err != nil:
		return nil, err
	case j.State == api.JobSucceeded:
		return j.result, nil
	case j.Error != "":
		return nil, failf(http.StatusConflict, "the job is %s: %s", j.State, j.Error)
	}
	return nil, failf(http.StatusConflict, "the job is %s and has no result", j.State)
}

// stopWait is the time that the end waits for jobs that were cancelled: a run ends 2 s after that.
const stopWait = 3 * time.Second

// close takes no more jobs and waits for those that run; those that run when ctx ends are
// interrupted. Those that wait stay in the state folder, and without one are cancelled. One that
// cannot be stopped, because its input is being made or its result checked, is left behind after a
// while, which is an error.
func (js *jobs) close(ctx context.Context, wait time.Duration) error {
	js.mu.Lock()
	js.closed = true
	if js.later != nil {
		js.later.Stop()
	}
	var err error
	if js.state == nil {
		for _, j := range slices.Clone(js.queue) {
			err = errors.Join(err, js.halt(j))
		}
	}
	for _, j := range js.queue { // they stay in the state folder
		j.leave()
	}
	js.mu.Unlock()
	return errors.Join(err, js.wait(ctx, wait), js.release())
}

// wait waits for jobs that run.
func (js *jobs) wait(ctx context.Context, wait time.Duration) error {
	ended := make(chan struct{})
	go func() {
		js.tasks.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	js.mu.Lock()
	for _, j := range js.all {
		if j.State == api.JobRunning {
			j.cut = true
			j.cancel()
		}
	}
	js.mu.Unlock()
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-ended:
		return nil
	case <-t.C:
		return errors.New("a job could not be stopped in time")
	}
}
