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
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/batch"
	"github.com/weft-run/weft/model"
)

// version is a version of a model. Its state, reason, pending, retired and what counts
// points to are guarded by Service.mu; the rest does not change once it is served.
type version struct {
	runner
	name, number    string
	config          *config
	inputs, outputs []Spec
	batched         bool // the first dimension is the batch
	devices         []*device
	mod             *batch.Model
	state           State
	reason          string
	bytes           int64
	warm            []warm
	pending         int // requests and batches under way
	retired         bool
	idle            chan struct{} // closed when it is retired and nothing is under way
	gone            chan struct{} // closed when its memory is given up
	counts          *Stats        // goes on when the version is replaced
}

// warm is what a batch took before requests were taken.
type warm struct {
	on       *device
	examples int
	took     time.Duration
}

// list returns the names of the models in the folder.
func (s *Service) list() (names []string, err error) {
	if s.o.Folder == "" {
		return []string{builtinName}, nil
	}
	entries, err := os.ReadDir(s.o.Folder)
	if err != nil {
		return nil, fmt.Errorf("models: %w", err)
	}
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(s.o.Folder, e.Name()))
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
	if errors.Is(err, fs.ErrNotExist) {
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
		s.place(&version{name: name, number: number, state: Loading, config: &config{}})
	}
	s.mu.Unlock()

	v, err := s.make(ctx, name, number, folder)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.closed {
		err = fmt.Errorf("%w: the service is closing", ErrUnavailable)
		v.release()
	}
	if err != nil {
		err = fmt.Errorf("model %s: %w", name, err)
		s.failed(name, number, err)
		return err
	}
	old := s.models[name][number]
	if v.counts = newCounts(name, number); old != nil && old.counts != nil {
		v.counts = old.counts
	}
	on := make([]*batch.Device, len(v.devices))
	for i, d := range v.devices {
		on[i] = d.d
		d.bytes += v.bytes
	}
	prior := batch.Cost{Fixed: time.Millisecond}
	if len(v.warm) > 0 {
		prior.Fixed = v.warm[0].took
	}
	s.m.AddModel(v.mod, prior, on...)
	for _, w := range v.warm {
		s.m.Measured(v.mod, w.on.d, w.examples, w.took)
	}
	if old != nil && old.state == Ready {
		s.retire(old)
	}
	v.state = Ready
	s.place(v)
	s.o.Log.Info("a model is ready", "model", name, "version", number, "devices", deviceNames(v.devices))
	return nil
}

// place makes a version the one of its number. s.mu is held.
func (s *Service) place(v *version) {
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
	s.place(&version{name: name, number: number, state: Failed, reason: err.Error(), config: &config{}})
}

func deviceNames(devices []*device) (names []string) {
	for _, d := range devices {
		names = append(names, d.name)
	}
	return names
}

// make reads a version, puts its weights on devices and warms it up.
func (s *Service) make(ctx context.Context, name, number, folder string) (v *version, err error) {
	v = &version{name: name, number: number, idle: make(chan struct{}), gone: make(chan struct{})}
	if folder == "" {
		v.config = &config{Name: name, Kind: kindReservoir, Batch: defaultBatch, Warmup: 1, Deadline: s.o.Deadline, Timeout: defaultTimeout, Waiting: defaultWaiting}
		m, err := builtin(ctx, s.rt)
		if err != nil {
			return nil, err
		}
		if err := v.reservoir(newReservoir(s.rt, m, v.config)); err != nil {
			return nil, err
		}
		return v, s.warm(ctx, v, []*device{s.any})
	}
	files := model.Dir(folder)
	if v.config, err = readConfig(files, folder, name); err != nil {
		return nil, err
	}
	v.config.Deadline = cmp.Or(v.config.Deadline, s.o.Deadline)
	if v.config.Kind == kindReservoir {
		m, err := loadReservoir(files, v.config.File)
		if err != nil {
			return nil, err
		}
		if err := v.reservoir(newReservoir(s.rt, m, v.config)); err != nil {
			return nil, err
		}
		return v, s.warm(ctx, v, []*device{s.any})
	}
	r, m, err := loadGraph(s.rt, files, v.config)
	if err != nil {
		return nil, err
	}
	v.runner, v.batched, v.bytes = r, v.config.Batch > 1, dataBytes(m.Graph())
	v.inputs, v.outputs = r.specs(r.in), r.specs(r.out)
	return v, s.spread(ctx, v, r, m)
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

// reservoir sets what a version with a reservoir takes and gives.
func (v *version) reservoir(r *reservoirRunner, err error) error {
	if err != nil {
		return err
	}
	v.runner, v.batched = r, true
	v.inputs, v.outputs = []Spec{r.in}, []Spec{r.out}
	return nil
}

// spread puts a graph on the devices that have the memory for it and can run it, those that
// hold the least first, up to as many as model.yaml allows. A graph that says itself where
// it runs, or on several devices at once, is left to the runtime.
func (s *Service) spread(ctx context.Context, v *version, r *graphRunner, m *model.Model) error {
	if !movable(m.Graph()) {
		if err := r.put(m, s.any, false); err != nil {
			return err
		}
		return s.warm(ctx, v, []*device{s.any})
	}
	metrics := s.rt.Metrics()
	s.mu.Lock()
	devices := slices.Clone(s.devices)
	slices.SortStableFunc(devices, func(a, b *device) int { return cmp.Compare(a.bytes, b.bytes) })
	s.mu.Unlock()
	var errs []error
	for _, d := range devices {
		if v.config.Copies > 0 && len(v.devices) == v.config.Copies {
			break
		}
		i := slices.IndexFunc(metrics.Devices, func(m weft.DeviceMetrics) bool { return m.Name == d.name })
		if err := fits(metrics.Devices[i], v.bytes); err != nil {
			errs = append(errs, err)
			continue
		}
		err := r.put(m, d, true)
		if err == nil {
			if err = s.warmOn(ctx, v, d); err == nil {
				v.devices = append(v.devices, d)
				continue
			}
			r.on[d].Release()
			delete(r.on, d)
		}
		errs = append(errs, fmt.Errorf("%s: %w", d.name, err))
		if ctx.Err() != nil {
			break
		}
	}
	if len(v.devices) == 0 {
		v.release()
		return inOneLine(errs)
	}
	for _, err := range errs {
		s.o.Log.Warn("a device does not serve a model", "model", v.name, "err", err)
	}
	v.ready(&s.o)
	return nil
}

// fits errs unless a device is in service and has room for some bytes.
func fits(d weft.DeviceMetrics, bytes int64) error {
	switch {
	case d.State != "healthy":
		return fmt.Errorf("%s is %s", d.Name, d.State)
	case d.MemBytes > 0 && d.MemUsed+bytes > d.MemBytes:
		return fmt.Errorf("%s has room for %d bytes, and the model takes %d", d.Name, d.MemBytes-d.MemUsed, bytes)
	}
	return nil
}

// ready makes the version known to what decides on batches.
func (v *version) ready(o *Options) {
	v.mod = &batch.Model{Owner: v, MaxBatch: v.config.Batch, MaxWaiting: v.config.Waiting, MaxWait: cmp.Or(v.config.MaxWait, o.MaxWait)}
	if o.MaxBatch > 0 {
		v.mod.MaxBatch = min(v.mod.MaxBatch, o.MaxBatch)
	}
}

// warm is warmOn for all devices of a version, which must all do.
func (s *Service) warm(ctx context.Context, v *version, on []*device) error {
	v.devices = on
	for _, d := range on {
		if err := s.warmOn(ctx, v, d); err != nil {
			v.release()
			return err
		}
	}
	v.ready(&s.o)
	return nil
}

// warmOn runs batches of zeros on a device, so that what is compiled or copied at the first
// run is before the first request, and notes what the last of each size took.
func (s *Service) warmOn(ctx context.Context, v *version, d *device) error {
	sizes := []int{1}
	if v.config.Batch > 1 {
		sizes = append(sizes, v.config.Batch)
	}
	for i := range v.config.Warmup {
		for _, n := range sizes {
			c := &call{examples: n}
			for _, spec := range v.inputs {
				shape := slices.Clone(spec.Shape)
				if v.batched {
					shape[0] = int64(n)
				}
				elements, _ := count(shape)
				c.inputs = append(c.inputs, Tensor{Name: spec.Name, Type: spec.Type, Shape: shape, Data: make([]byte, elements*spec.Type.Size())})
			}
			run, cancel := context.WithTimeout(ctx, v.config.Timeout)
			begun := time.Now()
			_, err := v.run(run, d, []*call{c})
			cancel()
			if err != nil {
				return fmt.Errorf("warm-up: %w", err)
			}
			if i == v.config.Warmup-1 {
				v.warm = append(v.warm, warm{d, n, time.Since(begun)})
			}
		}
	}
	return nil
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
	if v.pending == 0 {
		close(v.idle)
	}
	s.work.Add(1)
	go func() {
		defer s.work.Done()
		<-v.idle
		s.mu.Lock()
		s.perform(s.m.RemoveModel(s.now(), v.mod, nil))
		for _, d := range v.devices {
			d.bytes -= v.bytes
		}
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
			s.perform(s.m.RemoveModel(s.now(), v.mod, nil))
		}
		s.mu.Unlock()
	}
	s.stop()
	s.loads <- struct{}{} // what is being loaded has ended, and no more is
	s.work.Wait()
	close(s.ended)
	return err
}
