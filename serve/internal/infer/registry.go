package infer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/model"
	"github.com/weft-run/weft/serve/internal/batch"
	"github.com/weft-run/weft/workload/reservoir"
)

// version is a version of a model. Its state, reason, devices, expected, pending, retired and
// what counts points to are guarded by Service.mu; the rest does not change once it is served.
type version struct {
	runner
	name, number    string
	config          *config
	inputs, outputs []Spec
	batched         bool // the first dimension is the batch
	most            int  // examples of a batch
	spreads         bool // it is put on each device; otherwise the runtime chooses where it runs
	devices         []*device
	expected        bool // no device in service has it and one will: requests wait
	noPlace         bool // it failed for want of a device
	mod             *batch.Model
	state           State
	reason          string
	bytes           int64
	pending         int // requests and batches under way
	retired         bool
	idle            chan struct{} // closed when it is retired and nothing is under way
	gone            chan struct{} // closed when its memory is given up
	counts          *Stats        // goes on when the version is replaced
	fails           int           // batches that failed and requests that expired since its last answer
	failing         string        // why it is failing; "" if it is not
	stopTrying      func()        // ends the attempts to compute it on its devices; nil if there are none
}

// Names returns the names of the models in a folder, or of the one that is made where there
// is none.
func Names(folder string) (names []string, err error) {
	if folder == "" {
		return []string{builtinName}, nil
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("models: %w", err)
	}
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(folder, e.Name()))
		if err == nil && info.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// folders returns the folder of each version of a model.
func (s *Service) folders(name string) (map[string]string, error) {
	if name == "" || name[0] == '.' || strings.ContainsAny(name, `/\`+"\x00") {
		return nil, fmt.Errorf("%w: %q is no name of a model", ErrNotFound, name)
	}
	if s.o.Folder == "" {
		if name != builtinName {
			return nil, fmt.Errorf("%w: %q: there is no folder with models", ErrNotFound, name)
		}
		return map[string]string{"1": ""}, nil
	}
	folder := filepath.Join(s.o.Folder, name)
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, fmt.Errorf("%w: %q has no folder", ErrNotFound, name)
	}
	if err != nil {
		return nil, err
	}
	found := make(map[string]string)
	plain := false
	for _, e := range entries {
		n, err := strconv.ParseUint(e.Name(), 10, 32)
		switch {
		case e.Name() == configFile:
			plain = true
		case err == nil && e.IsDir() && n > 0 && strconv.FormatUint(n, 10) == e.Name():
			found[e.Name()] = filepath.Join(folder, e.Name())
		}
	}
	switch {
	case plain && len(found) > 0:
		return nil, fmt.Errorf("%s has a %s and folders of versions: have one or the other", folder, configFile)
	case plain:
		found["1"] = folder
	case len(found) == 0:
		return nil, fmt.Errorf("%s has neither a %s nor folders of versions, as %s", folder, configFile, filepath.Join("1", configFile))
	}
	return found, nil
}

// Load reads a model from its folder, all versions of it, or reads it again: each version
// is replaced when the new one is ready, and requests under way end on the old one. If a
// version fails to load, the old one stays.
func (s *Service) Load(ctx context.Context, name string) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	defer func() { <-s.loads }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.open, cancel)()
	folders, err := s.folders(name)
	if err != nil {
		if !errors.Is(err, ErrNotFound) {
			s.mu.Lock()
			s.failed(name, "1", err)
			s.mu.Unlock()
		}
		return err
	}
	var errs []error
	for _, number := range slices.SortedFunc(maps.Keys(folders), byNumber) {
		if err := s.loadVersion(ctx, name, number, folders[number]); err != nil {
			errs = append(errs, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for number, v := range s.models[name] {
		if folders[number] == "" && s.o.Folder != "" {
			s.retire(v)
		}
	}
	return inOneLine(errs)
}

// take waits for the turn of a load or an unloading: one at a time.
func (s *Service) take(ctx context.Context) error {
	if s.open.Err() == nil {
		select {
		case s.loads <- struct{}{}:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.open.Done():
		}
	}
	return fmt.Errorf("%w: the service is closing", ErrUnavailable)
}

// inOneLine joins errors as [errors.Join] does, in one line.
func inOneLine(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	all := make([]any, len(errs))
	for i, err := range errs {
		all[i] = err
	}
	return fmt.Errorf(strings.TrimPrefix(strings.Repeat("; %w", len(errs)), "; "), all...)
}

// loadVersion makes a version ready and puts it in the place of the one there is.
func (s *Service) loadVersion(ctx context.Context, name, number, folder string) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return fmt.Errorf("%w: the service is closing", ErrUnavailable)
	}
	if v := s.models[name][number]; v == nil || v.state == Failed {
		s.add(&version{name: name, number: number, state: Loading, config: &config{}})
	}
	s.mu.Unlock()

	v, err := s.make(ctx, name, number, folder)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.making = nil
	if err == nil && s.closed {
		err = fmt.Errorf("%w: the service is closing", ErrUnavailable)
		s.undo(v)
	}
	if err != nil {
		err = fmt.Errorf("model %s: %w", name, err)
		s.failed(name, number, err)
		return err
	}
	old := s.models[name][number]
	v.counts = s.countsOf(name, number)
	if old != nil && old.state == Ready {
		s.retire(old)
	}
	v.state = Ready
	s.add(v)
	s.expect() // where its devices have gone meanwhile
	s.o.Log.Info("a model is ready", "model", name, "version", number, "devices", deviceNames(v.devices))
	return nil
}

// add makes a version the one of its number. s.mu is held.
func (s *Service) add(v *version) {
	if s.models[v.name] == nil {
		s.models[v.name] = make(map[string]*version)
	}
	s.models[v.name][v.number] = v
}

// failed notes why a version is not there, unless an older one of its number still is.
func (s *Service) failed(name, number string, err error) {
	if v := s.models[name][number]; v != nil && v.state == Ready {
		return
	}
	s.add(&version{name: name, number: number, state: Failed, reason: err.Error(), noPlace: errors.Is(err, errNoPlace), config: &config{}})
}

// make reads a version, puts its weights on devices and warms it up.
func (s *Service) make(ctx context.Context, name, number, folder string) (v *version, err error) {
	v = &version{name: name, number: number, idle: make(chan struct{}), gone: make(chan struct{})}
	if err := s.read(ctx, v, folder); err != nil {
		return nil, err
	}
	v.mod = &batch.Model{Owner: v, MaxBatch: v.most, MaxWaiting: v.config.Waiting, MaxWait: cmp.Or(v.config.MaxWait, s.o.MaxWait)}
	s.mu.Lock()
	s.m.AddModel(v.mod, batch.Cost{})
	s.making = v
	s.mu.Unlock()
	if v.spreads {
		err = s.spread(ctx, v)
	} else {
		err = s.settle(ctx, v, s.any)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(v.devices) > 0:
		if err != nil {
			s.o.Log.Warn("a device does not serve a model", "model", v.name, "err", err)
		}
		return v, nil
	case err == nil: // none was tried, or those it was on have gone
		err = errNoPlace
	case v.spreads && slices.ContainsFunc(s.devices, func(d *device) bool { return !d.up }): // which was not tried
		err = fmt.Errorf("%w: %w", errNoPlace, err)
	}
	s.undo(v)
	return nil, err
}

// undo gives up a version that is not served. s.mu is held.
func (s *Service) undo(v *version) {
	s.perform(s.m.RemoveModel(s.now(), v.mod, s.decided()))
	for _, d := range v.devices {
		d.bytes -= v.bytes
	}
	v.release()
}

// read reads a version, and makes ready what does not depend on a device.
func (s *Service) read(ctx context.Context, v *version, folder string) (err error) {
	files := model.Dir(folder)
	var m *reservoir.Model
	switch {
	case folder == "":
		v.config = &config{Name: v.name, Kind: kindReservoir, Batch: defaultBatch, Warmup: 1, Timeout: defaultTimeout, Waiting: defaultWaiting, Memory: defaultMemory}
		m, err = builtin(ctx, s.rt)
	default:
		if v.config, err = readConfig(files, folder, v.name); err == nil && v.config.Kind == kindReservoir {
			m, err = loadReservoir(files, v.config.File)
		}
	}
	if err != nil {
		return err
	}
	v.config.Deadline = cmp.Or(v.config.Deadline, s.o.Deadline)
	if v.most = v.config.Batch; s.o.MaxBatch > 0 {
		v.most = min(v.most, s.o.MaxBatch)
	}
	if m == nil {
		return s.readGraph(v, files)
	}
	v.config.Batch = v.most
	weights, work := m.PredictorBytes(s.rt.Machine(), v.most)
	if err := v.config.room(work); err != nil {
		return err
	}
	if v.bytes = weights + work; slices.ContainsFunc(s.rt.Devices(), func(d weft.Device) bool { return d.State == "healthy" }) {
		if err := fits(s.rt.Metrics().Devices, "", v.bytes); err != nil {
			return err
		}
	}
	r, err := newReservoir(s.rt, m, v.config)
	if err != nil {
		return err
	}
	v.runner, v.batched = r, true
	v.inputs, v.outputs = []Spec{r.in}, []Spec{r.out}
	return nil
}

// readGraph is read for a graph.
func (s *Service) readGraph(v *version, files fs.FS) error {
	r, m, err := loadGraph(s.rt, files, v.config)
	if err != nil {
		return err
	}
	weights, work := graphBytes(m.Graph())
	if err := v.config.room(work); err != nil {
		return err
	}
	v.spreads, v.batched, v.bytes = movable(m.Graph()), v.config.Batch > 1, weights+work
	v.runner, v.inputs, v.outputs = r, r.specs(r.in), r.specs(r.out)
	if r.all, err = m.Prepare(s.rt); errors.Is(err, weft.ErrNoDevice) {
		err = fmt.Errorf("%w: %w", errNoPlace, err)
	}
	return err
}

// readConfig reads model.yaml, which may give the name of its folder or none.
func readConfig(files fs.FS, folder, name string) (*config, error) {
	f, err := files.Open(configFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return nil, err
	}
	file := filepath.Join(folder, configFile)
	if len(src) > maxConfig {
		return nil, fmt.Errorf("%s: more than %d bytes", file, maxConfig)
	}
	c, err := parseConfig(src)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if c.Name != "" && c.Name != name {
		return nil, fmt.Errorf("%s: name is %s and the folder %s: a model has the name of its folder", file, c.Name, name)
	}
	return c, nil
}

// retire takes a version out of service: it ends what is under way and gives up its memory.
// s.mu is held.
func (s *Service) retire(v *version) {
	if s.models[v.name][v.number] == v {
		delete(s.models[v.name], v.number)
		if len(s.models[v.name]) == 0 {
			delete(s.models, v.name)
		}
	}
	if v.state != Ready {
		return
	}
	v.state, v.retired = Unloading, true
	s.old[v] = true
	if v.stopTrying != nil {
		v.stopTrying()
	}
	if v.pending == 0 {
		close(v.idle)
	}
	s.work.Add(1)
	go func() {
		defer s.work.Done()
		<-v.idle
		s.mu.Lock()
		s.perform(s.m.RemoveModel(s.now(), v.mod, s.decided()))
		for _, d := range v.devices {
			d.bytes -= v.bytes
		}
		v.devices = nil
		s.mu.Unlock()
		v.release()
		s.mu.Lock()
		delete(s.old, v)
		s.mu.Unlock()
		close(v.gone)
	}()
}

// Unload takes a model out of service and waits until its requests have ended and its memory
// is given up. ctx ends the wait and not the unloading.
func (s *Service) Unload(ctx context.Context, name string) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	wait, err := s.unload(name)
	<-s.loads
	if err != nil {
		return err
	}
	return await(ctx, wait)
}

// unload retires all versions of a model and returns those that are not gone yet.
func (s *Service) unload(name string) (wait []*version, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.models[name]) == 0 {
		return nil, missing(name, "")
	}
	for _, v := range s.models[name] {
		s.retire(v)
	}
	for v := range s.old {
		if v.name == name {
			wait = append(wait, v)
		}
	}
	return wait, nil
}

// await waits until versions are gone.
func await(ctx context.Context, versions []*version) error {
	for _, v := range versions {
		select {
		case <-v.gone:
		case <-ctx.Done():
			return fmt.Errorf("model %s still has requests under way: %w", v.name, context.Cause(ctx))
		}
	}
	return nil
}

// Close refuses new requests, waits for the others and gives up all memory. When ctx ends
// first, requests that wait are answered with ErrUnavailable and batches under way are
// cancelled.
func (s *Service) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		select {
		case <-s.ended:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	s.closed = true
	for _, versions := range s.models {
		for _, v := range versions {
			s.retire(v)
		}
	}
	wait := slices.Collect(maps.Keys(s.old))
	s.mu.Unlock()
	s.shut()
	err := await(ctx, wait)
	if err != nil {
		s.mu.Lock()
		for _, v := range wait {
			s.perform(s.m.RemoveModel(s.now(), v.mod, s.decided()))
		}
		s.mu.Unlock()
	}
	s.stop()
	s.loads <- struct{}{} // what is being loaded has ended, and no more is
	s.work.Wait()
	close(s.ended)
	return err
}
