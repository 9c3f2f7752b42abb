package collective

import "github.com/weft-run/weft/machine"

// Inline is the algorithm of an operation so small that the caller's own goroutine does
// it, in the order of ranks, sooner than any device could be told to.
const Inline = "inline"

// inlineBytes limits the bytes that an inline operation reads and writes. A core moves 64 KiB
// in about 6 µs, which is the time a device needs to receive a task and report its end.
const inlineBytes = 64 << 10

// Inline reports whether an operation is done inline: it is small, no algorithm is asked
// for, and all ranks are on devices that use host memory.
func (s *Spec) Inline(m *machine.Machine) bool {
	if s.Algorithm != "" || s.Op == Barrier || s.check(m) != nil {
		return false
	}
	var elements int64
	for r, d := range s.Ranks {
		if !m.Devices[d].HostMemory {
			return false
		}
		elements += s.InCount(r) + s.OutCount(r)
	}
	return elements*s.Type.Size() <= inlineBytes
}
