package weft

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/weft-run/weft/internal/checkpoint"
	"github.com/weft-run/weft/internal/checkpoint/disk"
	"github.com/weft-run/weft/internal/text"
)

// Errors about checkpoints, for errors.Is.
var (
	// ErrCheckpoint is wrapped by every error about checkpoints.
	ErrCheckpoint = errors.New("checkpoint")
	// ErrNoCheckpoint says that there is nothing to resume.
	ErrNoCheckpoint = errors.New("nothing to resume")
	// ErrHasCheckpoint says that a folder has a checkpoint, which was not to be resumed.
	ErrHasCheckpoint = errors.New("it has a checkpoint")
	// ErrOtherCheckpoint says that a checkpoint is of another computation than the one
	// that would resume it.
	ErrOtherCheckpoint = errors.New("the checkpoint is of another computation")
)

// Checkpoint says where and how often the state of long computations is kept: that of
// [Runtime.Steps], and of a graph that [Runtime.RunStages] runs. A process that is killed at
// any moment leaves whole checkpoints, and one that resumes gives the result of one that was
// never killed.
//
// A checkpoint is taken between two steps or stages, when Every has passed or
// [Runtime.Checkpoint] asked for it. The computation waits while the state is copied in
// memory, which takes as much memory again, and twice as much of resident data that devices in
// worker processes write, as it does when a computation is resumed; it goes on while that is written. Of the state
// the parts are written that changed since the checkpoint before. A checkpoint that cannot
// be written, as on a full disk, is logged and told to Saved; the newest that there is stays,
// the computation goes on, and it is tried again when Every has passed.
//
// The last checkpoint of a computation that was finished is written after it has returned, and
// Close waits for it. One whose context ended returns when its last checkpoint is written.
//
// The folder holds the last two checkpoints of each computation, by its name, and while one
// is written a third. One process uses a folder at a time: Open errs in another.
type Checkpoint struct {
	// Dir is the folder, which is made if there is none. Empty keeps nothing.
	Dir string
	// Every is the least time between two checkpoints (10 s); -1 takes them only when
	// [Runtime.Checkpoint] asks and at the end.
	Every time.Duration
	// Resume goes on from the checkpoints in Dir, and Open errs if there are none. Without
	// it Dir must hold none, so that a computation of hours is not overwritten by mistake.
	// A computation that is not among them begins at its start: a program with several goes
	// on with the one it was killed in. One that is damaged is logged, with the reason, and
	// the one before is used.
	Resume bool
	// ResumeIfAny resumes what there is and begins where there is nothing: for a program that
	// is started by the same command each time, as by a service manager.
	ResumeIfAny bool
	// Saved, when set, is told of every checkpoint that was written or could not be, and of
	// those that were resumed. It must not use the runtime, which may wait for it.
	Saved func(Saved)
}

// Saved tells of a checkpoint.
type Saved struct {
	Name        string // of the computation
	Done, Total int    // steps, or tasks of a graph
	Finished    bool   // nothing is left to do
	Resumed     bool   // it was read and not written
	State       int64  // bytes of the state
	Bytes       int64  // written for it
	// Held is the time that the computation waited for copies of its state since the previous
	// checkpoint. Took is the time from the beginning of this one until it was on the disk.
	Held, Took time.Duration
	// Err is why it was not written, and Refused why others before it were not read.
	Err     error
	Refused []error
}

// Keep names a computation whose state is kept.
type Keep struct {
	// Name identifies the computation in the folder. It has letters, digits, '.', '-' and '_', and
	// no two computations of a runtime have the same.
	Name string
	// Params are the settings that the result depends on besides the state, as UTF-8. A checkpoint
	// with other parameters is not resumed: the error says which differ. RunStages adds "graph" and, for
	// each input, "input" with a space and its name.
	Params map[string]string
}

// everyDefault is the time between checkpoints when none is stated.
const everyDefault = 10 * time.Second

// keeps is the folder of checkpoints of a runtime.
type keeps struct {
	o      Checkpoint
	unlock func()

	mu     sync.Mutex      // guards the fields below
	used   map[string]bool // names taken: true while the computation runs or its checkpoints are removed, false once it has ended
	active []*saver        // of computations that have not ended or whose last checkpoint is not written
	closed bool
}

// openKeeps takes the folder for this process. It returns nil if there is none to take.
func openKeeps(o Checkpoint) (*keeps, error) {
	if o.Dir == "" {
		if o.Resume {
			return nil, fmt.Errorf("%w: Checkpoint: no folder is named; set Dir", ErrOptions)
		}
		return nil, nil
	}
	if o.Every < -1 {
		return nil, fmt.Errorf("%w: Checkpoint: every %v; use a time, or -1 for checkpoints on demand only", ErrOptions, o.Every)
	}
	if o.Resume && o.ResumeIfAny {
		return nil, fmt.Errorf("%w: Checkpoint: Resume errs where there is nothing to resume, and ResumeIfAny begins; set one of them", ErrOptions)
	}
	if info, err := os.Stat(o.Dir); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("%w: Checkpoint: %s is no folder", ErrOptions, o.Dir)
	}
	o.Every = cmp.Or(o.Every, everyDefault)
	unlock, err := disk.Lock(o.Dir, !o.Resume)
	if o.Resume && errors.Is(err, fs.ErrNotExist) {
		return nil, errNoFolder(o.Dir)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	k := &keeps{o: o, unlock: unlock, used: make(map[string]bool)}
	if err := k.look(); err != nil {
		unlock()
		return nil, fmt.Errorf("%w: %s: %w", ErrCheckpoint, o.Dir, err)
	}
	return k, nil
}

func errNoFolder(dir string) error {
	return fmt.Errorf("%w: %s: %w: there is no such folder", ErrCheckpoint, dir, ErrNoCheckpoint)
}

// resumes reports whether checkpoints that are there are resumed.
func (k *keeps) resumes() bool { return k.o.Resume || k.o.ResumeIfAny }

// unitOf returns what a checkpoint counts: "task" for a graph, otherwise "step".
func unitOf(m *checkpoint.Manifest) string {
	if slices.ContainsFunc(m.Params, func(p checkpoint.Param) bool { return p.Key == graphParam }) {
		return "task"
	}
	return "step"
}

// look errs if the folder has checkpoints that are not to be resumed, or none to be resumed.
func (k *keeps) look() error {
	names, err := disk.Folders(k.o.Dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		f, err := disk.Open(k.o.Dir, name, false)
		if err != nil {
			return err
		}
		found, refused, err := checkpoint.Manifests(f)
		_ = f.Close() // nothing was written
		switch {
		case err != nil:
			return err
		case k.resumes() && len(found)+len(refused) > 0:
			return nil
		case len(found) > 0:
			m := found[0]
			return fmt.Errorf("%w of %q, %d of %s; remove it or name another folder to begin anew, or resume it", ErrHasCheckpoint, m.Name, m.Done, text.Count(m.Total, unitOf(m)))
		case len(refused) > 0:
			return fmt.Errorf("it has checkpoints of %q that cannot be read: %w; remove them or name another folder", name, refused[0])
		}
	}
	if k.o.Resume {
		return ErrNoCheckpoint
	}
	return nil
}

// close waits for the last checkpoints of computations that have ended, as long as ctx lasts, and gives
// the folder back, once nothing is kept there any more.
func (k *keeps) close(ctx context.Context) error {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	if !k.closed && len(k.active) == 0 {
		k.unlock()
	}
	k.closed = true
	var over []chan struct{}
	for _, s := range k.active {
		if s.ending {
			over = append(over, s.over)
		}
	}
	k.mu.Unlock()
	for _, o := range over {
		select {
		case <-o:
		case <-ctx.Done():
			return fmt.Errorf("%w: the last one is not on the disk yet: %w", ErrCheckpoint, context.Cause(ctx))
		}
	}
	return nil
}

// validName errs if a computation cannot have the name, which is that of a folder.
func validName(name string) error {
	if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != "" || strings.Trim(name, ".") == "" || len(name) > 100 {
		return fmt.Errorf("%w: the name %q of a computation; use letters, digits, '.', '-' and '_', 100 at most", ErrCheckpoint, name)
	}
	if strings.EqualFold(name, disk.LockName) { // for some systems it is the same
		return fmt.Errorf("%w: the name %q is reserved for a file of the folder; choose another name", ErrCheckpoint, name)
	}
	return nil
}

// begin takes a name for a computation and opens its folder.
func (k *keeps) begin(name string) (*disk.Folder, error) {
	if err := validName(name); err != nil {
		return nil, err
	}
	k.mu.Lock()
	_, used := k.used[name]
	if !used {
		k.used[name] = true
	}
	k.mu.Unlock()
	if used {
		return nil, fmt.Errorf("%w: %q is kept twice by this runtime; give each computation its own name", ErrCheckpoint, name)
	}
	f, err := disk.Open(k.o.Dir, name, true)
	if err != nil {
		k.free(name)
		return nil, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	return f, nil
}

// free gives back the name of a computation that was refused before it began, or whose checkpoints are removed.
func (k *keeps) free(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.used, name)
}

// enter and leave note which savers are active.
func (k *keeps) enter(s *saver) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return ErrClosed
	}
	k.active = append(k.active, s)
	return nil
}

func (k *keeps) leave(s *saver) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s.began {
		k.used[s.meta.Name] = false
	} else {
		delete(k.used, s.meta.Name)
	}
	k.active = slices.DeleteFunc(k.active, func(o *saver) bool { return o == s })
	if k.closed && len(k.active) == 0 {
		k.unlock()
	}
}

// Checkpoint has every computation that is kept take a checkpoint when its step or stage
// under way has ended, and waits until these, and the last ones of computations that have
// ended, are on the disk. It errs if nothing is kept at the time, and returns why a
// checkpoint could not be written. A step must not call it: it would wait for itself.
func (r *Runtime) Checkpoint(ctx context.Context) error {
	need("Checkpoint", ctx, true)
	if r == nil {
		return errNoRuntime
	}
	var answers []chan error
	if r.keeps != nil {
		r.keeps.mu.Lock()
		for _, s := range r.keeps.active {
			if s.ending {
				answer := make(chan error, 1)
				answers = append(answers, answer)
				go func() {
					<-s.over
					answer <- s.failed
				}()
				continue
			}
			answers = append(answers, s.ask())
		}
		r.keeps.mu.Unlock()
	}
	if len(answers) == 0 {
		return fmt.Errorf("%w: no computation is kept now; Options.Checkpoint, Steps and RunStages keep one", ErrCheckpoint)
	}
	return block(ctx, func() error {
		var errs []error
		for _, a := range answers {
			select {
			case err := <-a:
				errs = append(errs, err)
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return errors.Join(errs...)
	})
}

// Forget removes the checkpoints of a computation that has ended, in this process or an earlier one, once its last is written,
// and lets another have its name. Others go on as they are. It errs while the computation itself goes on; that there is none
// of the name is no error.
func (r *Runtime) Forget(ctx context.Context, name string) error {
	need("Forget", ctx, true)
	if r == nil {
		return errNoRuntime
	}
	if r.keeps == nil {
		return nil
	}
	if err := validName(name); err != nil {
		return err
	}
	return block(ctx, func() error { return r.keeps.forget(ctx, name) })
}

// forget removes the checkpoints of a computation and frees its name.
func (k *keeps) forget(ctx context.Context, name string) error {
	k.mu.Lock()
	for _, s := range k.active {
		if s.meta.Name != name || !s.ending {
			continue
		}
		k.mu.Unlock()
		select {
		case <-s.over:
		case <-ctx.Done():
			return fmt.Errorf("%w: %s: the last one is not on the disk yet: %w", ErrCheckpoint, name, context.Cause(ctx))
		}
		k.mu.Lock()
		break
	}
	closed, used := k.closed, k.used[name]
	if !closed && !used {
		k.used[name] = true
	}
	k.mu.Unlock()
	switch {
	case closed: // another process may have the folder
		return ErrClosed
	case used:
		return fmt.Errorf("%w: %q goes on; end it before its checkpoints are removed", ErrCheckpoint, name)
	}
	defer k.free(name)
	if err := disk.Remove(k.o.Dir, name); err != nil {
		return fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	return nil
}

// Kept returns all parameters of the newest checkpoint of a computation that is to be
// resumed, false if there is none: those that were given and those that RunStages adds. A
// program that chooses something by chance or by measurement, such as how work is cut, keeps
// it there and takes it from there. It errs if a parameter that is given is another one in
// the checkpoint.
func (r *Runtime) Kept(keep Keep) (params map[string]string, ok bool, err error) {
	if r == nil {
		return nil, false, errNoRuntime
	}
	if r.keeps == nil || !r.keeps.resumes() {
		return nil, false, nil
	}
	if err := validName(keep.Name); err != nil {
		return nil, false, err
	}
	f, err := disk.Open(r.keeps.o.Dir, keep.Name, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	defer f.Close()
	found, _, err := checkpoint.Manifests(f)
	if err != nil {
		return nil, false, fmt.Errorf("%w: %s: %w", ErrCheckpoint, keep.Name, err)
	}
	if len(found) == 0 {
		return nil, false, nil // what was refused is told when it is resumed
	}
	params = make(map[string]string)
	var have []checkpoint.Param // of those that are given
	for _, p := range found[0].Params {
		params[p.Key] = p.Value
		if _, given := keep.Params[p.Key]; given {
			have = append(have, p)
		}
	}
	if why := checkpoint.Differ(checkpoint.Meta{Params: have}, checkpoint.Meta{Params: paramsOf(keep.Params)}); why != "" {
		return nil, false, fmt.Errorf("%w: %w: %s", ErrCheckpoint, ErrOtherCheckpoint, why)
	}
	return params, true, nil
}

// paramsOf sorts parameters.
func paramsOf(m map[string]string) (out []checkpoint.Param) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out = append(out, checkpoint.Param{Key: key, Value: m[key]})
	}
	return out
}

// recognisable errs if what a checkpoint must agree on would not be read back as it is.
func recognisable(meta checkpoint.Meta, sizes map[string]int64) error {
	keys := make(map[string]bool)
	for _, p := range meta.Params {
		if !utf8.ValidString(p.Key) || !utf8.ValidString(p.Value) {
			return fmt.Errorf("%w: parameter %q is %q, which is not UTF-8; write its bytes as text, such as %x", ErrCheckpoint, p.Key, p.Value, p.Value)
		}
		if keys[p.Key] {
			return fmt.Errorf("%w: parameter %q is one that RunStages adds itself; give yours another name", ErrCheckpoint, p.Key)
		}
		keys[p.Key] = true
	}
	for name := range sizes {
		if !utf8.ValidString(name) {
			return fmt.Errorf("%w: the name %q of data is not UTF-8; give it another", ErrCheckpoint, name)
		}
	}
	return nil
}

// folderName returns a name that no other folder has.
func folderName() string {
	b := make([]byte, 12)
	_, _ = rand.Read(b) // which does not fail
	return hex.EncodeToString(b)
}

// CheckpointInfo describes a checkpoint of one computation in a folder.
type CheckpointInfo struct {
	Name        string            `json:"name"`
	File        string            `json:"file"`
	Params      map[string]string `json:"params,omitempty"`
	Done        int               `json:"done"`
	Total       int               `json:"total"`
	Finished    bool              `json:"finished"`
	Time        time.Time         `json:"time"`
	State       int64             `json:"state_bytes"`
	Data        map[string]int64  `json:"data,omitempty"` // bytes of each, by name
	Damaged     string            `json:"damaged,omitempty"`
	damagedWith error
}

// Err is why the checkpoint cannot be used, nil if it can.
func (c *CheckpointInfo) Err() error { return c.damagedWith }

// ReadCheckpoints tells what checkpoints a folder has, the newest of each computation
// first, and reads all of their data to see whether it is whole. Another process may be
// using the folder: a checkpoint that it replaces meanwhile is told as damaged.
func ReadCheckpoints(dir string) ([]CheckpointInfo, error) {
	names, err := disk.Folders(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoFolder(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	var out []CheckpointInfo
	for _, name := range names {
		f, err := disk.Open(dir, name, false)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCheckpoint, err)
		}
		infos, err := readFolder(f, name)
		_ = f.Close() // nothing was written
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrCheckpoint, name, err)
		}
		out = append(out, infos...)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: %s: %w", ErrCheckpoint, dir, ErrNoCheckpoint)
	}
	return out, nil
}

func readFolder(f *disk.Folder, name string) (out []CheckpointInfo, err error) {
	found, refused, err := checkpoint.Manifests(f)
	if err != nil {
		return nil, err
	}
	for _, m := range found {
		c := CheckpointInfo{
			Name: m.Name, File: filepath.Join(name, m.File()), Params: make(map[string]string), Done: int(m.Done), Total: int(m.Total), Finished: m.Finished,
			Time: time.Unix(0, m.Unix), State: m.Live(), Data: make(map[string]int64),
		}
		for _, p := range m.Params {
			c.Params[p.Key] = p.Value
		}
		for _, d := range m.Data {
			c.Data[d.Name] = d.Bytes
		}
		if err := checkpoint.Load(f, m, func(*checkpoint.Data) []byte { return nil }); err != nil {
			c.Damaged, c.damagedWith = err.Error(), err
		}
		out = append(out, c)
	}
	for _, r := range refused {
		out = append(out, CheckpointInfo{Name: name, File: filepath.Join(name, r.File), Damaged: r.Err.Error(), damagedWith: r.Err})
	}
	return out, nil
}
