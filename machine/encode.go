package machine

import (
	"bytes"
	"encoding/json"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/text"
)

// The encoded form of a machine's entries. A nil quantity is left out.
type (
	encodedHost struct {
		Memory    any `json:"memory,omitempty"`
		Bandwidth any `json:"bandwidth,omitempty"`
		Power     any `json:"power,omitempty"`
	}
	encodedStorage struct {
		Name  string `json:"name"`
		Model string `json:"model,omitempty"`
		Size  any    `json:"size,omitempty"`
		Rate  any    `json:"rate,omitempty"`
	}
	encodedAdapter struct {
		Name  string `json:"name"`
		Model string `json:"model,omitempty"`
		Rate  any    `json:"rate,omitempty"`
	}
	encodedResource struct {
		Name  string `json:"name"`
		Rate  any    `json:"rate,omitempty"`
		Cores int    `json:"cores,omitempty"`
	}
	encodedDevice struct {
		Name       string        `json:"name"`
		Model      string        `json:"model,omitempty"`
		Kind       string        `json:"kind"`
		Backend    string        `json:"backend,omitempty"`
		Dialects   []string      `json:"dialects,omitempty"`
		Arch       string        `json:"arch,omitempty"`
		Rounding   string        `json:"rounding,omitempty"`
		Cluster    int           `json:"cluster,omitempty"`
		LoopRounds int           `json:"loop_rounds,omitempty"`
		UUID       string        `json:"uuid,omitempty"`
		Memory     any           `json:"memory,omitempty"`
		HostMemory bool          `json:"host_memory,omitempty"`
		Cores      int           `json:"cores,omitempty"`
		SIMDLanes  int           `json:"simd_lanes,omitempty"`
		Lanes      int           `json:"lanes,omitempty"`
		Team       bool          `json:"team,omitempty"`
		NUMA       int           `json:"numa,omitempty"`
		Power      any           `json:"power,omitempty"`
		Rates      *encodedRates `json:"rates,omitempty"`
		Resources  []string      `json:"resources,omitempty"`
	}
	encodedRates struct {
		FP32   any `json:"fp32,omitempty"`
		FP64   any `json:"fp64,omitempty"`
		TF32   any `json:"tf32,omitempty"`
		FP16   any `json:"fp16,omitempty"`
		Int32  any `json:"int32,omitempty"`
		Memory any `json:"memory,omitempty"`
		Launch any `json:"launch,omitempty"`
		Reply  any `json:"reply,omitempty"`
	}
	encodedLink struct {
		A         string   `json:"a"`
		B         string   `json:"b"`
		Kind      string   `json:"kind"`
		Rate      any      `json:"rate,omitempty"`
		Latency   any      `json:"latency,omitempty"`
		Resources []string `json:"resources,omitempty"`
	}
)

// Encode writes a machine that passes Validate in the format of Decode, a line
// for each device, link, resource, storage and network. Decode of it gives an equal machine.
func Encode(m *Machine) []byte {
	var b bytes.Buffer
	b.WriteString("{\n  \"name\": ")
	b.Write(compact(m.Name))
	b.WriteString(",\n  \"host\": ")
	b.Write(compact(encodedHost{size(m.HostBytes), quantity(m.HostBPS, text.BytesPerSecond), quantity(m.HostWatts, text.Watts)}))
	if budget := quantity(m.BudgetWatts, text.Watts); budget != nil {
		b.WriteString(",\n  \"power_budget\": ")
		b.Write(compact(budget))
	}
	entries(&b, "storage", m.Storage, func(s *Storage) any {
		return encodedStorage{s.Name, s.Model, size(s.Bytes), quantity(s.BPS, text.BytesPerSecond)}
	})
	entries(&b, "network", m.Network, func(n *Adapter) any {
		return encodedAdapter{n.Name, n.Model, quantity(n.BPS, text.BytesPerSecond)}
	})
	entries(&b, "resources", m.Resources, func(r *Resource) any {
		return encodedResource{r.Name, quantity(r.BPS, text.BytesPerSecond), r.Cores}
	})
	entries(&b, "devices", m.Devices, func(d *Device) any { return encodeDevice(d) })
	entries(&b, "links", m.Links, func(l *Link) any {
		return encodedLink{
			A: m.DeviceName(l.A), B: m.DeviceName(l.B), Kind: l.Kind.String(),
			Rate: quantity(l.BPS, text.BytesPerSecond), Latency: quantity(l.LatencyNS, text.Nanoseconds),
			Resources: l.Resources,
		}
	})
	b.WriteString("\n}\n")
	return b.Bytes()
}

// MarshalJSON makes a machine part of a larger document, in Decode's format.
func (m *Machine) MarshalJSON() ([]byte, error) { return Encode(m), nil }

func encodeDevice(d *Device) encodedDevice {
	e := encodedDevice{
		Name: d.Name, Model: d.Model, Kind: d.Kind.String(), Backend: d.Backend, Arch: d.Arch, UUID: d.UUID,
		Rounding: d.Rounding, Cluster: d.Cluster, LoopRounds: d.LoopRounds,
		Memory: size(d.MemBytes), HostMemory: d.HostMemory,
		Cores: d.ComputeUnits, SIMDLanes: d.SIMDLanes, Lanes: d.Lanes, Team: d.Team, NUMA: d.NUMA,
		Power: quantity(d.PowerWatts, text.Watts), Resources: d.Resources,
	}
	for _, dialect := range d.Dialects {
		e.Dialects = append(e.Dialects, string(dialect))
	}
	if d.Rates != (Rates{}) {
		ops := func(u graph.Unit) any { return quantity(d.Rates.Ops[u], text.OperationsPerSecond) }
		e.Rates = &encodedRates{
			FP32: ops(graph.FP32), FP64: ops(graph.FP64), TF32: ops(graph.TF32), FP16: ops(graph.FP16),
			Int32:  quantity(d.Rates.Ops[graph.Int32], text.IntegersPerSecond),
			Memory: quantity(d.Rates.MemoryBPS, text.BytesPerSecond), Launch: quantity(d.Rates.LaunchNS, text.Nanoseconds), Reply: quantity(d.Rates.ReplyNS, text.Nanoseconds),
		}
	}
	return e
}

// quantity writes x with a unit where a short text says exactly that, else as a
// number; nil for zero, which files leave out.
func quantity(x float64, units []text.Unit) any {
	if x == 0 {
		return nil
	}
	if s, ok := text.FormatQuantity(x, units); ok {
		return s
	}
	return x
}

// size writes a number of bytes; nil for zero.
func size(n int64) any {
	if n == 0 {
		return nil
	}
	return text.FormatSize(n)
}

// entries writes a list with a line for each entry, nothing for an empty one.
func entries[T any](b *bytes.Buffer, name string, list []T, encode func(*T) any) {
	if len(list) == 0 {
		return
	}
	b.WriteString(",\n  \"" + name + "\": [")
	for i := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n    ")
		b.Write(compact(encode(&list[i])))
	}
	b.WriteString("\n  ]")
}

func compact(v any) []byte {
	out, err := json.Marshal(v)
	if err != nil {
		panic("machine: encoding a machine that fails Validate: " + err.Error())
	}
	return out
}
