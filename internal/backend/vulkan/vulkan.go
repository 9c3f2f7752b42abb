// Package vulkan runs work on any GPU that has a Vulkan driver, and on drivers
// that compute on the CPU. It opens the Vulkan loader at run time, without cgo.
//
// A kernel is a compute shader in SPIR-V, or in GLSL where glslc is installed to
// compile it. The buffers of a task are storage buffers of set 0, bound in the
// order of its uses with the workspace last; the step's parameters are push
// constants. A shader's group size is its own, or that of the launch where it
// leaves x, y or z to the specialization constants 0, 1 and 2.
//
// Every lane of a device has two goroutines:
//
//	Submit ──► pending ──► issue ──► queue ──► GPU
//	                         │                  │ a timeline semaphore
//	Completions ◄── done ◄── reap ◄─────────────┘
//
// Issue waits for what an operation waits for and records it; a launch is issued
// as soon as the launches before it are, and the GPU waits for those by itself.
// Reap waits for the lane's semaphore and completes operations in order. Memory
// that the CPU reads as fast as its own, as that of integrated GPUs, is copied by
// the CPU; other memory through staging buffers.
//
// Nothing here knows about processes or decides where work goes.
package vulkan

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/weft-run/weft/experimental/driver"
)

// Options say which devices to open and how.
type Options struct {
	// Devices are the numbers of the devices to open, as in vulkan:1; none
	// means all.
	Devices []int
	// NoDoubles leaves out devices that another backend has: drivers that
	// compute on the CPU, whose cores cpu has, and GPUs under NVIDIA's own
	// driver, which cuda has.
	NoDoubles bool
	// Streams is the number of kernels that a device runs at once (1).
	Streams int
	// MemBytes limits the memory for buffers on each device; 0 means most of
	// its largest heap.
	MemBytes int64
	// CacheDir is a folder for compiled pipelines; empty keeps none.
	CacheDir string
	// Validation runs the Khronos validation layer, whose messages go to the log
	// as warnings. Where the layer is not installed, Open errs.
	Validation bool
	// LibraryPath lists folders that are searched for the loader before all others.
	LibraryPath []string

	// stage copies by staging buffers although the memory needs none, and reads
	// timestamps although they come late; group, when not 0, stands for the most
	// groups of a dispatch. Tests set them to see what other devices would.
	stage bool
	group uint32
}

// maxLanes bounds the goroutines and semaphores a device takes.
const maxLanes = 16

// check reports the first mistake in the options.
func (o *Options) check() error {
	switch {
	case o.Streams < 0 || o.Streams > maxLanes:
		return fmt.Errorf("vulkan: lanes is %d; it must be 1 to %d, or 0 for 1", o.Streams, maxLanes)
	case o.MemBytes < 0:
		return fmt.Errorf("vulkan: memory limit is %d bytes; it must not be negative", o.MemBytes)
	case slices.ContainsFunc(o.Devices, func(n int) bool { return n < 0 }):
		return fmt.Errorf("vulkan: devices are %v; number them from 0", o.Devices)
	}
	return nil
}

// New returns the driver.
func New(o Options) driver.Driver { return &vulkanDriver{o} }

type vulkanDriver struct{ o Options }

func (d *vulkanDriver) Name() string { return "vulkan" }

// Open returns the devices found that know Vulkan 1.2 and compute.
func (d *vulkanDriver) Open(ctx context.Context, log *slog.Logger) ([]driver.Device, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if err := d.o.check(); err != nil {
		return nil, err
	}
	if d.o.NoDoubles && !SeesGPU() {
		return nil, fmt.Errorf("vulkan: no GPU here, and software devices are used only when asked for by name: %w", driver.ErrUnavailable)
	}
	p, err := openPlatform(d.o, log)
	if err != nil {
		return nil, err
	}
	defer p.release() // the devices hold on to it
	found, err := p.find()
	if err != nil {
		return nil, err
	}
	var out []driver.Device
	var causes []error
	for i, dev := range found {
		if len(d.o.Devices) > 0 && !slices.Contains(d.o.Devices, i) || d.o.NoDoubles && dev.double {
			continue
		}
		if err := ctx.Err(); err != nil {
			causes = append(causes, err)
			break
		}
		if err := dev.open(); err != nil {
			log.Warn("gpu left out", "device", dev.info.Name, "err", err)
			causes = append(causes, err)
			continue
		}
		out = append(out, dev)
	}
	if len(out) == 0 {
		if len(causes) == 0 {
			var names []string
			for _, dev := range found {
				names = append(names, dev.info.Name)
			}
			return nil, fmt.Errorf("vulkan: %w: none of these is selected: %s", driver.ErrUnavailable, strings.Join(names, ", "))
		}
		return nil, fmt.Errorf("vulkan: no device could be opened: %w: %w", driver.ErrUnavailable, errors.Join(causes...))
	}
	return out, nil
}

// Examine returns what is installed, for weft doctor.
func (d *vulkanDriver) Examine() []driver.Finding {
	wrong := func(err error) []driver.Finding {
		return []driver.Finding{{What: "Vulkan", Says: err.Error(), Fix: "install the Vulkan loader (libvulkan1) and your GPU's driver (Debian's mesa-vulkan-drivers has most)"}}
	}
	p, err := openPlatform(d.o, slog.New(slog.DiscardHandler))
	if err != nil {
		return wrong(err)
	}
	defer p.release()
	found, err := p.find()
	if err != nil {
		return wrong(err)
	}
	var names []string
	for _, dev := range found {
		names = append(names, dev.info.Name+" "+dev.info.Model)
	}
	out := []driver.Finding{{What: "Vulkan", OK: true, Says: p.api.path + ": " + strings.Join(names, ", ")}}
	if path, err := compiler(); err != nil {
		out = append(out, driver.Finding{What: "glslc", Says: "not there: no kernels given as GLSL", Fix: "install glslc"})
	} else {
		out = append(out, driver.Finding{What: "glslc", OK: true, Says: path})
	}
	return out
}

// platform holds what the devices of one Open share. It ends with the last of them.
type platform struct {
	o         Options
	log       *slog.Logger
	api       *api
	messenger uint64

	mu    sync.Mutex
	users int
}

// openPlatform makes an instance.
func openPlatform(o Options, log *slog.Logger) (*platform, error) {
	a, err := openLibrary(o.LibraryPath)
	if err != nil {
		return nil, err
	}
	if err := checkManifests(os.Getenv, o.Validation); err != nil {
		return nil, err
	}
	p := &platform{o: o, log: log, api: a, users: 1}
	f := getFrame()
	defer f.free()
	v := answer[uint32](f)
	if err := f.do(&a.enumerateVersion, address(v)); err != nil {
		return nil, fmt.Errorf("vulkan: %w", err)
	}
	if *v < apiVersion {
		return nil, fmt.Errorf("vulkan: %s: %w: %w; install a newer loader", a.path, driver.ErrUnavailable, errVersion)
	}
	var layers, exts []string
	if o.Validation {
		layers, exts = []string{"VK_LAYER_KHRONOS_validation"}, []string{"VK_EXT_debug_utils"}
		there, err := read[layerProperties](f, &a.layers)
		if err != nil {
			return nil, fmt.Errorf("vulkan: %w", err)
		}
		if !slices.ContainsFunc(there, func(l layerProperties) bool { return text(l.name[:]) == layers[0] }) {
			return nil, fmt.Errorf("vulkan: no validation layer: %w; install vulkan-validationlayers or do not ask for it", driver.ErrUnavailable)
		}
	}
	app := put(f, applicationInfo{head: head{typ: tApplication}, name: f.string("weft"), engine: f.string("weft"), api: apiVersion})
	instance := answer[uintptr](f)
	err = f.do(&a.createInstance, put(f, instanceInfo{
		head: head{typ: tInstance}, app: app, layers: uint32(len(layers)), layerAt: f.strings(layers), exts: uint32(len(exts)), extNames: f.strings(exts),
	}), 0, address(instance))
	if err != nil {
		return nil, fmt.Errorf("vulkan: %w: %w; install a driver, or mend the drivers named by VK_DRIVER_FILES or in /usr/share/vulkan/icd.d", driver.ErrUnavailable, err)
	}
	a.bindInstance(*instance)
	if o.Validation {
		if err := p.listen(f); err != nil {
			p.release()
			return nil, fmt.Errorf("vulkan: %w", err)
		}
	}
	return p, nil
}

// find returns the devices that know enough, numbered: those that another backend
// has come last, so that the numbers of the others do not depend on whether they
// are wanted.
func (p *platform) find() ([]*device, error) {
	f := getFrame()
	defer f.free()
	handles, err := read[uintptr](f, &p.api.physicalDevices, p.api.instance)
	if err == nil && len(handles) == 0 {
		err = errors.New("the loader finds no device; install a driver")
	}
	if err != nil {
		return nil, fmt.Errorf("vulkan: %w: %w", driver.ErrUnavailable, err)
	}
	var found, doubles []*device
	var causes []error
	for _, h := range handles {
		switch d, err := p.describe(h); {
		case err != nil:
			p.log.Debug("gpu left out", "err", err)
			causes = append(causes, err)
		case d.double:
			doubles = append(doubles, d)
		default:
			found = append(found, d)
		}
	}
	found = append(found, doubles...)
	if len(found) == 0 {
		return nil, fmt.Errorf("vulkan: no device will do: %w: %w", driver.ErrUnavailable, errors.Join(causes...))
	}
	for i, d := range found {
		d.info.Name = fmt.Sprintf("vulkan:%d", i)
		// Drivers that compute on the CPU share one UUID, and have no bus.
		d.info.UUID = fmt.Sprintf("%s, %d", d.info.UUID, i)
	}
	return found, nil
}

// release counts a user less; with the last the instance goes.
func (p *platform) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users--; p.users > 0 {
		return
	}
	f := getFrame()
	defer f.free()
	if p.messenger != 0 {
		f.call(&p.api.destroyMessenger, p.api.instance, uintptr(p.messenger), 0)
		hearers.Delete(p.messengerID())
	}
	f.call(&p.api.destroyInstance, p.api.instance, 0)
}

func (p *platform) retain() {
	p.mu.Lock()
	p.users++
	p.mu.Unlock()
}
