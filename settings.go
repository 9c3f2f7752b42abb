package weft

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/weft-run/weft/internal/safefile"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// Key is a setting that Options, flags and configuration files share.
type Key struct {
	Name string // as in a configuration file
	Doc  string // what it does, in a phrase
	// Default is the value that Get returns when nothing was set. A key whose default is
	// "on" or "off" is a switch.
	Default string
}

// setting is a key with the field of Options behind it. set checks what it is
// given and changes nothing when that is wrong; get returns a text set accepts.
type setting struct {
	name, doc string
	set       func(o *Options, v string) error
	get       func(o *Options) string
}

// settings is the one list of keys there is, in the order people are shown.
var settings = []setting{
	word("devices", "devices to use: cpu, cuda:1, cpu/4 (cores as four devices), cuda:0/2 (a GPU as two), or a list; empty for all", "",
		func(o *Options) *string { return &o.Devices },
		func(v string) error { _, err := machine.ParseSelection(v); return err }),
	count("max_devices", "largest number of devices to use: the fastest as measured before, else those with the highest score", none,
		func(o *Options) *int { return &o.MaxDevices }),
	word("policy", "how tasks are placed", sched.Default,
		func(o *Options) *string { return &o.Policy },
		func(v string) error { _, err := sched.New(v); return err }),
	word("policy_between", "how policy hierarchical chooses a group of devices: finish, leastloaded, capacity or roundrobin", "",
		func(o *Options) *string { return &o.PolicyBetween },
		func(v string) error { _, err := sched.Hierarchical(v, ""); return err }),
	word("policy_within", "how it chooses a device of the group, likewise", "",
		func(o *Options) *string { return &o.PolicyWithin },
		func(v string) error { _, err := sched.Hierarchical("", v); return err }),
	word("partitioner", "how work is cut", sched.DefaultPartitioner,
		func(o *Options) *string { return &o.Partitioner },
		func(v string) error { _, err := sched.NewPartitioner(v); return err }),
	count("concurrent", "tasks in flight at most, over all devices", none,
		func(o *Options) *int { return &o.Concurrent }),
	streams("streams", "kernels in flight at a time on each device; auto leaves it to the device", func(o *Options) *int { return &o.Streams }),
	orOff(duration, "task_timeout", "end a task that runs this long, and restart its device; auto: 20 times the predicted time, at least 10s, in worker processes; off: never",
		func(o *Options) *time.Duration { return &o.TaskTimeout }),
	hang("hang_timeout", "end a worker process that gives no sign of life for this long, whose work goes on elsewhere; 2s by weft serve", "10s",
		func(o *Options) *time.Duration { return &o.HangTimeout }),
	duration("sync_timeout", "longest wait for data to arrive (Get) or for devices to close", none,
		func(o *Options) *time.Duration { return &o.SyncTimeout }),
	duration("cancel_wait", "longest time from cancelling a run to its end: workers are killed after half of it, Go kernels left behind after all", "2s",
		func(o *Options) *time.Duration { return &o.CancelWait }),
	duration("close_wait", "longest time to close devices; devices that are not closed by then close in the background", "5s",
		func(o *Options) *time.Duration { return &o.CloseWait }),
	count("retries", "how often a task may fail before its run does; a Go kernel that reads anything is tried again only with checksums, or where its task is verified", "3",
		func(o *Options) *int { return &o.Retries }),
	size("pool_bytes", "host memory kept for reuse between tasks", "256MiB",
		func(o *Options) *int64 { return &o.PoolBytes }),
	size("host_bytes", "host memory for data that weft may take; what the program binds is not counted", none,
		func(o *Options) *int64 { return &o.HostBytes }),
	fraction("rebalance_threshold", "difference in utilisation between devices that moves queued tasks", "0.3",
		func(o *Options) *float64 { return &o.RebalanceThreshold }),
	duration("rebalance_interval", "least time between two rebalances", "1s",
		func(o *Options) *time.Duration { return &o.RebalanceInterval }),
	duration("health_interval", "how often each device's condition is sampled; 0s is never", "100ms",
		func(o *Options) *time.Duration { return &o.HealthInterval }),
	portion("memory_margin", "part of each device's memory to keep free", "0.05",
		func(o *Options) *float64 { return &o.MemoryMargin }),
	amount("max_temperature", "°C from which a device gets less work, then none", "85", 1, 150,
		func(o *Options) *float64 { return &o.MaxTemperature }),
	amount("power_budget", "watts from which a device gets less work, then none", none, 1, 1e6,
		func(o *Options) *float64 { return &o.PowerBudget }),
	amount("total_power", "watts of all devices from which the hungriest gets less work", none, 1, 1e6,
		func(o *Options) *float64 { return &o.TotalPower }),
	portion("max_utilisation", "part of a device that other programs may use", none,
		func(o *Options) *float64 { return &o.MaxUtilisation }),
	count("max_failures", "failures in a row a device may have; at the next it is taken for lost", "3",
		func(o *Options) *int { return &o.MaxFailures }),
	count("max_losses", "losses of a device a task may run into; at the next its run fails", "2",
		func(o *Options) *int { return &o.MaxLosses }),
	ladder("ladder", "how a lost device is brought back, as in standby:2s, restart, reopen:30s, fail; off for not at all"),
	probeInterval("probe_interval", "how often each device is probed by a kernel with a known answer; auto: after a loss and failures, and every second by weft serve; off: never"),
	toggle("fault_tolerance", "finish elsewhere what a lost device had; off lets it fail its runs", true,
		func(o *Options) *bool { return &o.NoFaultTolerance }),
	toggle("exact", "same bits on any number of devices: one backend, no library routines, no TF32", false,
		func(o *Options) *bool { return &o.Exact }),
	toggle("checksums", "compare checksums of data in host memory when it is read; a run that read data which changed fails", false,
		func(o *Options) *bool { return &o.Checksums }),
	count("verify", "execute one task in this many on two devices, compare results, and drain a device whose results are wrong; 1 checks all tasks but those for which no second device is left, which the report counts", none,
		func(o *Options) *int { return &o.Verify }),
	toggle("validation", "have drivers check their use and log mistakes: Vulkan's validation layer", false,
		func(o *Options) *bool { return &o.Validation }),
	toggle("pin", "tie the threads of CPU devices to their cores", false,
		func(o *Options) *bool { return &o.Pin }),
	toggle("realtime", "have the threads of CPU devices and of the loop go before all others (SCHED_FIFO)", false,
		func(o *Options) *bool { return &o.Realtime }),
	count("trace_events", "events kept of what ran where", none,
		func(o *Options) *int { return &o.Trace }),
	toggle("calibrate", "measure devices when they are opened, unless that is known; off goes by rough guesses", true,
		func(o *Options) *bool { return &o.NoCalibrate }),
	word("cache_dir", "where measurements are kept between runs; off keeps none, empty is the user's cache", "",
		func(o *Options) *string { return &o.CacheDir },
		func(string) error { return nil }),
	toggle("standby", "keep a second worker process warm for each device in one, to take over after a fault", false,
		func(o *Options) *bool { return &o.Standby }),
	toggle("isolate", "run Go kernels in worker processes: a crash, an endless loop or endless allocation costs a worker (Linux)", false,
		func(o *Options) *bool { return &o.Isolate }),
	toggle("confine", "with isolate: no new programs, no network, no signals and no files of the user for Go kernels", false,
		func(o *Options) *bool { return &o.Confine }),
	size("worker_bytes", "with isolate: memory of each worker; auto is half of the machine's or control group's", auto,
		func(o *Options) *int64 { return &o.WorkerBytes }),
	orOff(size, "memory_reserve", "with isolate: memory to keep free; when less is left, the worker with the newest large task is ended; auto: 5 %; off: no limit",
		func(o *Options) *int64 { return &o.MemoryReserve }),
	word("spares", "devices that stand by, as in cuda:1, until another is lost or swapped out", "",
		func(o *Options) *string { return &o.Spares }, checkNames),
	word("worker_command", "program that starts worker processes, where this one cannot be one", "",
		func(o *Options) *string { return &o.WorkerCommand },
		func(string) error { return nil }),
	word("socket", "let weft top watch: on makes a socket in the user's runtime folder, a path with a slash makes it there; empty or off makes none", "",
		func(o *Options) *string { return &o.Socket },
		checkSocket),
}

// maxStreams is the most kernels that a device runs at a time: traces have 8 bits for which of them it is.
const maxStreams = 255

// streams is the setting of Options.Streams.
func streams(name, doc string, at func(*Options) *int) setting {
	s := count(name, doc, auto, at)
	plain := s.set
	s.set = func(o *Options, v string) error {
		var try Options
		if err := plain(&try, v); err != nil {
			return err
		}
		if n := *at(&try); n > maxStreams {
			return fmt.Errorf("%d are too many; a device runs %d kernels at a time at most", n, maxStreams)
		}
		*at(o) = *at(&try)
		return nil
	}
	return s
}

// checkSocket errs for a value of socket that is neither a switch nor a path.
func checkSocket(v string) error {
	if v == "on" || v == off || strings.ContainsRune(v, '/') {
		return nil
	}
	return fmt.Errorf("%q is neither on nor off nor a path; write a path with a slash, as in ./weft.sock", v)
}

// ladder is the setting of Options.Ladder, which may name rungs of Options.Rungs.
func ladder(name, doc string) setting {
	s := word(name, doc, allRungs, func(o *Options) *string { return &o.Ladder }, func(string) error { return nil })
	plain := s.set
	s.set = func(o *Options, v string) error {
		if _, err := parseLadder(v, o.Rungs); err != nil {
			return err
		}
		return plain(o, v)
	}
	return s
}

// leastProbe is the shortest interval of probes, at which they take 1.5 % of a core for each device.
const leastProbe = 10 * time.Millisecond

// probeInterval is the setting of Options.ProbeInterval.
func probeInterval(name, doc string) setting {
	s := orOff(duration, name, doc, func(o *Options) *time.Duration { return &o.ProbeInterval })
	plain := s.set
	s.set = func(o *Options, v string) error {
		var try Options
		if err := plain(&try, v); err != nil {
			return err
		}
		if d := try.ProbeInterval; d > 0 && d < leastProbe {
			return fmt.Errorf("%v is too short; write %v or more, or %s", d, leastProbe, off)
		}
		o.ProbeInterval = try.ProbeInterval
		return nil
	}
	return s
}

// none is the value of a limit that is not there.
const none = "none"

// word is a setting that is its own text; empty stands for the default.
func word(name, doc, def string, at func(*Options) *string, check func(string) error) setting {
	return setting{name: name, doc: doc,
		set: func(o *Options, v string) error {
			if v != "" {
				if err := check(v); err != nil {
					return err
				}
			}
			*at(o) = v
			return nil
		},
		get: func(o *Options) string {
			if *at(o) == "" {
				return def
			}
			return *at(o)
		}}
}

// number makes a setting of a field whose zero value stands for its default. A
// default that is a word is the word for zero. Where it is a number, 0 must
// still be expressible, and is kept as -1.
func number[T int | int64 | float64 | time.Duration](
	name, doc, def string, at func(*Options) *T, parse func(string) (T, error), format func(T) string,
) setting {
	_, err := parse(def)
	word := err != nil
	return setting{name: name, doc: doc,
		set: func(o *Options, v string) error {
			if word && v == def {
				*at(o) = 0
				return nil
			}
			x, err := parse(v)
			switch {
			case err != nil && word:
				return fmt.Errorf("%w, or %s", err, def)
			case err != nil:
				return err
			case x == 0 && !word:
				x = -1
			}
			*at(o) = x
			return nil
		},
		get: func(o *Options) string {
			switch x := *at(o); {
			case x == 0:
				return def
			case x == -1 && !word:
				return format(0)
			default:
				return format(x)
			}
		}}
}

// count is a whole number.
func count(name, doc, def string, at func(*Options) *int) setting {
	return number(name, doc, def, at, func(v string) (int, error) {
		n, err := text.ParseWhole(v)
		switch {
		case errors.Is(err, strconv.ErrRange) || n > math.MaxInt32:
			return 0, fmt.Errorf("%q is too large a count; write %d at most", v, math.MaxInt32)
		case err != nil:
			return 0, err
		case n < 0:
			return 0, fmt.Errorf("%q is not a count; write a whole number from 0 on", v)
		}
		return int(n), nil
	}, strconv.Itoa)
}

// size is a number of bytes.
func size(name, doc, def string, at func(*Options) *int64) setting {
	return number(name, doc, def, at, text.ParseSize, text.FormatSize)
}

// duration is a span of time.
func duration(name, doc, def string, at func(*Options) *time.Duration) setting {
	return number(name, doc, def, at, text.ParseDuration, time.Duration.String)
}

// leastHang is the least time after which a worker is taken for hung.
const leastHang = 200 * time.Millisecond

// hang is a duration after which a worker is taken for hung.
func hang(name, doc, def string, at func(*Options) *time.Duration) setting {
	s := duration(name, doc, def, at)
	return setting{name: name, doc: doc, get: s.get, set: func(o *Options, v string) error {
		before := *at(o)
		if err := s.set(o, v); err != nil {
			return err
		}
		if now := *at(o); now != 0 && now < leastHang {
			*at(o) = before
			return fmt.Errorf("%v is too short: give a worker %v at least, or a busy machine passes for a hung worker", max(now, 0), leastHang)
		}
		return nil
	}}
}

// auto and off are the words for a limit that is found by weft, and for none.
const (
	auto = "auto"
	off  = "off"
)

// orOff is a setting of a kind that may be auto, which is 0, or off, which is -1.
func orOff[T int64 | time.Duration](kind func(name, doc, def string, at func(*Options) *T) setting, name, doc string, at func(*Options) *T) setting {
	s := kind(name, doc, auto, at)
	return setting{name: name, doc: doc,
		set: func(o *Options, v string) error {
			if v == off || v == none || v == "-1" {
				*at(o) = -1
				return nil
			}
			if err := s.set(o, v); err != nil {
				return fmt.Errorf("%w, or %s", err, off)
			}
			return nil
		},
		get: func(o *Options) string {
			if *at(o) == -1 {
				return off
			}
			return s.get(o)
		}}
}

// portion is a number above 0 and below 1.
func portion(name, doc, def string, at func(*Options) *float64) setting {
	return number(name, doc, def, at, func(v string) (float64, error) {
		x, err := text.ParseNumber(v)
		if err != nil || !(x > 0 && x < 1) {
			return 0, fmt.Errorf("%q is not a part; write a number above 0 and below 1", v)
		}
		return x, nil
	}, formatFloat)
}

// amount is a number within bounds.
func amount(name, doc, def string, least, most float64, at func(*Options) *float64) setting {
	return number(name, doc, def, at, func(v string) (float64, error) {
		x, err := text.ParseNumber(v)
		if err != nil {
			return 0, fmt.Errorf("%q is no number; write one from %g to %g", v, least, most)
		}
		if !(x >= least && x <= most) {
			return 0, fmt.Errorf("%q is not from %g to %g; write a number that is", v, least, most)
		}
		return x, nil
	}, formatFloat)
}

func formatFloat(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// fraction is a number above 0 and up to 1.
func fraction(name, doc, def string, at func(*Options) *float64) setting {
	return number(name, doc, def, at, func(v string) (float64, error) {
		x, err := text.ParseNumber(v)
		if err != nil || !(x > 0 && x <= 1) {
			return 0, fmt.Errorf("%q is not a fraction; write a number above 0 and up to 1", v)
		}
		return x, nil
	}, formatFloat)
}

// toggle is a switch. The field behind it is false by default, so a switch that
// is on by default has a field that says the opposite.
func toggle(name, doc string, def bool, at func(*Options) *bool) setting {
	return setting{name: name, doc: doc,
		set: func(o *Options, v string) error {
			switch strings.ToLower(v) {
			case "on", "true":
				*at(o) = !def
			case "off", "false":
				*at(o) = def
			default:
				return fmt.Errorf("%q is neither on nor off", v)
			}
			return nil
		},
		get: func(o *Options) string {
			if *at(o) != def {
				return "on"
			}
			return "off"
		}}
}

// Keys lists the settings in the order people should be shown them.
func Keys() []Key {
	out := make([]Key, len(settings))
	for i, s := range settings {
		out[i] = Key{Name: s.name, Doc: s.doc, Default: s.get(&Options{})}
	}
	return out
}

// Set gives a key a value written as text: sizes as 512MiB, times as 2s,
// switches as on or off. A wrong value is an error that wraps ErrOptions and
// leaves the options as they were.
func (o *Options) Set(name, value string) error {
	if err := o.set(name, value); err != nil {
		return fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return nil
}

func (o *Options) set(name, value string) error {
	s := find(name)
	if s == nil {
		var names []string
		for _, s := range settings {
			names = append(names, s.name)
		}
		return text.Unknown("key", name, names)
	}
	if !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) {
		return fmt.Errorf("%s: %q holds characters that cannot be printed", name, value)
	}
	if err := s.set(o, strings.TrimSpace(value)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Get returns a key's value as text that Set accepts, the default's when nothing
// was set, and nothing for a key that does not exist.
func (o *Options) Get(name string) string {
	if s := find(name); s != nil {
		return s.get(o)
	}
	return ""
}

func find(name string) *setting {
	for i := range settings {
		if settings[i].name == name {
			return &settings[i]
		}
	}
	return nil
}

// maxConfig is the most a configuration file may have: all keys with comments take
// 10 kB.
const maxConfig = 1 << 20

// LoadOptions reads a configuration file: a JSON object, or lines of the form
// `key = value` with comments from # on. An error is one line that names the
// file, the line and the key.
func LoadOptions(path string) (Options, error) {
	src, err := safefile.ReadNamed(path, maxConfig)
	if err != nil {
		return Options{}, fmt.Errorf("%w: configuration: %w", ErrOptions, err)
	}
	o, err := parseOptions(src)
	if err != nil {
		return Options{}, fmt.Errorf("%w: %s:%w", ErrOptions, path, err)
	}
	return o, nil
}

// parseOptions reads a configuration file's text. Errors begin with the line.
func parseOptions(src []byte) (Options, error) {
	var o Options
	src = bytes.TrimPrefix(src, []byte("\ufeff")) // as some editors begin a file
	lines := make(map[string]int)                 // of keys seen
	take := func(line int, key, value string) error {
		err := o.set(key, value)
		if at, twice := lines[key]; twice {
			err = fmt.Errorf("%s: set before, in line %d", key, at)
		}
		if err != nil {
			return fmt.Errorf("%d: %w", line, err)
		}
		lines[key] = line
		return nil
	}
	var err error
	if t := bytes.TrimSpace(src); len(t) > 0 && t[0] == '{' {
		err = readJSON(src, take)
	} else {
		err = readLines(string(src), take)
	}
	if err != nil {
		return Options{}, err
	}
	return o, nil
}

// readLines reads `key = value` lines. A value in double quotes is a Go string,
// which may hold #.
func readLines(src string, take func(line int, key, value string) error) error {
	n := 0
	for line := range strings.Lines(src) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !ok {
			return fmt.Errorf("%d: %q is not of the form key = value", n, line)
		}
		if strings.HasPrefix(value, `"`) {
			quoted, err := strconv.QuotedPrefix(value)
			if err != nil {
				return fmt.Errorf("%d: %s: the quoted value does not end", n, key)
			}
			rest := strings.TrimSpace(value[len(quoted):])
			if rest != "" && rest[0] != '#' {
				return fmt.Errorf("%d: %s: %q follows the quoted value", n, key, rest)
			}
			value, _ = strconv.Unquote(quoted)
		} else if i := strings.IndexByte(value, '#'); i >= 0 {
			value = strings.TrimSpace(value[:i])
		}
		if err := take(n, key, value); err != nil {
			return err
		}
	}
	return nil
}

// readJSON reads an object of texts, numbers and booleans.
func readJSON(src []byte, take func(line int, key, value string) error) error {
	root, line, err := text.ParseJSON(src)
	if err != nil {
		return fmt.Errorf("%d: %w", line, err)
	}
	if root.V == nil {
		return nil // null changes nothing, as everywhere in encoding/json
	}
	fields, ok := root.V.([]text.Field)
	if !ok {
		return fmt.Errorf("%d: not a JSON object", root.Line)
	}
	for _, f := range fields {
		switch v := f.Value.V.(type) {
		case string, json.Number, bool:
			err = take(f.Line, f.Name, fmt.Sprint(v))
		default:
			err = fmt.Errorf("%d: %q: the value must be a text, a number or true or false", f.Line, f.Name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// MarshalJSON writes the keys that differ from their defaults, as LoadOptions
// reads them; functions, drivers and the logger stay behind.
func (o Options) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for _, s := range settings {
		v := s.get(&o)
		if v == s.get(&Options{}) {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		text, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		out = append(out, `"`+s.name+`":`...)
		out = append(out, text...)
	}
	return append(out, '}'), nil
}

// UnmarshalJSON sets the keys that src names and leaves the others alone.
func (o *Options) UnmarshalJSON(src []byte) error {
	seen := make(map[string]bool)
	err := readJSON(src, func(_ int, key, value string) error {
		if seen[key] {
			return fmt.Errorf("%s: it is there twice", key)
		}
		seen[key] = true
		return o.set(key, value)
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return nil
}

// leastWorkerBytes is the least memory of a worker: with half of it one cannot even begin threads, and ends.
const leastWorkerBytes = 64 << 20

// Validate reports every mistake in the options, each in a line of its own that
// names its key.
func (o *Options) Validate() error {
	var errs []error
	for _, s := range settings {
		scratch := Options{Rungs: o.Rungs}
		if err := s.set(&scratch, s.get(o)); err != nil {
			errs = append(errs, fmt.Errorf("%w: %s: %w", ErrOptions, s.name, err))
		}
	}
	errs = append(errs, o.needIsolate()...)
	if n := o.WorkerBytes; n > 0 && n < leastWorkerBytes {
		errs = append(errs, fmt.Errorf("%w: worker_bytes: %s are too few for a worker process; give at least %s", ErrOptions, text.FormatSize(n), text.FormatSize(leastWorkerBytes)))
	}
	if _, err := o.selection(); err != nil && !errors.Is(err, machine.ErrSelection) { // which was named above
		errs = append(errs, fmt.Errorf("%w: devices: %w", ErrOptions, err))
	}
	for _, name := range slices.Sorted(maps.Keys(o.Funcs)) {
		if o.Funcs[name] == nil {
			errs = append(errs, fmt.Errorf("%w: Funcs: %q is nil", ErrOptions, name))
		}
	}
	return errors.Join(append(errs, o.checkRungs()...)...)
}

// needIsolate returns an error for each key that would have no effect. confine, worker_bytes and memory_reserve apply to
// isolated workers only. standby and worker_command apply to any worker process, so they are refused only if all devices
// are cores. A negative memory_reserve means off.
func (o *Options) needIsolate() (errs []error) {
	if o.Isolate {
		return nil
	}
	sel, err := machine.ParseSelection(o.Devices)
	cores := err == nil && o.Drivers == nil && slices.Equal(sel.Backends(), []string{"cpu"})
	const (
		isolated = "it is for isolated workers, of which there are none"
		inWorker = "it is for devices in worker processes, and cores are devices of this one"
	)
	for _, s := range []struct {
		key  string
		set  bool
		what string
	}{
		{"confine", o.Confine, isolated}, {"worker_bytes", o.WorkerBytes != 0, isolated}, {"memory_reserve", o.MemoryReserve > 0, isolated},
		{"standby", cores && o.Standby, inWorker}, {"worker_command", cores && o.WorkerCommand != "", inWorker},
	} {
		if s.set {
			errs = append(errs, fmt.Errorf("%w: %s: %s; add isolate", ErrOptions, s.key, s.what))
		}
	}
	return errs
}
