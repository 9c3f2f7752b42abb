package plan

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/weft-run/weft/machine"
)

// ErrNoRoom is returned by Distribute for arrays that cannot be placed.
var ErrNoRoom = errors.New("not enough memory")

// ErrArrays is returned by Distribute for arrays that make no sense.
var ErrArrays = errors.New("bad arrays")

// Role says what an array is for, and so whether it comes from the host and goes back.
type Role string

const (
	// Input comes from the host, once.
	Input Role = "input"
	// Weights come from the host and are only read.
	Weights Role = "weights"
	// State is made and kept on devices.
	State Role = "state"
	// Result goes to the host at the end.
	Result Role = "result"
	// Scratch is made on devices and dropped.
	Scratch Role = "scratch"
)

// Access says in what order an array is used. One that is used in order can be streamed
// from host memory behind the computation; one that is used at random waits for each part.
type Access string

const (
	// InOrder goes from the first byte to the last.
	InOrder Access = "in order"
	// Random goes anywhere at any time.
	Random Access = "random"
)

// Spread says on which devices an array is to be.
type Spread string

const (
	// Whole is on one device.
	Whole Spread = "whole"
	// Split is divided among all devices.
	Split Spread = "split"
	// Replicated is on every device.
	Replicated Spread = "replicated"
)

// Array is data that a job keeps in memory while it runs.
type Array struct {
	Name   string
	Bytes  int64
	Role   Role
	Access Access
	Spread Spread
	// Grain divides the size of each part of a split array; 0 means 256 bytes, as in
	// allocators. Of the grains of all arrays, larger ones are multiples of smaller ones.
	// Memory is given out in whole grains.
	Grain int64
	// Priority says which arrays stay on devices where not all can: higher ones do.
	Priority int
	// Window is the part of the array in bytes that must be on a device while the rest is in
	// host memory; 0 means that none of it may be in host memory.
	Window int64
	// Near names an array that tasks use together with this one: they go to the same device,
	// or to two with the fastest link between them.
	Near string
}

// Allocation is a part of an array in one memory.
type Allocation struct {
	Array    string
	On       machine.DeviceID // machine.Host for host memory
	Offset   int64            // in the array
	Bytes    int64
	Window   bool // it holds changing parts of an array that is in host memory
	Role     Role
	Access   Access
	Spread   Spread
	Priority int
}

// Transfer is a copy before (or for results after) the computation, with when it starts and
// ends in seconds from the first.
type Transfer struct {
	Array      string
	From, To   machine.DeviceID
	Offset     int64
	Bytes      int64
	Start, End float64
	After      bool // it waits for the computation, and times are counted from its end
}

// Spill is an array that stays in host memory.
type Spill struct {
	Array   string
	Windows int64   // how often a window is filled for one pass over the array
	Seconds float64 // that copying for one pass takes at least, by the fastest link
	// Hidden says that copies can run behind the computation, since the array is used in
	// order.
	Hidden bool
}

// Layout says where arrays are, how they get there, and which stay in host memory.
type Layout struct {
	// Order lists the devices such that those with the fastest links are neighbours: pairs
	// with NVLink come first. Parts of split arrays follow it.
	Order       []machine.DeviceID
	Allocations []Allocation
	Transfers   []Transfer
	Spills      []Spill
	// Used is the memory taken on each device of the machine, and Host in host memory.
	Used []int64
	Host int64
}

// Room is the memory that may be used.
type Room struct {
	// Devices are those to use; nil means all that have memory of their own.
	Devices []machine.DeviceID
	// Margin is the part of each device's memory that stays free, 0 to 1.
	Margin float64
}

// defaultGrain is the alignment of device allocators.
const defaultGrain = 256

// maxSearch is the number of placements that Distribute tries, for each of two orders of
// devices, before it gives up. Up to about ten arrays it tries all placements.
const maxSearch = 200_000

// Distribute places arrays in the memories of a machine. Arrays of high priority are on
// devices whenever any placement has them there; others go to host memory if they may.
// Input, weights and results also have their home in host memory. What fits in no way is
// refused with ErrNoRoom; the error says if that is proven or not found in maxSearch steps.
func Distribute(arrays []Array, m *machine.Machine, r Room) (*Layout, error) {
	s, err := newPlacing(arrays, m, r)
	if err != nil {
		return nil, err
	}
	for _, tight := range []bool{false, true} {
		s.tight, s.steps = tight, 0
		switch found := s.choose(0); {
		case found:
			return s.layout(), nil
		case s.steps < maxSearch:
			return nil, s.refusal(true)
		}
	}
	return nil, s.refusal(false)
}

// placing is the search for a placement: first the arrays that stay in host memory, then the
// device of each whole array. Split arrays fill the rest.
type placing struct {
	m      *machine.Machine
	order  []machine.DeviceID
	arrays []Array
	by     []int   // arrays by priority, then by size
	room   []int64 // of each device of order, for the arrays on all of them
	host   int64
	hosted []bool // stays in host memory
	on     []int  // position in order of each whole array, or of its window; -1 for not yet
	free   []int64
	near   [][]int
	tight  bool // try the fullest device first
	steps  int
}

func newPlacing(arrays []Array, m *machine.Machine, r Room) (*placing, error) {
	s := &placing{m: m, arrays: slices.Clone(arrays), hosted: make([]bool, len(arrays)), on: make([]int, len(arrays)), near: make([][]int, len(arrays))}
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("plan: %w: %w", ErrArrays, err)
	}
	if !(r.Margin >= 0 && r.Margin < 1) {
		return nil, fmt.Errorf("plan: margin %v: it must be at least 0 and below 1", r.Margin)
	}
	devices := r.Devices
	for i := range m.Devices {
		if r.Devices == nil && !m.Devices[i].HostMemory {
			devices = append(devices, machine.DeviceID(i))
		}
	}
	for _, d := range devices {
		if d < 0 || int(d) >= len(m.Devices) || m.Devices[d].HostMemory {
			return nil, fmt.Errorf("plan: device %d has no memory of its own", d)
		}
	}
	if len(devices) == 0 {
		return nil, fmt.Errorf("plan: %w: no device of %s has memory of its own; arrays are all in host memory there", ErrNoRoom, m.Name)
	}
	s.order = byLinks(m, devices)
	for _, d := range s.order {
		s.room = append(s.room, int64(float64(m.Devices[d].MemBytes)*(1-r.Margin)))
	}
	s.host = math.MaxInt64
	if m.HostBytes > 0 {
		s.host = m.HostBytes
	}
	for i := range s.arrays {
		s.by = append(s.by, i)
		s.on[i] = -1
	}
	slices.SortStableFunc(s.by, func(a, b int) int {
		return cmp.Or(cmp.Compare(s.arrays[b].Priority, s.arrays[a].Priority), cmp.Compare(s.arrays[b].Bytes, s.arrays[a].Bytes))
	})
	return s, nil
}

// check completes arrays and checks them.
func (s *placing) check() error {
	at := make(map[string]int)
	var grains []int64
	for i := range s.arrays {
		a := &s.arrays[i]
		a.Grain, a.Spread, a.Role, a.Access = cmp.Or(a.Grain, defaultGrain), cmp.Or(a.Spread, Whole), cmp.Or(a.Role, State), cmp.Or(a.Access, Random)
		_, twice := at[a.Name]
		switch {
		case a.Name == "" || twice:
			return fmt.Errorf("array %d has the name %q; names must not be empty or there twice", i, a.Name)
		case a.Bytes <= 0 || a.Bytes > math.MaxInt64/4 || a.Grain < 1 || a.Window < 0 || a.Window > a.Bytes:
			return fmt.Errorf("array %q: %d bytes in grains of %d with a window of %d", a.Name, a.Bytes, a.Grain, a.Window)
		case !slices.Contains([]Spread{Whole, Split, Replicated}, a.Spread):
			return fmt.Errorf("array %q: unknown spread %q; use %s, %s or %s", a.Name, a.Spread, Whole, Split, Replicated)
		case !slices.Contains([]Role{Input, Weights, State, Result, Scratch}, a.Role):
			return fmt.Errorf("array %q: unknown role %q; use %s, %s, %s, %s or %s", a.Name, a.Role, Input, Weights, State, Result, Scratch)
		case a.Access != InOrder && a.Access != Random:
			return fmt.Errorf("array %q: unknown access %q; use %s or %s", a.Name, a.Access, InOrder, Random)
		}
		at[a.Name] = i
		if a.Spread == Split {
			grains = append(grains, a.Grain)
		}
	}
	slices.Sort(grains)
	for i := 1; i < len(grains); i++ {
		if grains[i]%grains[i-1] != 0 {
			return fmt.Errorf("grain %d is no multiple of %d, the grain of another array", grains[i], grains[i-1])
		}
	}
	for i := range s.arrays {
		if name := s.arrays[i].Near; name != "" {
			j, ok := at[name]
			if !ok {
				return fmt.Errorf("array %q is to be near %q, which is not there", s.arrays[i].Name, name)
			}
			s.near[i], s.near[j] = append(s.near[i], j), append(s.near[j], i)
		}
	}
	return nil
}

// home reports whether an array has its place in host memory in any case.
func (a *Array) home() bool { return a.Role == Input || a.Role == Weights || a.Role == Result }

// taken returns the memory of a split array, in whole grains.
func (a *Array) taken() int64 { return (a.Bytes + a.Grain - 1) / a.Grain * a.Grain }

// choose decides of the array at a position of by, and of those after it, whether it is on
// devices, which is tried first, or in host memory.
func (s *placing) choose(k int) bool {
	if s.steps++; s.steps > maxSearch {
		return false
	}
	if !s.possible(k) {
		return false
	}
	if k == len(s.by) {
		return s.pack()
	}
	i := s.by[k]
	s.hosted[i] = false
	if s.choose(k + 1) {
		return true
	}
	if s.arrays[i].Window == 0 {
		return false
	}
	s.hosted[i] = true
	if s.choose(k + 1) {
		return true
	}
	s.hosted[i] = false
	return false
}

// possible reports whether the first k choices can lead to a placement, by sums alone.
func (s *placing) possible(k int) bool {
	all, whole, host := int64(0), int64(0), int64(0) // on every device, on some, in the host
	for pos, i := range s.by {
		a := &s.arrays[i]
		bytes := a.Bytes
		switch {
		case pos < k && s.hosted[i]:
			bytes = a.Window
		case pos >= k && a.Window > 0:
			bytes = min(bytes, a.Window)
		}
		if a.home() || pos < k && s.hosted[i] {
			host = sum(host, a.Bytes)
		}
		switch {
		case a.Spread == Replicated || a.Spread == Split && pos < k && s.hosted[i]:
			all = sum(all, bytes)
		default:
			whole = sum(whole, bytes)
		}
	}
	room := int64(0)
	for _, free := range s.room {
		if free < all {
			return false
		}
		room = sum(room, free-all)
	}
	return whole <= room && host <= s.host
}

// sum adds sizes; too much is the largest there is.
func sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// pack places all arrays that are not on every device.
func (s *placing) pack() bool {
	s.free = slices.Clone(s.room)
	var whole []int
	for i := range s.arrays {
		a := &s.arrays[i]
		s.on[i] = -1
		every := int64(0)
		switch {
		case a.Spread == Replicated && !s.hosted[i]:
			every = a.Bytes
		case s.hosted[i] && a.Spread != Whole:
			every = a.Window
		case a.Spread == Whole:
			whole = append(whole, i)
		}
		for d := range s.free {
			if s.free[d] -= every; s.free[d] < 0 {
				return false
			}
		}
	}
	slices.SortStableFunc(whole, func(a, b int) int { return cmp.Compare(s.need(b), s.need(a)) })
	return s.packWhole(whole)
}

// need returns the memory that a whole array takes on its device.
func (s *placing) need(i int) int64 {
	if s.hosted[i] {
		return s.arrays[i].Window
	}
	return s.arrays[i].Bytes
}

// packWhole gives each of some arrays a device, and returns whether split arrays then fit
// as well.
func (s *placing) packWhole(left []int) bool {
	if s.steps++; s.steps > maxSearch {
		return false
	}
	if !s.splitsFit() {
		return false
	}
	if len(left) == 0 {
		return true
	}
	i := left[0]
	bytes := s.need(i)
	var tried []int64
	for _, d := range s.devicesFor(i) {
		// Devices with equal room are the same to whether the rest fits.
		if s.free[d] < bytes || slices.Contains(tried, s.free[d]) {
			continue
		}
		tried = append(tried, s.free[d])
		s.free[d] -= bytes
		s.on[i] = d
		if s.packWhole(left[1:]) {
			return true
		}
		s.free[d] += bytes
		s.on[i] = -1
	}
	return false
}

// devicesFor lists devices in the order to try for an array: first those nearest to the
// arrays it is used with, then those with most room, or where it is tight with least.
func (s *placing) devicesFor(i int) []int {
	all := make([]int, len(s.order))
	rate := make([]float64, len(s.order))
	for d := range all {
		all[d] = d
		for _, other := range s.near[i] {
			if on := s.on[other]; on >= 0 {
				rate[d] += between(s.m, s.order[d], s.order[on])
			}
		}
	}
	slices.SortStableFunc(all, func(a, b int) int {
		room := cmp.Compare(s.free[b], s.free[a])
		if s.tight {
			return cmp.Or(-room, cmp.Compare(rate[b], rate[a]))
		}
		return cmp.Or(cmp.Compare(rate[b], rate[a]), room)
	})
	return all
}

// splitsFit reports whether split arrays fit into the free memory. Since larger grains are
// multiples of smaller ones, it does not matter for that which parts go where: with larger
// grains first, the room left for smaller ones is the same.
func (s *placing) splitsFit() bool {
	taken := int64(0)
	for _, i := range s.splits() {
		a := &s.arrays[i]
		room := int64(0)
		for _, free := range s.free {
			room = sum(room, free/a.Grain*a.Grain)
		}
		if taken = sum(taken, a.taken()); taken > room {
			return false
		}
	}
	return true
}

// splits lists split arrays that are on devices, larger grains first.
func (s *placing) splits() (out []int) {
	for i := range s.arrays {
		if s.arrays[i].Spread == Split && !s.hosted[i] {
			out = append(out, i)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(s.arrays[b].Grain, s.arrays[a].Grain) })
	return out
}

// refusal says what does not fit.
func (s *placing) refusal(proven bool) error {
	need, room, host := int64(0), int64(0), int64(0)
	for i := range s.arrays {
		a := &s.arrays[i]
		bytes := a.Bytes
		if a.Window > 0 {
			bytes = a.Window
		}
		if a.Spread == Replicated {
			bytes *= int64(len(s.room))
		}
		need = sum(need, bytes)
		if a.home() || a.Window > 0 {
			host = sum(host, a.Bytes)
		}
	}
	for _, free := range s.room {
		room = sum(room, free)
	}
	how := "no placement exists"
	if !proven {
		how = fmt.Sprintf("none of %d placements that were tried fits", 2*maxSearch)
	}
	text := fmt.Sprintf("arrays take %s of devices at least, which have %s", sizeText(need), sizeText(room))
	if s.host < math.MaxInt64 {
		text += fmt.Sprintf(", and up to %s of host memory, which has %s", sizeText(host), sizeText(s.host))
	}
	return fmt.Errorf("plan: %w: %s on %s: %s; use more devices, smaller arrays, or a window for some", ErrNoRoom, how, s.m.Name, text)
}
