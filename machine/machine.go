package machine

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode"

	"github.com/weft-run/weft/graph"
)

// ErrInvalid is wrapped by the errors of Validate.
var ErrInvalid = errors.New("invalid machine")

// DeviceID is a device's position in its machine.
type DeviceID int32

// Host stands for host memory where a device is expected, as in a copy's ends.
const Host DeviceID = -1

// Kind is the kind of hardware a device is.
type Kind uint8

const (
	CPU        Kind = iota // processor cores
	Discrete               // a GPU with memory of its own
	Integrated             // a GPU that shares the host's memory
	Virtual                // a GPU lent by a hypervisor
)

var kindNames = []string{"cpu", "discrete", "integrated", "virtual"}

// String returns the name ParseKind accepts.
func (k Kind) String() string { return nameOf(kindNames, int(k)) }

// ParseKind returns the kind with a name.
func ParseKind(s string) (Kind, error) {
	i, err := indexOf("device kind", kindNames, s)
	return Kind(i), err
}

// Rates are the measured rates of a device; zero means not measured.
type Rates struct {
	// Ops per second for each graph.Unit.
	Ops [graph.NumUnits]float64
	// MemoryBPS is device memory bandwidth in bytes per second.
	MemoryBPS float64
	// LaunchNS is the cost of starting an empty kernel among others, ReplyNS the time from
	// giving one to an idle device until its end is known.
	LaunchNS float64
	ReplyNS  float64
}

// Device is one device as the scheduler sees it.
type Device struct {
	Name    string // as in "cuda:0"
	PartOf  string // the device it is a part of, where a Selection divides that; not in machine files
	Model   string // as in "NVIDIA H200"
	Kind    Kind
	Backend string // the name of the backend, as in "cuda"
	// Dialects are the dialects that the device runs, the same for all devices of a backend. Every backend
	// sets them. A machine file may leave them out for the backends in defaultDialects.
	Dialects []graph.Dialect
	// Apart says that the device runs no abstract kernels, only kernels of its Dialects. It is not in
	// machine files.
	Apart bool
	Arch  string // as the backend names the architecture
	// Rounding names a group among the devices of a backend, which give the same bytes for the same
	// kernel (see RoundAlike). It is empty where all devices of the backend do.
	Rounding string
	// Cluster is the most blocks of a launch that a graph.Launch.Cluster may have, 0 for none.
	Cluster int
	// LoopRounds is the number of rounds of all loops of an invocation together after which the device
	// ends them, 0 for no limit.
	LoopRounds int
	UUID       string // identity across runs
	// Driver says what drives the device, with its version and whatever else
	// changes its speed from outside, as a power limit or a quota: figures
	// measured under another one do not hold.
	Driver string
	// MemBytes is the memory a program can allocate. A device with HostMemory
	// uses host memory directly and needs no copies; its MemBytes is a quota.
	MemBytes     int64
	ArgBytes     int64 // the most a kernel reaches of one buffer it is given; 0 for no limit
	HostMemory   bool
	ComputeUnits int // shader cores; for a CPU, cores
	SIMDLanes    int // for a CPU, 32-bit lanes of a vector register
	Lanes        int // kernels it runs at once; 0 means 1
	// Team says that its lanes are cores that work on a kernel together: a launch takes
	// as many of them as it has items (Width). Otherwise a launch takes one lane.
	Team       bool
	NUMA       int
	Exact      bool    // runs no library routines
	Joins      string  // the library by which it takes part in native collectives, as "nccl"; empty for none
	PowerWatts float64 // at full load, 0 unknown
	Rates      Rates
	// Resources name what the device shares with others while computing, as a
	// GPU divided into several devices or the memory bus of CPU devices.
	Resources []string
}

// LinkKind is the technology of a link.
type LinkKind uint8

const (
	PCIe       LinkKind = iota // point to point
	PCIeSwitch                 // through a switch shared with others
	NVLink                     // or another vendor's fabric between GPUs
	HostLink                   // through host memory
	Network                    // between machines
)

var linkKindNames = []string{"pcie", "pcie-switch", "nvlink", "host", "network"}

// String returns the name ParseLinkKind accepts.
func (k LinkKind) String() string { return nameOf(linkKindNames, int(k)) }

// ParseLinkKind returns the link kind with a name.
func ParseLinkKind(s string) (LinkKind, error) {
	i, err := indexOf("link kind", linkKindNames, s)
	return LinkKind(i), err
}

func nameOf(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("unknown(%d)", i)
}

func indexOf(what string, names []string, s string) (int, error) {
	for i, n := range names {
		if n == s {
			return i, nil
		}
	}
	return 0, fmt.Errorf("unknown %s %q; use one of %s", what, s, strings.Join(names, ", "))
}

// Link joins the memories of two devices, or of a device and the host.
type Link struct {
	A, B      DeviceID // Host for host memory
	Kind      LinkKind
	BPS       float64 // bytes per second in each direction
	LatencyNS float64
	// Resources name what the link shares with others, as a PCIe switch.
	Resources []string
}

// Resource is something concurrent users divide among themselves.
type Resource struct {
	Name string
	// BPS is the rate users share; 0 means a user alone is not limited by it
	// but n users run at 1/n each.
	BPS float64
	// Cores, when not 0, is the number of processor cores that users share
	// instead of a rate: each takes as many as it has ComputeUnits, and users that
	// take more than Cores together run at that fraction of their speed (see Crowds).
	Cores int
}

// HostCores is the resource that devices name which compute on the processor
// cores of the machine they are in, whatever drives them.
const HostCores = "host cores"

// HostMemory is the resource that devices name which read and write host memory as
// they compute.
const HostMemory = "host memory"

// Machine is a set of devices, the links between them and what they share.
type Machine struct {
	Name      string
	Devices   []Device
	Links     []Link
	Resources []Resource
	// HostBytes is the host memory weft may use for data; 0 means no limit.
	HostBytes int64
	// HostBPS is the bandwidth of a copy within host memory.
	HostBPS float64
	// HostWatts is the power of the machine at full load without its devices: memory,
	// drives, fans, losses. BudgetWatts is the power that its supply allows. 0 means
	// unknown.
	HostWatts, BudgetWatts float64
	// Storage and Network say what else is in the machine. Nothing is planned by them.
	Storage []Storage
	Network []Adapter
}

// Storage is drives of a machine.
type Storage struct {
	Name  string // as in "nvme"
	Model string
	Bytes int64   // 0 unknown
	BPS   float64 // bytes per second that can be read, 0 unknown
}

// Adapter joins a machine to others by a network. Links between devices of several
// machines are Links.
type Adapter struct {
	Name  string // as in "eth"
	Model string
	BPS   float64 // bytes per second in each direction, 0 unknown
}

// Watts returns what the machine draws at full load: its devices and HostWatts. Where a
// figure is missing, it is the sum of the others and whole is false.
func (m *Machine) Watts() (watts float64, whole bool) {
	watts, whole = m.HostWatts, m.HostWatts > 0
	for i := range m.Devices {
		watts += m.Devices[i].PowerWatts
		whole = whole && m.Devices[i].PowerWatts > 0
	}
	return watts, whole
}

// Lookup returns the device with a name; "host" is Host.
func (m *Machine) Lookup(name string) (DeviceID, bool) {
	if name == hostName {
		return Host, true
	}
	for i := range m.Devices {
		if m.Devices[i].Name == name {
			return DeviceID(i), true
		}
	}
	return 0, false
}

// DeviceName returns the name of a device, "host" for Host.
func (m *Machine) DeviceName(d DeviceID) string {
	if d == Host {
		return hostName
	}
	return m.Devices[d].Name
}

// MemoryOf returns the device whose memory d computes in: d itself, or Host for
// Host and for a device with HostMemory.
func (m *Machine) MemoryOf(d DeviceID) DeviceID {
	if d == Host || m.Devices[d].HostMemory {
		return Host
	}
	return d
}

// hostName is the name of host memory where a device name is expected.
const hostName = "host"

// maxDevices and maxLinks limit a machine, so that a file of a few bytes cannot ask
// for all memory.
const (
	maxDevices = 1 << 14
	maxLinks   = 1 << 18
)

// Validate reports the first thing that makes the machine unusable, wrapping
// ErrInvalid.
func (m *Machine) Validate() error {
	if _, err := m.check(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

// entry is a position in a machine's lists, by which Decode finds the line.
type entry struct {
	list  list
	index int
}

type list uint8

const (
	inMachine list = iota
	inResources
	inDevices
	inLinks
	inStorage
	inNetwork
	numLists
)

// check is Validate that also says where.
func (m *Machine) check() (entry, error) {
	whole := entry{list: inMachine}
	switch {
	case len(m.Devices) == 0:
		return whole, errors.New("no devices; a machine needs at least one")
	case len(m.Devices) > maxDevices:
		return whole, fmt.Errorf("%d devices; at most %d are supported", len(m.Devices), maxDevices)
	case len(m.Links) > maxLinks:
		return whole, fmt.Errorf("%d links; at most %d are supported", len(m.Links), maxLinks)
	case m.HostBytes < 0:
		return whole, fmt.Errorf("negative host memory %d", m.HostBytes)
	case badRate(m.HostBPS):
		return whole, fmt.Errorf("bad host bandwidth %v", m.HostBPS)
	}
	if at, err := m.checkEquipment(); err != nil {
		return at, err
	}
	resources := make(map[string]bool, len(m.Resources))
	for i, r := range m.Resources {
		at := entry{inResources, i}
		switch {
		case r.Name == "" || strings.ContainsAny(r.Name, "{}"):
			return at, fmt.Errorf("bad resource name %q; it must not be empty or hold braces", r.Name)
		case resources[r.Name]:
			return at, fmt.Errorf("resource %q is there twice", r.Name)
		case badRate(r.BPS):
			return at, fmt.Errorf("resource %q: bad rate %v", r.Name, r.BPS)
		case r.Cores < 0 || r.Cores > 0 && r.BPS > 0:
			return at, fmt.Errorf("resource %q: %d cores and a rate of %v; it is either cores or a rate that is shared", r.Name, r.Cores, r.BPS)
		}
		resources[r.Name] = true
	}
	known := func(names []string) error {
		for _, n := range names {
			if !resources[n] {
				return fmt.Errorf("unknown resource %q; list it under resources", n)
			}
		}
		return nil
	}
	devices := make(map[string]bool, len(m.Devices))
	for i := range m.Devices {
		d := &m.Devices[i]
		at := entry{inDevices, i}
		if err := d.check(); err != nil {
			return at, err
		}
		if devices[d.Name] {
			return at, fmt.Errorf("device %q is there twice", d.Name)
		}
		devices[d.Name] = true
		if err := known(d.Resources); err != nil {
			return at, fmt.Errorf("device %q: %w", d.Name, err)
		}
	}
	for i := range m.Links {
		l := &m.Links[i]
		at := entry{inLinks, i}
		for _, end := range []DeviceID{l.A, l.B} {
			if end < Host || int(end) >= len(m.Devices) {
				return at, fmt.Errorf("link to unknown device %d", end)
			}
		}
		switch name := m.DeviceName(l.A) + " to " + m.DeviceName(l.B); {
		case l.A == l.B:
			return at, fmt.Errorf("link %s joins a memory to itself", name)
		case int(l.Kind) >= len(linkKindNames):
			return at, fmt.Errorf("link %s: unknown link kind %d", name, l.Kind)
		case badRate(l.BPS) || l.BPS == 0:
			return at, fmt.Errorf("link %s: bad rate %v; it must be above 0", name, l.BPS)
		case badRate(l.LatencyNS):
			return at, fmt.Errorf("link %s: bad latency %v", name, l.LatencyNS)
		default:
			if err := known(l.Resources); err != nil {
				return at, fmt.Errorf("link %s: %w", name, err)
			}
		}
	}
	return entry{}, nil
}

// checkEquipment checks power, storage and network.
func (m *Machine) checkEquipment() (entry, error) {
	if badRate(m.HostWatts) || badRate(m.BudgetWatts) {
		return entry{list: inMachine}, fmt.Errorf("bad power %v of the host or budget %v", m.HostWatts, m.BudgetWatts)
	}
	bad := func(name string) bool {
		return name == "" || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
	}
	for i, s := range m.Storage {
		switch at := (entry{inStorage, i}); {
		case bad(s.Name):
			return at, fmt.Errorf("bad storage name %q; use a word such as nvme", s.Name)
		case s.Bytes < 0 || badRate(s.BPS):
			return at, fmt.Errorf("storage %q: bad size %d or rate %v", s.Name, s.Bytes, s.BPS)
		}
	}
	for i, n := range m.Network {
		switch at := (entry{inNetwork, i}); {
		case bad(n.Name):
			return at, fmt.Errorf("bad network name %q; use a word such as eth", n.Name)
		case badRate(n.BPS):
			return at, fmt.Errorf("network %q: bad rate %v", n.Name, n.BPS)
		}
	}
	return entry{}, nil
}

// check checks a device by itself.
func (d *Device) check() error {
	// Device lists join names with commas and people type them, so no blanks.
	unprintable := func(r rune) bool { return r == ',' || unicode.IsSpace(r) || !unicode.IsPrint(r) }
	switch {
	case d.Name == "" || d.Name == hostName || strings.ContainsFunc(d.Name, unprintable):
		return fmt.Errorf("bad device name %q; use a word such as cuda:0, and not host", d.Name)
	case int(d.Kind) >= len(kindNames):
		return fmt.Errorf("device %q: unknown device kind %d", d.Name, d.Kind)
	case d.MemBytes < 0 || d.ComputeUnits < 0 || d.SIMDLanes < 0 || d.Lanes < 0 || d.Cluster < 0 || d.LoopRounds < 0:
		return fmt.Errorf("device %q: negative memory, cores, lanes, cluster or loop rounds", d.Name)
	case badRate(d.PowerWatts):
		return fmt.Errorf("device %q: bad power %v", d.Name, d.PowerWatts)
	case badRate(d.Rates.MemoryBPS) || badRate(d.Rates.LaunchNS) || badRate(d.Rates.ReplyNS):
		return fmt.Errorf("device %q: bad memory rate %v, launch time %v or reply time %v", d.Name, d.Rates.MemoryBPS, d.Rates.LaunchNS, d.Rates.ReplyNS)
	}
	for u, r := range d.Rates.Ops {
		if badRate(r) {
			return fmt.Errorf("device %q: bad %v rate %v", d.Name, graph.Unit(u), r)
		}
	}
	return nil
}

func badRate(x float64) bool { return x < 0 || math.IsNaN(x) || math.IsInf(x, 0) }
