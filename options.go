package weft

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/weft-run/weft/backend/all"
	"github.com/weft-run/weft/driver"
	"github.com/weft-run/weft/sched"
)

// ErrOptions is wrapped by every error Validate returns.
var ErrOptions = errors.New("bad option")

// Options configure Open. The zero value uses every device found, with the
// defaults named. The fields with JSON names are the keys that flags and
// configuration files share.
type Options struct {
	// Devices selects devices: a backend ("cpu"), one device ("cpu:0"), a
	// backend split into several ("cpu/4"), or a list joined by commas.
	// Empty means everything found.
	Devices string `json:"devices,omitempty"`
	// MaxDevices keeps the best so many; 0 keeps all.
	MaxDevices int `json:"max_devices,omitempty"`
	// Policy places tasks ("finish"); Partitioner cuts work ("latency").
	Policy      string `json:"policy,omitempty"`
	Partitioner string `json:"partitioner,omitempty"`
	// Concurrent limits tasks in flight over all devices; 0 means no limit.
	Concurrent int `json:"concurrent,omitempty"`
	// TaskTimeout bounds each execution of a task; 0 means no bound.
	TaskTimeout time.Duration `json:"task_timeout,omitempty"`
	// Retries is how often a task may fail before its run does (3).
	Retries int `json:"retries,omitempty"`
	// HostBytes limits the host memory weft uses for data; 0 means no limit.
	HostBytes int64 `json:"host_bytes,omitempty"`
	// NoFaultTolerance makes a lost device fail the runs it was part of.
	NoFaultTolerance bool `json:"no_fault_tolerance,omitempty"`
	// Pin ties the threads of CPU devices to their cores.
	Pin bool `json:"pin,omitempty"`
	// Trace keeps so many events of what ran where; 0 keeps none.
	Trace int `json:"trace,omitempty"`

	// Funcs are the Go kernels the program brings, by name.
	Funcs map[string]Func `json:"-"`
	// Drivers replaces the drivers that would be used.
	Drivers []driver.Driver `json:"-"`
	// Log receives warnings; nil discards them.
	Log *slog.Logger `json:"-"`
	// Explain, when set, is told why each task went where it went.
	Explain func(sched.Explanation) `json:"-"`
}

// Validate reports every mistake in the options.
func (o *Options) Validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: %s", ErrOptions, fmt.Sprintf(format, args...)))
	}
	if _, err := sched.New(o.Policy); err != nil {
		bad("%v", err)
	}
	if o.Partitioner != "" {
		if _, err := sched.NewPartitioner(o.Partitioner); err != nil {
			bad("%v", err)
		}
	}
	if _, err := selectors(o.Devices); err != nil {
		bad("%v", err)
	}
	for name, n := range map[string]int64{
		"max_devices": int64(o.MaxDevices), "concurrent": int64(o.Concurrent), "task_timeout": int64(o.TaskTimeout),
		"host_bytes": o.HostBytes, "trace": int64(o.Trace),
	} {
		if n < 0 {
			bad("%s is %d; it must not be negative", name, n)
		}
	}
	return errors.Join(errs...)
}

// selector is one item of a device list.
type selector struct {
	backend string
	index   int // -1: all
	parts   int // 0: not split
}

// backends are the names a selector may begin with.
var backends = all.Names()

// selectors parses a device list.
func selectors(list string) ([]selector, error) {
	if strings.TrimSpace(list) == "" {
		return nil, nil
	}
	var out []selector
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		s := selector{index: -1}
		head, parts, split := strings.Cut(item, "/")
		if split {
			n, err := strconv.Atoi(parts)
			if err != nil || n < 1 || n > maxParts {
				return nil, fmt.Errorf("device %q: split into 1 to %d parts, as in cpu/4", item, maxParts)
			}
			s.parts = n
		}
		name, index, one := strings.Cut(head, ":")
		if one {
			n, err := strconv.Atoi(index)
			if err != nil || n < 0 {
				return nil, fmt.Errorf("device %q: number a device from 0, as in cpu:0", item)
			}
			s.index = n
		}
		s.backend = name
		known := false
		for _, b := range backends {
			known = known || b == name
		}
		if !known {
			return nil, fmt.Errorf("device %q: no backend %q; there is %s", item, name, strings.Join(backends, ", "))
		}
		out = append(out, s)
	}
	return out, nil
}

// maxParts is how many devices the cores may be cut into: past this the
// devices only take turns.
var maxParts = max(64, 4*runtime.NumCPU())
