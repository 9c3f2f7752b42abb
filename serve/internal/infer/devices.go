package infer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/serve/internal/batch"
)

// device is a device of the runtime as batches see it. Its fields but d are guarded by
// Service.mu; the name changes of Service.any alone.
type device struct {
	name    string
	d       *batch.Device
	up      bool               // it takes work
	returns bool               // it was lost and is being brought back, or is suspect
	state   string             // as the runtime last told it
	serving context.Context    // ends when it takes work no more
	leave   context.CancelFunc // ends serving
	bytes   int64              // of the models placed there
}

// addDevice adds a device that stands for some devices of the runtime.
func (s *Service) addDevice(name string, devices int) *device {
	d := &device{name: name, d: &batch.Device{}, up: true}
	d.d.Slots, d.d.Parallel = Places(s.rt.Machine(), s.o.Depth, devices)
	d.d.Devices = devices
	d.serving, d.leave = context.WithCancel(s.open)
	d.d.Owner = d
	s.m.AddDevice(d.d)
	return d
}

// follow has the service follow the devices of the runtime: events tell who takes work, and
// place puts models on those that come.
func (s *Service) follow() {
	// Events from before a device's state is looked at.
	events := s.rt.Events(s.open, weft.EventDevice, weft.EventDrained)
	look := func() {
		for _, d := range s.rt.Devices() {
			s.deviceIs(d.Name, d.State)
		}
	}
	look()
	s.work.Add(2)
	go func() {
		defer s.work.Done()
		for e := range events {
			switch e.Kind {
			case weft.EventMissed:
				look()
			case weft.EventDrained:
				s.deviceIs(e.Device, "drained")
			default:
				s.deviceIs(e.Device, e.To)
			}
		}
	}()
	go func() {
		defer s.work.Done()
		for {
			select {
			case <-s.changed:
				s.place()
			case <-s.open.Done():
				return
			}
		}
	}()
}

// deviceIs notes the state of a device. One that takes no more work is forgotten as a place of
// models: batches that it has end there while it is drained, and are computed elsewhere if it is
// lost.
func (s *Service) deviceIs(name, state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.devices, func(d *device) bool { return d.name == name })
	if i < 0 || s.closed {
		return
	}
	d := s.devices[i]
	d.returns = state == "lost" || state == "suspect"
	d.state = state
	switch was := d.up; {
	case state == "healthy" && was: // told again, as at the start: nothing has come
		return
	case state == "healthy":
		d.up = true
		d.serving, d.leave = context.WithCancel(s.open)
		s.perform(s.m.Up(s.now(), d.d, s.decided()))
	default:
		d.up = false
		d.leave()
		list := s.all()
		if s.making != nil {
			list = append(list, s.making)
		}
		for _, v := range list {
			if v.spreads && slices.Contains(v.devices, d) {
				s.forget(v, d)
			}
		}
		// Batches that it has when it is drained or lost do not end there, such as one that
		// came as the draining began: they are cancelled and computed elsewhere.
		// A suspect device ends what it has, unless it turns out to be lost.
		lost := state != "draining" && state != "suspect"
		if lost {
			for b, f := range s.flights {
				if b.Device == d.d {
					f.err = fmt.Errorf("%w: device %s is %s", ErrUnavailable, d.name, state)
					f.cancel()
				}
			}
		}
		s.perform(s.m.Down(s.now(), d.d, lost, s.decided()))
	}
	s.countDevices()
	s.expect()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// countDevices brings what stands for all devices together up to date. s.mu is held.
func (s *Service) countDevices() {
	if len(s.devices) == 1 {
		return
	}
	var names []string
	for _, d := range s.devices {
		if d.up {
			names = append(names, d.name)
		}
	}
	was := s.any.up
	s.any.up = len(names) > 0
	if s.any.up {
		s.any.name = strings.Join(names, ",")
		slots, parallel := Places(s.rt.Machine(), s.o.Depth, len(names))
		s.perform(s.m.SetSlots(s.now(), s.any.d, slots, parallel, len(names), s.decided()))
	}
	switch {
	case s.any.up && !was:
		s.any.serving, s.any.leave = context.WithCancel(s.open)
		s.perform(s.m.Up(s.now(), s.any.d, s.decided()))
	case was && !s.any.up: // what runs is the runtime's to deal with
		s.any.leave()
		s.perform(s.m.Down(s.now(), s.any.d, false, s.decided()))
	}
}

// expect has requests wait for versions that no device in service has and that one will have:
// it is put on another that is up, or the device that had it is being brought back, which takes
// less time than the client would need to ask again. s.mu is held.
func (s *Service) expect() {
	up := slices.ContainsFunc(s.devices, func(d *device) bool { return d.up })
	for _, v := range s.all() {
		switch {
		case v.state != Ready || v.spreads && len(v.devices) > 0:
			continue
		case v.spreads:
			v.expected = up || s.returns()
		default:
			v.expected = !up && s.returns()
		}
		s.m.Expect(v.mod, v.expected)
	}
}

// returns reports whether a device is being brought back. s.mu is held.
func (s *Service) returns() bool {
	return slices.ContainsFunc(s.devices, func(d *device) bool { return d.returns })
}

// forget has a version not be on a device any more. s.mu is held.
func (s *Service) forget(v *version, d *device) {
	s.m.Unplace(v.mod, d.d)
	v.devices = slices.DeleteFunc(slices.Clone(v.devices), func(o *device) bool { return o == d })
	d.bytes -= v.bytes
}

// place puts models on devices that have come: those that are served, and those that were not
// for want of a device.
func (s *Service) place() {
	if s.take(s.open) != nil {
		return
	}
	defer func() { <-s.loads }()
	var list []*version
	s.mu.Lock()
	if slices.ContainsFunc(s.devices, func(d *device) bool { return d.up }) {
		list = s.all()
	}
	s.mu.Unlock()
	for _, v := range list {
		s.mu.Lock()
		state := v.state
		if state == Ready {
			v.pending++ // so that it stays
		}
		s.mu.Unlock()
		switch {
		case state == Ready:
			if err := s.spread(s.open, v); err != nil && s.open.Err() == nil {
				s.o.Log.Warn("a device does not serve a model", "model", v.name, "version", v.number, "err", err)
			}
			s.mu.Lock()
			s.release(v)
			s.mu.Unlock()
		case state == Failed && v.noPlace:
			folders, err := s.folders(v.name)
			if folder, ok := folders[v.number]; err == nil && ok { // it has not gone
				if err := s.loadVersion(s.open, v.name, v.number, folder); err != nil && s.open.Err() == nil {
					s.o.Log.Error("a model is not served", "model", v.name, "err", err)
				}
			}
		}
	}
}

// errNoPlace says that a device was missing for a model, which one that comes may be: none takes work,
// the one that was to have it has gone, or those that were tried could not and others are away.
var errNoPlace = errors.New("no device that takes work has it")

// spread puts a version on the devices that take work, have the memory for it and can run it,
// those that hold the least first, up to as many as model.yaml allows. What it is on already
// stays. It returns why others do not serve it.
func (s *Service) spread(ctx context.Context, v *version) error {
	var errs []error
	tried := make(map[*device]bool)
	for ctx.Err() == nil {
		d := s.nextDevice(v, tried)
		if d == nil {
			return inOneLine(errs)
		}
		tried[d] = true
		if err := s.settle(ctx, v, d); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", d.name, err))
		}
	}
	return context.Cause(ctx)
}

// nextDevice returns where a version is to be put next, nil for nowhere.
func (s *Service) nextDevice(v *version, tried map[*device]bool) (best *device) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.spreads && (v.config.Copies == 0 || len(v.devices) < v.config.Copies) {
		for _, d := range s.devices {
			if d.up && !tried[d] && !slices.Contains(v.devices, d) && (best == nil || d.bytes < best.bytes) {
				best = d
			}
		}
	}
	if best == nil {
		v.expected = len(v.devices) == 0 && s.returns()
		s.m.Expect(v.mod, v.expected)
	}
	return best
}

// settle makes a version ready on a device, on Service.any where the runtime chooses, and has
// batches go there.
func (s *Service) settle(ctx context.Context, v *version, d *device) error {
	s.mu.Lock()
	serving := d.serving
	s.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(serving, cancel)()
	var took []warm
	err := error(nil)
	if v.spreads {
		err = fits(s.rt.Metrics().Devices, d.name, v.bytes)
	}
	if err == nil {
		err = v.prepare(d, v.spreads)
	}
	if err == nil {
		took, err = s.warmUp(ctx, v, d)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !d.up || serving.Err() != nil:
		return errNoPlace
	case err != nil:
		return err
	case v.retired:
		return fmt.Errorf("%w: model %s is unloading", ErrUnavailable, v.name)
	}
	v.devices = append(slices.Clone(v.devices), d)
	d.bytes += v.bytes
	prior := batch.Cost{Fixed: time.Millisecond}
	if len(took) > 0 {
		prior.Fixed = took[0].time
	}
	s.m.Place(v.mod, d.d, prior)
	for _, w := range took {
		s.m.Measured(v.mod, d.d, w.examples, w.time)
	}
	s.perform(s.m.Tick(s.now(), s.decided()))
	return nil
}

// fits errs unless a device, or with no name one at least, takes work and has room for some
// bytes.
func fits(devices []weft.DeviceMetrics, name string, bytes int64) (err error) {
	for _, d := range devices {
		switch {
		case name != "" && d.Name != name:
			continue
		case d.State != "healthy":
			err = fmt.Errorf("%w: %s is %s", errNoPlace, d.Name, d.State)
		case d.MemBytes > 0 && d.MemUsed+bytes > d.MemBytes:
			err = fmt.Errorf("%s has room for %s, and the model takes %s: a smaller batch takes less", d.Name, text.FormatSize(max(d.MemBytes-d.MemUsed, 0)), text.FormatSize(bytes))
		default:
			return nil
		}
	}
	return err
}

// warm is the time of a batch before requests were taken.
type warm struct {
	examples int
	time     time.Duration
}

// warmUp runs batches of zeros on a device, so that what is compiled or copied at the first
// run is before the first request, and returns what the last of each size took.
func (s *Service) warmUp(ctx context.Context, v *version, d *device) (took []warm, err error) {
	sizes := []int{1}
	if v.config.Batch > 1 {
		sizes = append(sizes, v.config.Batch)
	}
	for i := range v.config.Warmup {
		for _, n := range sizes {
			begun := time.Now()
			if err := s.runZeros(ctx, v, d, n); err != nil {
				return nil, fmt.Errorf("warm-up: %w", err)
			}
			if i == v.config.Warmup-1 {
				took = append(took, warm{n, time.Since(begun)})
			}
		}
	}
	return took, nil
}

// runZeros runs a batch of zeros, of the given number of examples, on a device.
func (s *Service) runZeros(ctx context.Context, v *version, d *device, examples int) error {
	c := &call{examples: examples}
	for _, spec := range v.inputs {
		shape := slices.Clone(spec.Shape)
		if v.batched {
			shape[0] = int64(examples)
		}
		elements, _ := count(shape)
		c.inputs = append(c.inputs, Tensor{Name: spec.Name, Type: spec.Type, Shape: shape, Data: make([]byte, elements*spec.Type.Size())})
	}
	run, cancel := context.WithTimeout(ctx, v.config.Timeout)
	defer cancel()
	_, err := v.run(run, d, []*call{c})
	return err
}

// deviceNames are the devices that a version is on, those of Service.any by their own names.
func deviceNames(devices []*device) (names []string) {
	for _, d := range devices {
		names = append(names, strings.Split(d.name, ",")...)
	}
	return names
}
