package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/catalog"
	"github.com/weft-run/weft/internal/safefile"
	"github.com/weft-run/weft/serve/internal/infer"
	"github.com/weft-run/weft/serve/internal/otlp"
)

// Config is the content of a server's configuration file. DefaultConfig has the values without one.
// docs/SERVE.md describes every key.
type Config struct {
	Listen   string            `yaml:"listen"` // "" listens nowhere, see Server.Handler; a file cannot say so
	GRPC     string            `yaml:"grpc"`   // "" is by Listen, see grpcAddress
	Profile  string            `yaml:"profile"`
	Models   string            `yaml:"models"` // folder; "" serves the built-in reservoir
	TLS      TLS               `yaml:"tls"`
	Circuits string            `yaml:"circuits"` // folder with keys of circuits; "" for none
	State    string            `yaml:"state"`    // folder that jobs are kept in; "" keeps them in memory
	Tokens   string            `yaml:"tokens"`   // file
	Hosts    []string          `yaml:"hosts"`
	Origins  []string          `yaml:"origins"`
	Devices  string            `yaml:"devices"`
	Runtime  map[string]string `yaml:"runtime"` // keys of weft.Options
	Batch    Batch             `yaml:"batch"`
	Limits   Limits            `yaml:"limits"`
	// SharedMemory lets requests refer to tensors in files of /dev/shm.
	SharedMemory bool   `yaml:"shared_memory"`
	Jobs         Jobs   `yaml:"jobs"`
	Proofs       Proofs `yaml:"proofs"`
	Prices       Prices `yaml:"prices"`
	Traces       Traces `yaml:"traces"`
	Pprof        bool   `yaml:"pprof"`
}

// TLS names the files of a certificate.
type TLS struct {
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
}

// Batch says which requests are computed together. What a model says of itself goes before.
type Batch struct {
	Size     int      `yaml:"size"`     // most examples of a batch; 0 is what the model says
	Wait     Duration `yaml:"wait"`     // longest that requests wait for others while a device is idle; 0s is as long as it pays
	Deadline Duration `yaml:"deadline"` // of requests that name none
	Depth    int      `yaml:"depth"`    // batches at a time on a device; 0 is infer's choice
	Queue    int      `yaml:"queue"`    // requests that may wait, of all models
}

// Limits bound what clients can take.
type Limits struct {
	Body        Size     `yaml:"body"`   // bytes of a request
	Bodies      Size     `yaml:"bodies"` // of all requests under way
	Header      Size     `yaml:"header"`
	ReadTime    Duration `yaml:"read_time"`  // for a request to arrive
	WriteTime   Duration `yaml:"write_time"` // for an answer to be taken
	IdleTime    Duration `yaml:"idle_time"`  // of a connection between requests
	Connections int      `yaml:"connections"`
	Concurrent  int      `yaml:"concurrent"` // requests of one client at a time
	Rate        float64  `yaml:"rate"`       // requests of one client a second; 0 is no limit, -1 is by the address
	Streams     int      `yaml:"streams"`    // of events
	DrainTime   Duration `yaml:"drain_time"` // for requests under way to end
	DrainDelay  Duration `yaml:"drain_delay"`
}

// Jobs bound the job API.
type Jobs struct {
	Concurrent int      `yaml:"concurrent"`
	Queue      int      `yaml:"queue"`
	Keep       int      `yaml:"keep"`     // jobs that are remembered after their end
	KeepFor    Duration `yaml:"keep_for"` // how long
	KeepBytes  Size     `yaml:"keep_bytes"`
}

// Prices are the prices for the metrics of cost, in one currency; 0 is not known.
type Prices struct {
	KWh        float64 `yaml:"kwh"`         // of a kilowatt-hour
	DeviceHour float64 `yaml:"device_hour"` // of having a device for an hour
	Prediction float64 `yaml:"prediction"`  // what a prediction is worth
}

// Traces says where traces of predictions go.
type Traces struct {
	Collector string  `yaml:"collector"` // address of a collector of OpenTelemetry; "" for none
	Sample    float64 `yaml:"sample"`    // part of requests that are traced, of those whose sender does not say
}

// ErrConfig is wrapped by every error about a configuration.
var ErrConfig = errors.New("bad configuration")

// byAddress selects the default rate: unlimited on loopback, publicRate otherwise.
const (
	byAddress  = -1
	publicRate = 1000
)

// DefaultConfig is the configuration without a file.
func DefaultConfig() Config {
	return Config{
		Listen: "127.0.0.1:8000",
		Batch:  Batch{Deadline: Duration(10 * time.Second), Queue: 10_000},
		Limits: Limits{
			Body: 64 << 20, Bodies: 1 << 30, Header: 32 << 10,
			ReadTime: Duration(30 * time.Second), WriteTime: Duration(30 * time.Second), IdleTime: Duration(2 * time.Minute),
			Connections: 20_000, Concurrent: 1024, Rate: byAddress, Streams: 64,
			DrainTime: Duration(30 * time.Second),
		},
		Jobs:   Jobs{Concurrent: 1, Queue: 16, Keep: 100, KeepFor: Duration(time.Hour), KeepBytes: 64 << 20},
		Proofs: Proofs{Constraints: 1 << 22, Witness: 16 << 20, Batch: 1000, Concurrent: 2, Queue: 64, Time: Duration(time.Minute)},
		Traces: Traces{Sample: 1},
	}
}

// maxConfig is the most bytes that a configuration file may have.
const maxConfig = 1 << 20

// LoadConfig reads a configuration file; path "" is none. profile, if any, replaces the one
// that the file names. What the file says goes before what the profile says, and that
// before the defaults. Errors name the file and the line.
func LoadConfig(path, profile string) (Config, error) {
	var src []byte
	if path != "" {
		var err error
		if src, err = safefile.ReadNamed(path, maxConfig); err != nil {
			return Config{}, fmt.Errorf("%w: %w", ErrConfig, err)
		}
	}
	c, err := parseConfig(src, profile)
	if err != nil {
		if path != "" {
			err = fmt.Errorf("%s: %w", path, err)
		}
		return Config{}, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	for _, file := range []*string{&c.TLS.Cert, &c.TLS.Key, &c.Tokens, &c.Models, &c.Circuits, &c.State} { // they are beside the file
		if *file != "" && !filepath.IsAbs(*file) && path != "" {
			*file = filepath.Join(filepath.Dir(path), *file)
		}
	}
	return c, nil
}

// parseConfig reads a configuration's text.
func parseConfig(src []byte, profile string) (Config, error) {
	root, err := readYAML(src)
	if err != nil {
		return Config{}, err
	}
	c := DefaultConfig()
	if root != nil && profile == "" { // which the rest of the file is read over
		said := DefaultConfig()
		if err := readInto(root, reflect.ValueOf(&said).Elem(), ""); err != nil {
			return Config{}, err
		}
		if err := c.apply(said.Profile); err != nil {
			return Config{}, withLine(root, err)
		}
		profile = said.Profile
	} else if err := c.apply(profile); err != nil {
		return Config{}, err
	}
	if root != nil {
		if err := readInto(root, reflect.ValueOf(&c).Elem(), ""); err != nil {
			return Config{}, err
		}
	}
	if c.Profile = profile; c.Listen == "" {
		c.Listen = DefaultConfig().Listen
	}
	return c, withLine(root, c.Validate())
}

// Validate reports the first mistake in a configuration.
func (c *Config) Validate() error {
	if err := c.reachable(); err != nil {
		return err
	}
	if _, err := c.Options(); err != nil {
		return err
	}
	if c.Traces.Collector != "" {
		if _, err := otlp.New(c.Traces.Collector, 1, nil); err != nil {
			return mistake{"traces.collector", fmt.Errorf("traces: %w", err)}
		}
		if _, err := otlp.New(c.Traces.Collector, c.Traces.Sample, nil); err != nil {
			return mistake{"traces.sample", fmt.Errorf("traces: %w", err)}
		}
	}
	for _, o := range c.Origins {
		if err := checkOrigin(o); err != nil {
			return mistaken("origins", "%w", err)
		}
	}
	for _, n := range []struct {
		name        string
		value       float64
		least, most float64
	}{
		{"batch.size", float64(c.Batch.Size), 0, 1 << 16},
		{"batch.depth", float64(c.Batch.Depth), 0, 64},
		{"batch.queue", float64(c.Batch.Queue), 1, 1 << 20},
		{"limits.body", float64(c.Limits.Body), 1 << 10, 1 << 33},
		{"limits.bodies", float64(c.Limits.Bodies), float64(c.Limits.Body), 1 << 43},
		{"limits.header", float64(c.Limits.Header), 1 << 10, 1 << 20},
		{"limits.connections", float64(c.Limits.Connections), 1, 1 << 20},
		{"limits.concurrent", float64(c.Limits.Concurrent), 1, 1 << 20},
		{"limits.streams", float64(c.Limits.Streams), 0, 1 << 16},
		{"limits.rate", c.Limits.Rate, byAddress, 1e9},
		{"jobs.concurrent", float64(c.Jobs.Concurrent), 0, 64},
		{"jobs.queue", float64(c.Jobs.Queue), 0, 1 << 16},
		{"jobs.keep", float64(c.Jobs.Keep), 0, 1 << 16},
		{"jobs.keep_bytes", float64(c.Jobs.KeepBytes), 0, 1 << 40},
		{"proofs.constraints", float64(c.Proofs.Constraints), 1, 1 << 26},
		{"proofs.witness", float64(c.Proofs.Witness), 1 << 10, 1 << 33},
		{"proofs.batch", float64(c.Proofs.Batch), 1, 1 << 16},
		{"proofs.concurrent", float64(c.Proofs.Concurrent), 1, 64},
		{"proofs.queue", float64(c.Proofs.Queue), 0, 1 << 16},
		{"prices.kwh", c.Prices.KWh, 0, 1e9},
		{"prices.device_hour", c.Prices.DeviceHour, 0, 1e9},
		{"prices.prediction", c.Prices.Prediction, 0, 1e9},
	} {
		if !(n.value >= n.least && n.value <= n.most) {
			return mistaken(n.name, "%v is not from %v to %v", n.value, n.least, n.most)
		}
	}
	for name, d := range map[string]Duration{
		"batch.deadline": c.Batch.Deadline, "limits.read_time": c.Limits.ReadTime, "limits.write_time": c.Limits.WriteTime,
		"limits.idle_time": c.Limits.IdleTime, "jobs.keep_for": c.Jobs.KeepFor,
		"proofs.time": c.Proofs.Time,
	} {
		if d <= 0 {
			return mistaken(name, "it must be longer than 0s")
		}
	}
	return nil
}

// reachable errs unless who can reach the server has to prove who it is.
func (c *Config) reachable() error {
	network, address, err := c.address()
	if err != nil {
		return err
	}
	rpcNetwork, rpcAddress, err := c.grpcAddress()
	if err != nil {
		return err
	}
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		return mistaken("tls", "cert and key go together")
	}
	for _, at := range []struct{ key, network, address string }{{"listen", network, address}, {"grpc", rpcNetwork, rpcAddress}} {
		switch {
		case local(at.network, at.address):
		case c.TLS.Cert == "":
			return mistaken(at.key, "%s can be reached from other machines, which needs tls with cert and key; 127.0.0.1:PORT and unix:/PATH do not", at.address)
		case c.Tokens == "":
			return mistaken(at.key, "%s can be reached from other machines, which needs tokens, a file of them; 127.0.0.1:PORT and unix:/PATH do not", at.address)
		}
	}
	switch {
	case network != "tcp" && rpcNetwork != "tcp" && c.TLS.Cert != "":
		return mistaken("tls", "a Unix socket has none; leave it out")
	case network != "" && rpcNetwork == network && rpcAddress == address && !strings.HasSuffix(address, ":0"):
		return mistaken("grpc", "%s is where listen is; choose another address, or none", c.GRPC)
	case c.SharedMemory && runtime.GOOS != "linux":
		return mistaken("shared_memory", "it is there on Linux alone; leave it out")
	case c.SharedMemory && !local(network, address):
		return mistaken("shared_memory", "%s can be reached from other machines, which share no memory; listen on unix:/PATH", c.Listen)
	case c.SharedMemory && network != "unix" && c.Tokens == "":
		return mistaken("shared_memory", "every user of this machine can reach the address, and would reach this user's memory; listen on unix:/PATH, or name tokens")
	}
	return nil
}

// probeInterval is the time between probes of a device unless the configuration has another: a device
// that hangs while it is idle is found before most requests would, for 0.1 % of a core.
const probeInterval = time.Second

// Options are the options of the runtime that the server runs on, with the kernels of all workloads.
func (c *Config) Options() (weft.Options, error) {
	o := weft.Options{Funcs: catalog.Funcs()}
	for _, k := range weft.Keys() { // in one order, so that errors do not depend on a map's
		v, ok := c.Runtime[k.Name]
		if !ok {
			continue
		}
		if k.Name == "devices" {
			return o, mistake{"runtime.devices", errors.New("runtime: devices is a key of its own: write it without runtime")}
		}
		if err := o.Set(k.Name, v); err != nil {
			return o, mistake{keyIn("runtime", k.Name), fmt.Errorf("runtime: %w", err)}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Runtime)) {
		if o.Get(name) == "" && !known(name) {
			return o, mistake{keyIn("runtime", name), fmt.Errorf("runtime: %w", o.Set(name, ""))}
		}
	}
	err := o.Set("devices", c.Devices)
	if err == nil {
		err = (&weft.Options{Devices: o.Devices}).Validate()
	}
	if err != nil {
		return o, mistake{"devices", err}
	}
	o.Ladder = cmp.Or(o.Ladder, ladder)
	o.HangTimeout = cmp.Or(o.HangTimeout, hangTimeout)
	if o.ProbeInterval == 0 { // readiness rests on it
		o.ProbeInterval = probeInterval
	}
	if err := o.Validate(); err != nil { // of keys that do not go together
		return o, mistake{"runtime", errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))}
	}
	return o, nil
}

// hangTimeout is the default of hang_timeout in a service, less than that of weft.Options: the requests of a hung
// worker go to another device only when the worker is ended, and must still meet their deadline, 10 s by default.
const hangTimeout = 2 * time.Second

// ladder has the rungs by which a service brings a device back whose worker ends, unless its configuration says
// otherwise: again and again, because requests wait meanwhile, and a device that is given up
// after three losses within seconds is missed for longer than it takes to start a worker.
var ladder = strings.Repeat("standby, restart, ", 7) + "reopen"

// Open opens the runtime that the server runs on, with open, which may be weft.Open. Where the system does not permit
// what a profile wishes for, it is left out of the configuration too, and note says so.
func (c *Config) Open(ctx context.Context, open func(context.Context, weft.Options) (*weft.Runtime, error)) (rt *weft.Runtime, note string, err error) {
	o, err := c.Options()
	if err != nil {
		return nil, "", err
	}
	o.Checkpoint = c.checkpoint()
	rt, err = open(ctx, o)
	wishes := c.wishes()
	if err = c.heldByAnother(err); err == nil || len(wishes) == 0 || ctx.Err() != nil {
		return rt, "", err
	}
	without := *c
	without.Runtime = maps.Clone(c.Runtime)
	for _, k := range wishes {
		delete(without.Runtime, k)
	}
	if o, again := without.Options(); again == nil {
		o.Checkpoint = c.checkpoint()
		if rt, again := open(ctx, o); again == nil {
			c.Runtime = without.Runtime
			return rt, fmt.Sprintf("Profile %s goes without %s: %v.", c.Profile, strings.Join(wishes, ", "), err), nil
		}
	}
	return nil, "", err
}

// infer are the options of the service that answers the server's predictions.
func (c *Config) infer(log *slog.Logger) infer.Options {
	return infer.Options{
		Folder: c.Models, Deadline: time.Duration(c.Batch.Deadline), MaxWaiting: c.Batch.Queue,
		MaxBatch: c.Batch.Size, MaxWait: time.Duration(c.Batch.Wait), Depth: c.Batch.Depth, Log: log,
	}
}

// known reports whether the runtime has a key.
func known(name string) bool {
	for _, k := range weft.Keys() {
		if k.Name == name {
			return true
		}
	}
	return false
}

// address returns the address to listen at: the network (tcp or unix) and the address there; network is "" if there is
// none.
func (c *Config) address() (network, address string, err error) {
	if c.Listen == "" {
		return "", "", nil
	}
	return parseAddress("listen", c.Listen)
}

// grpcAddress returns the address to listen at for gRPC; network is "" if there is none. Unless the
// configuration says, it is the port after that of HTTP, and nowhere if that is no port of
// this machine alone: what others can reach is stated.
func (c *Config) grpcAddress() (network, address string, err error) {
	switch c.GRPC {
	case "none":
		return "", "", nil
	case "":
		host, port, err := net.SplitHostPort(c.Listen)
		n, bad := strconv.Atoi(port)
		if err != nil || bad != nil || n >= 1<<16-1 || !isLoopback(c.Listen) {
			return "", "", nil
		}
		if n > 0 { // 0 is any port that is free
			n++
		}
		return "tcp", net.JoinHostPort(host, strconv.Itoa(n)), nil
	}
	return parseAddress("grpc", c.GRPC)
}

// parseAddress reads an address of a key: the network (tcp or unix) and the address there.
func parseAddress(key, s string) (network, address string, err error) {
	if path, ok := strings.CutPrefix(s, "unix:"); ok {
		if path == "" {
			return "", "", mistaken(key, "unix: needs a path, as in unix:/run/weft/weft.sock")
		}
		return "unix", path, nil
	}
	_, port, err := net.SplitHostPort(s)
	if err != nil || port == "" {
		return "", "", mistaken(key, "%q is no address; write HOST:PORT, as in 127.0.0.1:8000, or unix:/PATH", s)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return "", "", mistaken(key, "%q: there is no port %s; write one from 0 to %d", s, port, math.MaxUint16)
	}
	return "tcp", s, nil
}

// local reports whether only this machine can reach an address, or nobody.
func local(network, address string) bool { return network != "tcp" || isLoopback(address) }

// isLoopback reports whether only this machine can reach an address. A name counts if it is
// localhost: another may resolve to anything.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
