package serve

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/internal/safefile"
)

// Jobs on disk. Each has a file of its own in the state folder, job-ID: a line with a magic word and
// the SHA-256 of what follows, and a record in JSON. A file is replaced as a whole, before anybody is
// told of the change; so whatever moment the server ends at, every job is there as it was told last,
// or one step further. A job is marked as running before it starts, and one that is so marked is
// started again only to go on from a checkpoint that has more of it than the one before, as jobkept.go says, and is
// interrupted otherwise: a job that brings the server down comes nearer to its end each time.
//
// Where a file cannot be written, as on a full disk, the change does not happen: no job is taken, one
// that waits cannot be cancelled, and none begins until it can be marked. The end of a job that runs
// happens all the same, and is the one thing that is told and may not be kept: its error says so and
// the log does. Until the server ends the job is as it was told, and the next one, which finds it marked
// as running, has it interrupted.
//
// Files are written in the folder that was opened, wherever it is meanwhile, and while the lock in it is
// this server's. A folder that was removed is not made again, for another server might take it.

// maxRecord is the most bytes of a job's file: a request has its parameters, of at most parameterBytes, and a structure
// of at most structureBytes, in base64, until it has ended, and a result the times of at most maxRepeat runs.
const maxRecord = 16 << 20

// maxRemembered is the most files that are read.
const maxRemembered = 1 << 18

// recordMagic begins the file of a job.
const recordMagic = "weft-job-1 "

// jobID is the form of the names of jobs, and of the part of a file's name after "job-".
var jobID = regexp.MustCompile(`^[a-z2-7]{26}$`)

// record is a job as its file has it.
type record struct {
	ID       string          `json:"id"`
	Number   uint64          `json:"number"`
	State    string          `json:"state"`
	Error    string          `json:"error,omitempty"`
	Created  time.Time       `json:"created"`
	Started  *time.Time      `json:"started,omitempty"`
	Ended    *time.Time      `json:"ended,omitempty"`
	Progress api.JobProgress `json:"progress"`
	Resumed  *api.JobResumed `json:"resumed,omitempty"`
	Key      []byte          `json:"key,omitempty"` // of any bytes, as Hash
	Hash     []byte          `json:"hash"`
	Request  json.RawMessage `json:"request"`
	// Structure is the text of the structure that came with the request, of any bytes, until the job has ended.
	Structure      []byte          `json:"structure,omitempty"`
	StructureBytes int             `json:"structure_bytes,omitempty"`
	Result         json.RawMessage `json:"result,omitempty"`
}

// encodeJob makes the file of a job.
func encodeJob(j *job) ([]byte, error) {
	request, err := json.Marshal(j.JobRequest)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(record{
		ID: j.ID, Number: j.number, State: j.State, Error: j.Error, Created: j.Created, Started: j.Started, Ended: j.Ended,
		Progress: j.Progress, Resumed: j.Resumed, Key: []byte(j.key), Hash: j.hash[:], Request: request, Result: j.result,
		Structure: []byte(j.structure), StructureBytes: j.StructureBytes,
	})
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	out := append(append([]byte(recordMagic), hex.EncodeToString(sum[:])...), '\n')
	if out = append(out, body...); len(out) > maxRecord {
		return nil, fmt.Errorf("the record of the job has %d bytes, and %d are the most", len(out), maxRecord)
	}
	return out, nil
}

// decodeJob reads the file of a job that is called id. Anybody may have written it: what it returns
// is a job that the server could have had.
func decodeJob(id string, file []byte) (*job, error) {
	head, body, ok := bytes.Cut(file, []byte("\n"))
	sum, magic := bytes.CutPrefix(head, []byte(recordMagic))
	if !ok || !magic {
		return nil, errors.New("it is not the file of a job")
	}
	if want := sha256.Sum256(body); hex.EncodeToString(want[:]) != string(sum) {
		return nil, errors.New("its checksum is wrong: it is damaged, or not all there")
	}
	var r record
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("something follows the record")
	}
	q, err := readJob(r.Request)
	if err != nil {
		return nil, fmt.Errorf("its request: %w", err)
	}
	if q.StructureText != "" || len(r.Structure) > structureBytes {
		return nil, errors.New("its structure is not one that is kept")
	}
	if len(r.Hash) != sha256.Size {
		return nil, errors.New("its hash is none")
	}
	j := &job{key: string(r.Key), hash: [sha256.Size]byte(r.Hash), number: r.Number, result: r.Result, size: int64(len(file)), structure: string(r.Structure)}
	j.Job = api.Job{ID: r.ID, JobRequest: q, State: r.State, Error: r.Error, Created: r.Created, Started: r.Started, Ended: r.Ended, Progress: r.Progress, Resumed: r.Resumed, StructureBytes: r.StructureBytes}
	return j, possible(j, id)
}

// possible errs at a job that the server cannot have written.
func possible(j *job, id string) error {
	var may [2]bool // be so without having started, and with
	switch j.State {
	case api.JobQueued:
		may[0] = true
	case api.JobRunning, api.JobSucceeded, api.JobInterrupted:
		may[1] = true
	case api.JobFailed, api.JobCancelled:
		may = [2]bool{true, true}
	}
	begun := 0
	if j.Started != nil {
		begun = 1
	}
	switch {
	case j.ID != id || !jobID.MatchString(id):
		return fmt.Errorf("it is of job %s", quoted(j.ID))
	case may == [2]bool{}:
		return fmt.Errorf("no job is %s", quoted(j.State))
	case !may[begun] || j.Over() != (j.Ended != nil):
		return fmt.Errorf("its times are not those of a job that is %s", j.State)
	case (j.State == api.JobSucceeded) != (j.result != nil):
		return fmt.Errorf("a job that is %s with a result, or one that succeeded without", j.State)
	case j.Resumed != nil && (j.Resumed.From < 1 || j.Resumed.From > j.Resumed.Of):
		return errors.New("it went on from a checkpoint that there cannot be")
	case j.Over() && j.structure != "" || !j.Over() && len(j.structure) != j.StructureBytes:
		return errors.New("its structure has another size, or is there after its end")
	case j.number > math.MaxInt64:
		return errors.New("its number is too large")
	}
	if j.result == nil {
		return nil
	}
	var res api.JobResult
	d := json.NewDecoder(bytes.NewReader(j.result))
	d.DisallowUnknownFields()
	if err := d.Decode(&res); err != nil {
		return fmt.Errorf("its result: %w", err)
	}
	if res.ID != j.ID {
		return fmt.Errorf("its result is of job %s", quoted(res.ID))
	}
	return nil
}

// state is the folder that jobs are kept in.
type state struct {
	dir  *os.Root
	lock io.Closer
	held fs.FileInfo // the file of the lock
}

// openState takes a folder for this server alone, and makes it if there is none.
func openState(dir string) (*state, error) {
	if err := safefile.MakeFolder(dir); err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	if err := safefile.Trusted(dir); err != nil {
		return nil, fmt.Errorf("state: %w; choose a folder that nobody else can write to", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	lock, err := safefile.Lock(filepath.Join(dir, lockFile))
	if errors.Is(err, safefile.ErrLocked) {
		err = fmt.Errorf("%s belongs to another server that runs; choose another folder, or end that one", dir)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("state: %w", err), root.Close())
	}
	s := &state{dir: root, lock: lock}
	if s.held, err = root.Lstat(lockFile); err != nil {
		return nil, errors.Join(fmt.Errorf("state: %w", err), s.close())
	}
	return s, nil
}

// lockFile is the name of the file in the folder that the server holds.
const lockFile = "lock"

// fileOf is the name of a job's file.
func fileOf(id string) string { return "job-" + id }

// mine errs if the folder is this server's no more.
func (s *state) mine() error {
	now, err := s.dir.Lstat(lockFile)
	if err != nil {
		return fmt.Errorf("the lock of the state folder %s: %w", s.dir.Name(), err)
	}
	if !os.SameFile(now, s.held) {
		return fmt.Errorf("the lock of the state folder %s was exchanged, and another server may have it", s.dir.Name())
	}
	return nil
}

// write puts the file of a job on the disk.
func (s *state) write(id string, b []byte) error {
	if err := s.mine(); err != nil {
		return err
	}
	return safefile.WriteDurable(s.dir, fileOf(id), b)
}

// remove removes the file of a job, where there is one.
func (s *state) remove(id string) error {
	if err := s.mine(); err != nil {
		return err
	}
	if err := s.dir.Remove(fileOf(id)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// close lets others have the folder. Nothing is written after it.
func (s *state) close() error { return errors.Join(s.dir.Close(), s.lock.Close()) }

// load returns the jobs in the folder, the oldest first. Files that are no jobs are left alone and
// logged; those that a write left behind go.
func (s *state) load(log *slog.Logger) ([]*job, error) {
	f, err := s.dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(maxRemembered)
	if err != nil && err != io.EOF {
		return nil, err
	}
	var out []*job
	for _, e := range entries {
		id, ok := strings.CutPrefix(e.Name(), "job-")
		switch {
		case e.Name() == lockFile, e.Name() == checkpointsFolder && e.IsDir():
			continue
		case ok && strings.HasSuffix(id, ".tmp") && e.Type().IsRegular():
			_ = s.dir.Remove(e.Name()) // a server was killed while it wrote it
			continue
		case !ok || !jobID.MatchString(id):
			log.Warn("a file of the state folder is skipped", "file", short(e.Name()), "err", "its name is not that of a job's file")
			continue
		}
		b, err := safefile.ReadOwn(filepath.Join(s.dir.Name(), e.Name()), maxRecord)
		var j *job
		if err == nil {
			j, err = decodeJob(id, b)
		}
		if err != nil {
			log.Warn("a file of the state folder is skipped", "file", e.Name(), "err", err)
			continue
		}
		out = append(out, j)
	}
	slices.SortFunc(out, func(a, b *job) int { return cmp.Or(cmp.Compare(a.number, b.number), strings.Compare(a.ID, b.ID)) })
	return out, nil
}

// leftOff is why a job that ran has no result.
const leftOff = "the server ended while the job ran; submit it again"

// restore takes a state folder and the jobs in it: those that have ended are as they were, those that
// waited wait again, and those that ran go on from a checkpoint or are interrupted. plan makes what runs one. None is
// started before resume.
func (js *jobs) restore(dir string, plan func(*api.JobRequest) (task, error)) error {
	st, err := openState(dir)
	if err != nil {
		return err
	}
	found, err := st.load(js.log)
	if err != nil {
		return errors.Join(fmt.Errorf("state: %w", err), st.close())
	}
	js.mu.Lock()
	defer js.mu.Unlock()
	js.state, js.closed = st, true
	for _, j := range found {
		js.all, js.number = append(js.all, j), max(js.number, j.number)
		switch j.State {
		case api.JobRunning:
			if js.goOn(j, plan) {
				js.queue = append(js.queue, j)
			} else {
				js.ran(j, api.JobInterrupted, leftOff)
			}
		case api.JobQueued:
			if j.run, err = plan(j.asked()); err != nil {
				err = fmt.Errorf("after the server was started again: %w", err)
				if js.over(j, api.JobFailed, err.Error()) == nil {
					continue
				}
				j.run = func(context.Context, func(api.JobProgress)) (*api.JobResult, error) { return nil, err } // once it can be written
			}
			js.queue = append(js.queue, j)
		}
	}
	js.forget()
	js.kept.sweep(js.all)
	if len(js.all) > 0 {
		js.log.Info("jobs of before are here again", "jobs", len(js.all), "waiting", len(js.queue))
	}
	return nil
}

// resume starts jobs that were restored.
func (js *jobs) resume() {
	js.mu.Lock()
	defer js.mu.Unlock()
	js.closed = false
	js.next()
}

// release begins no more jobs and lets others have the state folder. Nothing is written after it, so
// that nothing is told of jobs that wait there either.
func (js *jobs) release() error {
	js.mu.Lock()
	defer js.mu.Unlock()
	js.closed = true
	if js.state == nil || js.released {
		return nil
	}
	js.released = true
	return js.state.close()
}

// keep writes a job to its file as it is now, with the lock held.
func (js *jobs) keep(j *job) error {
	b, err := encodeJob(j)
	if err != nil {
		return err
	}
	if j.size = int64(len(b)); js.state == nil {
		return nil
	}
	return js.state.write(j.ID, b)
}

// drop removes the file of a job, with the lock held.
func (js *jobs) drop(j *job) {
	if js.state == nil {
		return
	}
	if err := js.state.remove(j.ID); err != nil {
		js.log.Error("the file of a job that is forgotten could not be removed", "job", j.ID, "err", err)
	}
}
