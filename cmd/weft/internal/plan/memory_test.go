package plan

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weft-run/weft/machine"
)

// someMemory returns a machine of a few devices of a few bytes.
func someMemory(r *rand.Rand) *machine.Machine {
	m := &machine.Machine{Name: "m"}
	if r.IntN(2) == 0 {
		m.HostBytes = int64(4 + r.IntN(40))
	}
	for i := range 1 + r.IntN(3) {
		m.Devices = append(m.Devices, machine.Device{Name: fmt.Sprint("gpu:", i), MemBytes: int64(3 + r.IntN(14))})
		m.Links = append(m.Links, machine.Link{A: machine.DeviceID(i), B: machine.Host, BPS: 10})
		if i > 0 && r.IntN(2) == 0 {
			m.Links = append(m.Links, machine.Link{A: machine.DeviceID(i), B: 0, Kind: machine.NVLink, BPS: 100})
		}
	}
	return m
}

func someArrays(r *rand.Rand) (out []Array) {
	roles := []Role{Input, Weights, State, Result, Scratch}
	spreads := []Spread{Whole, Whole, Split, Replicated}
	for i := range 1 + r.IntN(5) {
		a := Array{
			Name: fmt.Sprint("a", i), Bytes: int64(1 + r.IntN(12)), Role: roles[r.IntN(5)], Spread: spreads[r.IntN(4)],
			Grain: []int64{1, 2, 4}[r.IntN(3)], Priority: r.IntN(3), Access: Random,
		}
		if r.IntN(2) == 0 {
			a.Window = 1 + r.Int64N(a.Bytes)
		}
		if i > 0 && r.IntN(3) == 0 {
			a.Near = "a0"
		}
		out = append(out, a)
	}
	return out
}

// fits says by trying all placements whether arrays fit, those of hosted in host memory.
func fits(arrays []Array, hosted []bool, free []int64, host int64) bool {
	free = slices.Clone(free)
	var parts []Array // what can go anywhere: whole ones, and grains of split ones
	for i, a := range arrays {
		if a.home() || hosted[i] {
			if host -= a.Bytes; host < 0 {
				return false
			}
		}
		if hosted[i] {
			a.Bytes = a.Window
			if a.Spread == Split {
				a.Spread = Replicated // a window on every device
			}
		}
		switch a.Spread {
		case Replicated:
			for d := range free {
				if free[d] -= a.Bytes; free[d] < 0 {
					return false
				}
			}
		case Whole:
			parts = append(parts, a)
		default:
			for range (a.Bytes + a.Grain - 1) / a.Grain {
				parts = append(parts, Array{Bytes: a.Grain})
			}
		}
	}
	seen := make(map[string]bool)
	var try func(k int) bool
	try = func(k int) bool {
		if k == len(parts) {
			return true
		}
		key := fmt.Sprint(k, free)
		if seen[key] {
			return false
		}
		seen[key] = true
		for d := range free {
			if free[d] >= parts[k].Bytes {
				free[d] -= parts[k].Bytes
				if try(k + 1) {
					return true
				}
				free[d] += parts[k].Bytes
			}
		}
		return false
	}
	return try(0)
}

// bestHosted returns which arrays stay in host memory at best: the first set that fits, if
// those of low priority go there first; ok is false if none fits.
func bestHosted(arrays []Array, free []int64, host int64) (hosted []bool, ok bool) {
	order := make([]int, len(arrays))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(arrays[b].Priority, arrays[a].Priority), cmp.Compare(arrays[b].Bytes, arrays[a].Bytes))
	})
	n := len(order)
sets:
	for set := range 1 << n { // the highest bit is the array of highest priority
		hosted = make([]bool, n)
		for k, i := range order {
			if hosted[i] = set>>(n-1-k)&1 == 1; hosted[i] && arrays[i].Window == 0 {
				continue sets
			}
		}
		if fits(arrays, hosted, free, host) {
			return hosted, true
		}
	}
	return nil, false
}

// Arrays are refused exactly if trying everything finds no placement. Otherwise those of
// high priority are on devices, every byte is placed once or as replicas, and no memory
// holds more than it has.
func TestDistribute(t *testing.T) {
	refused, spilled := 0, 0
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 5))
		m, arrays := someMemory(r), someArrays(r)
		var free []int64
		for i := range m.Devices {
			free = append(free, m.Devices[i].MemBytes)
		}
		host := m.HostBytes
		if host == 0 {
			host = 1 << 40
		}
		want, ok := bestHosted(arrays, free, host)
		l, err := Distribute(arrays, m, Room{})
		if (err == nil) != ok {
			t.Fatalf("seed %d: %v, and there is a placement: %v", seed, err, ok)
		}
		if err != nil {
			refused++
			if !errors.Is(err, ErrNoRoom) || !strings.Contains(err.Error(), "no placement exists") {
				t.Fatalf("seed %d: %v", seed, err)
			}
			continue
		}
		for i, a := range arrays {
			in := slices.ContainsFunc(l.Spills, func(s Spill) bool { return s.Array == a.Name })
			if in != want[i] {
				t.Fatalf("seed %d: %s is in host memory: %v; %+v", seed, a.Name, in, arrays)
			}
			if in {
				spilled++
			}
		}
		if why := wrong(arrays, m, l); why != "" {
			t.Fatalf("seed %d: %s\n%+v\n%+v", seed, why, arrays, l)
		}
	}
	if refused < 100 || spilled < 100 {
		t.Errorf("%d refused and %d arrays in host memory: these cases test little", refused, spilled)
	}
}

// wrong says what is wrong with a layout.
func wrong(arrays []Array, m *machine.Machine, l *Layout) string {
	used, host := make([]int64, len(m.Devices)), int64(0)
	type place struct {
		array string
		on    machine.DeviceID
	}
	covered := make(map[string]int64)
	copies := make(map[place]int)
	next := make(map[string]int64)
	grain := make(map[string]int64)
	for _, a := range arrays {
		grain[a.Name] = a.Grain
	}
	for _, x := range l.Allocations {
		copies[place{x.Array, x.On}]++
		switch {
		case x.On == machine.Host:
			host += x.Bytes
			continue
		case x.Window:
		case x.Spread == Split:
			if x.Offset != next[x.Array] || x.Offset%grain[x.Array] != 0 {
				return "parts of " + x.Array + " do not follow one another"
			}
			next[x.Array] += x.Bytes
			covered[x.Array] += x.Bytes
		default:
			covered[x.Array] += x.Bytes
		}
		used[x.On] += x.Bytes
	}
	for p, n := range copies {
		if n > 1 {
			return p.array + " is there twice"
		}
	}
	for i := range used {
		if used[i] > l.Used[i] || l.Used[i] > m.Devices[i].MemBytes {
			return fmt.Sprintf("%d bytes, stated %d, on device %d", used[i], l.Used[i], i)
		}
	}
	if host != l.Host || m.HostBytes > 0 && host > m.HostBytes {
		return fmt.Sprintf("%d bytes, stated %d, in host memory", host, l.Host)
	}
	arrive := make(map[place]bool)
	for _, x := range l.Transfers {
		if !(x.Start >= 0 && x.End > x.Start) || arrive[place{x.Array, x.To}] && !x.After {
			return fmt.Sprintf("transfer %+v", x)
		}
		arrive[place{x.Array, x.To}] = true
	}
	for _, a := range arrays {
		want := a.Bytes
		if a.Spread == Replicated {
			want *= int64(len(m.Devices))
		}
		if slices.ContainsFunc(l.Spills, func(s Spill) bool { return s.Array == a.Name }) {
			want = 0
		}
		if covered[a.Name] != want {
			return fmt.Sprintf("%d of %d bytes of %s", covered[a.Name], want, a.Name)
		}
		for d := range m.Devices {
			here := copies[place{a.Name, machine.DeviceID(d)}] > 0 && want > 0 && (a.Role == Input || a.Role == Weights)
			if here != arrive[place{a.Name, machine.DeviceID(d)}] {
				return fmt.Sprintf("%s is on %d: %v, and is sent there: %v", a.Name, d, here, !here)
			}
		}
	}
	return ""
}

// Arrays that are used together are on devices with NVLink between them, and one replica
// crosses the host's links.
func TestDistributeByLinks(t *testing.T) {
	m := &machine.Machine{Name: "pairs", HostBPS: 15e9}
	for i := range 4 {
		m.Devices = append(m.Devices, machine.Device{Name: fmt.Sprint("gpu:", i), MemBytes: 10e9})
		m.Links = append(m.Links, machine.Link{A: machine.DeviceID(i), B: machine.Host, BPS: 10e9})
		for j := range i {
			m.Links = append(m.Links, machine.Link{A: machine.DeviceID(i), B: machine.DeviceID(j), BPS: 8e9})
		}
	}
	link := func(a, b machine.DeviceID) { // NVLink pairs 0-2 and 1-3
		m.Links = append(m.Links, machine.Link{A: a, B: b, Kind: machine.NVLink, BPS: 200e9})
	}
	link(0, 2)
	link(1, 3)
	l, err := Distribute([]Array{
		{Name: "a", Bytes: 7e9, Role: State}, {Name: "b", Bytes: 7e9, Role: State, Near: "a"}, {Name: "w", Bytes: 1e9, Role: Weights, Spread: Replicated},
	}, m, Room{})
	if err != nil {
		t.Fatal(err)
	}
	if want := []machine.DeviceID{0, 2, 1, 3}; !slices.Equal(l.Order, want) {
		t.Errorf("order %v, want %v", l.Order, want)
	}
	on := make(map[string]machine.DeviceID)
	for _, a := range l.Allocations {
		if a.Spread == Whole {
			on[a.Array] = a.On
		}
	}
	if between(m, on["a"], on["b"]) != 200e9 {
		t.Errorf("a is on %d and b on %d", on["a"], on["b"])
	}
	peers := 0
	for _, x := range l.Transfers {
		if x.From != machine.Host && between(m, x.From, x.To) == 200e9 {
			peers++
		}
	}
	if peers == 0 {
		t.Errorf("no replica is sent by NVLink: %+v", l.Transfers)
	}
}

func TestDistributeMargin(t *testing.T) {
	m := &machine.Machine{Name: "m", Devices: []machine.Device{{Name: "gpu", MemBytes: 1000}}}
	a := []Array{{Name: "a", Bytes: 900}}
	if _, err := Distribute(a, m, Room{Margin: 0.1}); err != nil {
		t.Error(err)
	}
	if _, err := Distribute(a, m, Room{Margin: 0.11}); !errors.Is(err, ErrNoRoom) {
		t.Error(err)
	}
}

func TestDistributeErrors(t *testing.T) {
	m := &machine.Machine{Name: "m", Devices: []machine.Device{{Name: "gpu", MemBytes: 1000}, {Name: "cpu", HostMemory: true}}}
	for _, c := range []struct {
		a    []Array
		r    Room
		want string
	}{
		{[]Array{{Name: "", Bytes: 1}}, Room{}, "name"},
		{[]Array{{Name: "a", Bytes: 1}, {Name: "a", Bytes: 1}}, Room{}, "twice"},
		{[]Array{{Name: "a"}}, Room{}, "0 bytes"},
		{[]Array{{Name: "a", Bytes: 1, Spread: "wide"}}, Room{}, "unknown spread"},
		{[]Array{{Name: "a", Bytes: 1, Role: "x"}}, Room{}, "unknown role"},
		{[]Array{{Name: "a", Bytes: 1, Access: "x"}}, Room{}, "unknown access"},
		{[]Array{{Name: "a", Bytes: 1, Near: "b"}}, Room{}, "not there"},
		{[]Array{{Name: "a", Bytes: 9, Grain: 3, Spread: Split}, {Name: "b", Bytes: 9, Grain: 2, Spread: Split}}, Room{}, "grain 3 is no multiple of 2"},
		{[]Array{{Name: "a", Bytes: 1}}, Room{Margin: 1}, "margin"},
		{[]Array{{Name: "a", Bytes: 1}}, Room{Devices: []machine.DeviceID{1}}, "memory of its own"},
		{[]Array{{Name: "a", Bytes: 1}}, Room{Devices: []machine.DeviceID{}}, "no device"},
	} {
		if _, err := Distribute(c.a, m, c.r); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.a, err, c.want)
		}
	}
	given := &placing{m: m}
	if err := given.refusal(false); !errors.Is(err, ErrNoRoom) || !strings.Contains(err.Error(), "none of 400000 placements") {
		t.Errorf("after 200,000 placements in each of two orders: %v", err)
	}
}
