// Package cuda runs work on NVIDIA GPUs. It opens the driver's library, NVML,
// cuBLAS, cuDNN, NCCL and NVRTC at run time, without cgo and without a toolkit to
// build; what is not installed is simply not offered.
//
// A device has one thread of its own, which owns everything that is in flight:
//
//	Submit ──► pending ──► lanes ──► streams ──► GPU
//	                                               │ writes a ticket into a word
//	Completions ◄── done ◄── lanes ◄── the thread reads the words
//
// Submit resolves buffers to addresses; the thread puts operations on streams as
// soon as everything they wait for is done or ahead of them on this GPU. Between
// streams the GPU itself waits for the tickets; for other devices the thread
// looks at the board.
//
// One illegal address costs the process its GPU for good: the operation fails
// with the kernel's name, everything else with driver.ErrDeviceLost, and only a
// new process recovers. Who starts one is internal/backend/proc's business; nothing here
// knows about processes, and nothing here decides where work goes.
package cuda

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/weft-run/weft/experimental/driver"
)

// Options say which GPUs to open and how.
type Options struct {
	// Devices are the numbers of the GPUs to open, as in cuda:1; none means all.
	Devices []int
	// Streams is the number of kernels that a GPU runs at once (1, at most 6). With more
	// than one, small kernels overlap; a kernel's measured time then includes waiting
	// for others, and after a fault several kernels are suspects.
	Streams int
	// MemBytes limits the memory for buffers on each GPU; 0 means what is free
	// when it opens, less a margin.
	MemBytes int64
	// Exact forbids routines of NVIDIA's libraries, whose results may differ
	// between versions and shapes.
	Exact bool
	// LibraryPath lists folders that are searched for libraries before all others.
	LibraryPath []string
	// CacheDir is a folder for what is compiled from CUDA C; empty keeps none.
	CacheDir string
}

// maxLanes leaves room for the two copy streams among the eight queues a context
// has by default, so that streams never share one.
const maxLanes = 6

// Validate reports the first mistake in the options.
func (o *Options) Validate() error {
	switch {
	case o.Streams < 0 || o.Streams > maxLanes:
		return fmt.Errorf("cuda: lanes is %d; it must be 1 to %d, or 0 for 1", o.Streams, maxLanes)
	case o.MemBytes < 0:
		return fmt.Errorf("cuda: memory limit is %d bytes; it must not be negative", o.MemBytes)
	case slices.ContainsFunc(o.Devices, func(n int) bool { return n < 0 }):
		return fmt.Errorf("cuda: devices are %v; number them from 0", o.Devices)
	}
	return nil
}

// New returns the driver.
func New(o Options) driver.Driver { return &cudaDriver{o} }

type cudaDriver struct{ o Options }

func (d *cudaDriver) Name() string { return "cuda" }

// Open returns the GPUs found, each with a context of its own.
func (d *cudaDriver) Open(ctx context.Context, log *slog.Logger) ([]driver.Device, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if err := d.o.Validate(); err != nil {
		return nil, err
	}
	p, n, err := openPlatform(d.o, log)
	if err != nil {
		return nil, err
	}
	var out []driver.Device
	var causes []error
	for i := range n {
		if len(d.o.Devices) > 0 && !slices.Contains(d.o.Devices, i) {
			continue
		}
		if err := ctx.Err(); err != nil {
			causes = append(causes, err)
			break
		}
		dev, err := p.open(i)
		if err != nil {
			log.Warn("gpu left out", "device", fmt.Sprintf("cuda:%d", i), "err", err)
			causes = append(causes, err)
			continue
		}
		p.peers.add(dev)
		out = append(out, dev)
	}
	if len(out) == 0 {
		if len(causes) == 0 {
			return nil, fmt.Errorf("cuda: none of the %d GPUs found was asked for: %w", n, driver.ErrUnavailable)
		}
		return nil, fmt.Errorf("cuda: no GPU could be opened: %w: %w", driver.ErrUnavailable, errors.Join(causes...))
	}
	return out, nil
}

// platform holds what the devices of one Open share.
type platform struct {
	o      Options
	log    *slog.Logger
	api    *api
	nvml   *nvml // nil when the library is missing
	images images
	nvrtc  nvrtc
	nccl   nccl
	gpus   int // of the machine
	peers  peers
}

// openPlatform opens the libraries and returns how many GPUs there are.
func openPlatform(o Options, log *slog.Logger) (*platform, int, error) {
	a, err := openAPI(o.LibraryPath)
	if err != nil {
		return nil, 0, err
	}
	f := getFrame()
	defer f.free()
	if err := a.do(f, &a.init, 0); err != nil {
		return nil, 0, fmt.Errorf("cuda: %w", err)
	}
	if err := a.do(f, &a.deviceCount, f.at(0)); err != nil {
		return nil, 0, fmt.Errorf("cuda: %w", err)
	}
	n := int(f.i32(0))
	if n == 0 {
		return nil, 0, fmt.Errorf("cuda: the driver is there and finds no GPU: %w", driver.ErrUnavailable)
	}
	p := &platform{o: o, log: log, api: a, gpus: n}
	if p.nvml, err = openNVML(o.LibraryPath); err != nil {
		log.Warn("no telemetry from GPUs", "err", err)
	}
	return p, n, nil
}

// Examine says which libraries are there, for weft doctor.
func (d *cudaDriver) Examine() []driver.Finding {
	p, n, err := openPlatform(d.o, slog.New(slog.DiscardHandler))
	if err != nil {
		return []driver.Finding{{What: "NVIDIA driver", Says: err.Error(), Fix: "install NVIDIA's driver; without a GPU of theirs there is nothing to mend"}}
	}
	f := getFrame()
	defer f.free()
	version := "unknown version"
	if p.api.do(f, &p.api.driverVersion, f.at(0)) == nil {
		version = fmt.Sprintf("CUDA %d.%d", f.i32(0)/1000, f.i32(0)%1000/10)
	}
	out := []driver.Finding{{What: "NVIDIA driver", OK: true, Says: fmt.Sprintf("%s, %d GPUs, %s", p.api.lib.path, n, version)}}
	for _, l := range []struct {
		what, use, pip string
		names          []string
	}{
		{"NVML", "temperature, power and topology", "", nvmlNames},
		{"cuBLAS", "library matrix products", "nvidia-cublas", cublasNames},
		{"cuDNN", "library convolutions", "nvidia-cudnn-cu13", cudnnNames},
		{"NCCL", "native collectives", "nvidia-nccl-cu13", ncclNames},
		{"NVRTC", "kernels given as CUDA C", "nvidia-cuda-nvrtc", nvrtcNames},
	} {
		lib, err := open(d.o.LibraryPath, l.names...)
		if err != nil {
			fix := "it comes with NVIDIA's driver"
			if l.pip != "" {
				fix = "install the CUDA toolkit or the Python package " + l.pip
			}
			says := "not there: no " + l.use
			if errors.Is(err, errBroken) {
				says = fmt.Sprintf("%v: no %s", err, l.use)
			}
			out = append(out, driver.Finding{What: l.what, Says: says, Fix: fix})
			continue
		}
		out = append(out, driver.Finding{What: l.what, OK: true, Says: lib.path})
	}
	return out
}
