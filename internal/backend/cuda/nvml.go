package cuda

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/machine"
)

var nvmlNames = []string{"libnvidia-ml.so.1", "libnvidia-ml.so"}

// nvml is NVIDIA's management library: a GPU's condition and its place in the
// machine. Its functions may be called from any thread.
type nvml struct {
	errorString, byPCI                                 proc
	temperature, power, limit, clock, utilisation, mem proc
	ecc, linkState, linkVersion, linkRemote            proc
	pcieGen, pcieWidth, ancestor                       proc
	eventCreate, eventFree, eventRegister, eventWait   proc
}

func openNVML(folders []string) (*nvml, error) {
	lib, err := open(folders, nvmlNames...)
	if err != nil {
		return nil, err
	}
	n := &nvml{}
	start := lib.bind("nvmlInit_v2")
	for _, b := range []struct {
		to    *proc
		names string
	}{
		{&n.errorString, "nvmlErrorString"}, {&n.byPCI, "nvmlDeviceGetHandleByPciBusId_v2"},
		{&n.temperature, "nvmlDeviceGetTemperature"}, {&n.power, "nvmlDeviceGetPowerUsage"},
		{&n.limit, "nvmlDeviceGetEnforcedPowerLimit"}, {&n.clock, "nvmlDeviceGetClockInfo"},
		{&n.utilisation, "nvmlDeviceGetUtilizationRates"}, {&n.mem, "nvmlDeviceGetMemoryInfo"},
		{&n.ecc, "nvmlDeviceGetTotalEccErrors"},
		{&n.linkState, "nvmlDeviceGetNvLinkState"}, {&n.linkVersion, "nvmlDeviceGetNvLinkVersion"},
		{&n.linkRemote, "nvmlDeviceGetNvLinkRemotePciInfo_v2"},
		{&n.pcieGen, "nvmlDeviceGetMaxPcieLinkGeneration"}, {&n.pcieWidth, "nvmlDeviceGetMaxPcieLinkWidth"},
		{&n.ancestor, "nvmlDeviceGetTopologyCommonAncestor"},
		{&n.eventCreate, "nvmlEventSetCreate"}, {&n.eventFree, "nvmlEventSetFree"},
		{&n.eventRegister, "nvmlDeviceRegisterEvents"}, {&n.eventWait, "nvmlEventSetWait_v2 nvmlEventSetWait"},
	} {
		*b.to = lib.bind(strings.Fields(b.names)...)
	}
	f := getFrame()
	defer f.free()
	if err := n.do(f, &start); err != nil {
		return nil, err
	}
	return n, nil
}

// do calls a function of NVML.
func (n *nvml) do(f *frame, p *proc, args ...uintptr) error {
	if p.addr == 0 {
		return fmt.Errorf("%s: %w: this version of NVML does not have it", p.name, driver.ErrUnavailable)
	}
	code := int32(f.call(p, args...))
	if code == 0 {
		return nil
	}
	// NVML has codes of its own: none of them may be taken for one of libcuda's.
	text := cString(f.call(&n.errorString, uintptr(code)), 256)
	return fmt.Errorf("%s: NVML error %d: %s", p.name, code, text)
}

// gpu is a GPU as NVML knows it.
type gpu struct {
	*nvml
	handle uintptr
	events uintptr // set of fault events, 0 when there is none
	faults atomic.Int64
}

// gpu finds the GPU with a PCI address and begins to listen for its faults.
func (n *nvml) gpu(pci string) (*gpu, error) {
	f := getFrame()
	defer f.free()
	if err := n.do(f, &n.byPCI, f.string(pci), f.at(0)); err != nil {
		return nil, err
	}
	g := &gpu{nvml: n, handle: uintptr(f.out[0])}
	const xid, doubleBit = 0x8, 0x2
	if n.do(f, &n.eventCreate, f.at(0)) == nil {
		g.events = uintptr(f.out[0])
		// Not every GPU has both, and not every user may know.
		if n.do(f, &n.eventRegister, g.handle, xid|doubleBit, g.events) != nil && n.do(f, &n.eventRegister, g.handle, xid, g.events) != nil {
			_ = n.do(f, &n.eventFree, g.events)
			g.events = 0
		}
	}
	return g, nil
}

// number reads an unsigned int that p answers through its last argument.
func (g *gpu) number(f *frame, p *proc, args ...uintptr) (float64, bool) {
	f.out[0] = 0
	if g.do(f, p, append(append([]uintptr{g.handle}, args...), f.at(0))...) != nil {
		return -1, false
	}
	return float64(uint32(f.out[0])), true
}

// powerLimit is in watts, 0 when it is not known.
func (g *gpu) powerLimit() float64 {
	f := getFrame()
	defer f.free()
	mw, ok := g.number(f, &g.limit)
	if !ok {
		return 0
	}
	return mw / 1000
}

// Telemetry reads the GPU's condition from NVML.
func (d *device) Telemetry() (driver.Telemetry, error) {
	if d.gpu == nil {
		return driver.Telemetry{}, fmt.Errorf("cuda: telemetry of %s: %w: NVML is missing", d.info.Name, driver.ErrUnavailable)
	}
	return d.gpu.telemetry(), nil
}

func (g *gpu) telemetry() driver.Telemetry {
	f := getFrame()
	defer f.free()
	t := driver.Telemetry{Util: -1, MemUsed: -1, MemBytes: -1, PowerW: -1, MemErrors: -1}
	const sensorGPU, clockSM, uncorrected, sinceBoot = 0, 1, 1, 0
	t.TempC, _ = g.number(f, &g.temperature, sensorGPU)
	if mw, ok := g.number(f, &g.power); ok {
		t.PowerW = mw / 1000
	}
	t.ClockMHz, _ = g.number(f, &g.clock, clockSM)
	if g.do(f, &g.utilisation, g.handle, f.at(0)) == nil {
		t.Util = float64(f.i32(0)) / 100
	}
	if g.do(f, &g.mem, g.handle, f.at(0)) == nil && f.out[0] > 0 { // total, free, used
		t.MemUsed, t.MemBytes = float64(f.out[2])/float64(f.out[0]), int64(f.out[0])
	}
	if g.do(f, &g.ecc, g.handle, uncorrected, sinceBoot, f.at(0)) == nil {
		t.MemErrors = int64(f.out[0])
	}
	for g.events != 0 && g.do(f, &g.eventWait, g.events, f.at(0), 0) == nil {
		if e := (*eventData)(unsafe.Pointer(&f.out[0])); e.kind&doubleBitEvent != 0 || slices.Contains(grave, e.data) {
			g.faults.Add(1)
		}
	}
	t.Faults = g.faults.Load()
	return t
}

// eventData is nvmlEventData_t.
type eventData struct {
	device     uintptr
	kind, data uint64
	_          [2]uint32 // instances of a GPU that is cut into several
}

// doubleBitEvent is the kind of an event about memory that lost data.
const doubleBitEvent = 0x2

// grave are the Xid events after which a GPU is not to be trusted, by NVIDIA's
// list: memory errors that were not corrected (48, 64, 95), NVLink (74), the GPU
// off the bus (79), its own processor silent (119, 120). What a kernel did wrong
// ends its worker, and says nothing about the GPU.
var grave = []uint64{48, 64, 74, 79, 95, 119, 120}

// nvLinkBPS is the rate of one NVLink in each direction, in bytes per second, by
// version.
var nvLinkBPS = map[int]float64{1: 20e9, 2: 25e9, 3: 25e9, 4: 26.6e9, 5: 53e9}

// pcieBPS returns the rate of a PCI Express link in bytes per second, by generation
// and width, without encoding and packet overhead.
func pcieBPS(gen, width int) float64 {
	perLane := map[int]float64{1: 0.2e9, 2: 0.4e9, 3: 0.8e9, 4: 1.65e9, 5: 3.4e9, 6: 6.8e9}[gen]
	return perLane * float64(width)
}

// pciInfo is nvmlPciInfo_t.
type pciInfo struct {
	_                           [16]byte
	domain, bus, device, id, ss uint32
	busID                       [32]byte
}

// hostLink describes the link between the GPU's memory and the host's; without a rate
// where NVML does not say.
func (g *gpu) hostLink() machine.Link {
	f := getFrame()
	defer f.free()
	gen, ok := g.number(f, &g.pcieGen)
	width, ok2 := g.number(f, &g.pcieWidth)
	if !ok || !ok2 || gen == 0 || width == 0 {
		return machine.Link{}
	}
	return machine.Link{A: machine.Host, Kind: machine.PCIe, BPS: pcieBPS(int(gen), int(width)), LatencyNS: 8000}
}

// LinkTo describes the direct link between two GPUs, if there is one.
func (d *device) LinkTo(other driver.Device) (machine.Link, error) {
	o, ok := other.(*device)
	if !ok || d.gpu == nil || o.gpu == nil {
		return machine.Link{}, fmt.Errorf("cuda: links of %s: %w", d.info.Name, driver.ErrUnavailable)
	}
	f := getFrame()
	defer f.free()
	g := d.gpu
	const maxLinks = 18
	sum := 0.0
	for i := range uintptr(maxLinks) {
		if up, ok := g.number(f, &g.linkState, i); !ok || up == 0 {
			continue
		}
		version, _ := g.number(f, &g.linkVersion, i)
		if g.do(f, &g.linkRemote, g.handle, i, f.at(0)) != nil {
			continue
		}
		p := (*pciInfo)(unsafe.Pointer(&f.out[0]))
		remote, _, _ := strings.Cut(string(p.busID[:]), "\x00")
		// A link ends at the other GPU or at a switch, which reaches them all.
		if samePCI(remote, o.pci) || !d.isGPU(remote) {
			sum += nvLinkBPS[int(version)]
		}
	}
	if sum > 0 {
		return machine.Link{Kind: machine.NVLink, BPS: sum, LatencyNS: 2000}, nil
	}
	level, ok := g.number(f, &g.ancestor, o.gpu.handle)
	host := d.facts.HostLink
	if !ok || host.BPS == 0 {
		return machine.Link{}, fmt.Errorf("cuda: links of %s: %w: NVML does not say", d.info.Name, driver.ErrUnavailable)
	}
	host.A = 0
	switch {
	case level <= 20 && d.reaches(o, f): // one board, one switch or several of them
		host.Kind = machine.PCIeSwitch
	default: // through the processor
		host.Kind = machine.HostLink
		host.BPS /= 2
	}
	return host, nil
}

// isGPU reports whether a PCI address belongs to an open GPU.
func (d *device) isGPU(pci string) bool {
	f := getFrame()
	defer f.free()
	return d.nvml.do(f, &d.nvml.byPCI, f.string(pci), f.at(0)) == nil
}

// samePCI compares addresses whose domains are written with four or eight digits.
func samePCI(a, b string) bool {
	tail := func(s string) string {
		domain, rest, _ := strings.Cut(strings.ToLower(s), ":")
		return strings.TrimLeft(domain, "0") + ":" + rest
	}
	return tail(a) == tail(b)
}
