// Package backendtest is the suite every backend passes: what the driver
// contract promises, tried on real devices, and benchmarks to compare them by.
// A backend's test file gives Run a way to open its driver and its versions of
// a few small kernels; see Kernels for what those compute.
//
// The suite speaks the contract and nothing else, so it holds for any backend,
// wrapped or not. It skips nothing that a device claims to be able to do.
package backendtest

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// Config says what to test.
type Config struct {
	// Open returns a driver that was not opened yet. Every test opens one of
	// its own, or two when it needs two devices and the first has one.
	Open func() driver.Driver
	// Impls returns the implementations of a kernel of Kernels that the
	// devices can run; nil stands for GoImpls.
	Impls func(kernel string) []graph.Impl
	// Lose makes a device of the driver opened last lost, as a fault would.
	// Nil leaves it to driver.Dropper; a device without it is not lost.
	Lose func(tb testing.TB, d driver.Device)
}

// tests are run one after another, each on devices of its own.
var tests = []struct {
	name    string
	devices int // how many it needs
	run     func(*rig)
	once    bool // it is not about launches, so one kind of memory for them is enough
}{
	{"info", 1, testInfo, true},
	{"close at once", 1, testCloseAtOnce, true},
	{"copies", 1, testCopies, true},
	{"bounds", 1, testBounds, true},
	{"memory limit", 1, testMemoryLimit, true},
	{"odd sizes of buffers", 1, testOddSizes, true},
	{"buffers do not leak", 1, testBufferLeak, true},
	{"lane order", 1, testLaneOrder, false},
	{"waits", 1, testWaits, false},
	{"waits for what comes later", 1, testWaitsForLater, false},
	{"chain over lanes", 1, testChain, false},
	{"chain over devices", 2, testChainOverDevices, false},
	{"two devices at once", 2, testTwoAtOnce, false},
	{"failure", 2, testFailure, false},
	{"launch", 1, testLaunch, false},
	{"launch steps", 1, testSteps, false},
	{"arguments of steps", 1, testStepArgs, false},
	{"kernel fails", 1, testKernelFails, false},
	{"wrong kernels", 1, testWrongKernels, false},
	{"parameters", 1, testParams, false},
	{"secrets", 1, testSecrets, true},
	{"wipe overtakes", 1, testWipeOvertakes, true},
	{"close in flight", 2, testCloseInFlight, false},
	{"after close", 1, testAfterClose, true},
	{"telemetry", 1, testTelemetry, true},
	{"peer copies", 2, testPeerCopies, true},
	{"mapped host memory", 1, testHostMapper, true},
	{"shared host memory", 1, testSharedMemory, true},
	{"slabs", 2, testSlabs, true},
	{"signs of life", 1, testHanger, true},
	{"stop", 1, testStop, false},
	{"loss", 2, testLoss, false},
}

// Run tests a backend. Devices that use host memory directly are tested twice:
// with launches on host memory, and on buffers of the device.
func Run(t *testing.T, c Config) {
	if c.Impls == nil {
		c.Impls = GoImpls
	}
	// The first Open may start goroutines that a process has once and for all.
	// Those are no leak.
	ways := map[string]bool{"buffers": false}
	for _, d := range open(t, &c) {
		if d.Info().HostMemory {
			ways["host"] = true
		}
		if err := d.Close(); err != nil {
			t.Fatalf("close %s: %v", d.Info().Name, err)
		}
	}
	before := goleak.IgnoreCurrent()
	for _, way := range []string{"buffers", "host"} {
		direct, ok := ways[way]
		if !ok {
			continue
		}
		t.Run(way, func(t *testing.T) {
			for _, tc := range tests {
				if direct && tc.once {
					continue
				}
				t.Run(tc.name, func(t *testing.T) {
					t.Cleanup(func() {
						if !t.Failed() {
							goleak.VerifyNone(t, before)
						}
					})
					tc.run(newRig(t, &c, tc.devices, direct))
				})
			}
		})
	}
}

// open opens a new driver and checks that there is something.
func open(tb testing.TB, c *Config) []driver.Device {
	tb.Helper()
	drv := c.Open()
	devs, err := drv.Open(context.Background(), nil)
	if err != nil {
		tb.Fatalf("open %s: %v", drv.Name(), err)
	}
	if len(devs) == 0 {
		tb.Fatalf("open %s: no error and no devices; want ErrUnavailable", drv.Name())
	}
	for _, d := range devs {
		if got := d.Info().Backend; got != drv.Name() {
			tb.Errorf("%s says its backend is %q; its driver is called %q", d.Info().Name, got, drv.Name())
		}
	}
	return devs
}

// testInfo checks what all devices of a driver say about themselves.
func testInfo(r *rig) {
	names, uuids := map[string]bool{}, map[string]bool{}
	m := machine.Machine{Name: "test"}
	devs := open(r, r.c)
	for i, d := range devs {
		info := d.Info()
		if names[info.Name] || uuids[info.UUID] || info.UUID == "" {
			r.Errorf("name %q and identity %q must be there and be its own", info.Name, info.UUID)
		}
		names[info.Name], uuids[info.UUID] = true, true
		if len(info.Dialects) == 0 {
			r.Errorf("%s does not say which dialects it runs", info.Name)
		}
		if info.Model == "" {
			r.Errorf("%s has no model", info.Name)
		}
		if !info.HostMemory && info.MemBytes <= 0 {
			r.Errorf("%s has memory of its own and says it has %d bytes", info.Name, info.MemBytes)
		}
		if !info.HostMemory {
			m.Links = append(m.Links, machine.Link{A: machine.Host, B: machine.DeviceID(i), BPS: 1e9})
		}
		for _, name := range info.Resources {
			if !has(m.Resources, name) {
				m.Resources = append(m.Resources, machine.Resource{Name: name})
			}
		}
		m.Devices = append(m.Devices, info)
		for _, k := range []string{"noop", "add", "saxpy"} {
			if !info.CanRun(r.kernel(k)) {
				r.Errorf("%s cannot run %q by machine.Device.CanRun", info.Name, k)
			}
		}
	}
	if err := m.Validate(); err != nil {
		r.Errorf("a machine of these devices: %v", err)
	}
	for _, d := range devs {
		if err := d.Close(); err != nil {
			r.Error(err)
		}
	}
}

func has(rs []machine.Resource, name string) bool {
	for _, r := range rs {
		if r.Name == name {
			return true
		}
	}
	return false
}
