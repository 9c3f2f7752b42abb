package proc

import (
	"crypto/sha256"
	"encoding/json"

	"github.com/weft-run/weft/graph"
)

// registry numbers kernels, so that a launch names one in four bytes and a worker
// is told each once.
type registry struct {
	byPointer map[*graph.Kernel]uint32 // what was seen lately
	byContent map[[32]byte]uint32
	known     []definition
}

type definition struct {
	text []byte
	told bool // to the worker there is
}

func newRegistry() registry {
	return registry{byPointer: make(map[*graph.Kernel]uint32), byContent: make(map[[32]byte]uint32)}
}

// maxSeen bounds byPointer: kernels made anew for every graph must not pile up.
const maxSeen = 4096

// number returns a kernel's number, and its definition if the worker has not been
// told.
func (r *registry) number(k *graph.Kernel) (uint32, []byte) {
	n, seen := r.byPointer[k]
	if !seen {
		text, err := json.Marshal(k)
		if err != nil {
			panic(err) // a kernel is plain data
		}
		sum := sha256.Sum256(text)
		var there bool
		if n, there = r.byContent[sum]; !there {
			n = uint32(len(r.known))
			r.known = append(r.known, definition{text: text})
			r.byContent[sum] = n
		}
		if len(r.byPointer) >= maxSeen {
			clear(r.byPointer)
		}
		r.byPointer[k] = n
	}
	if d := &r.known[n]; !d.told {
		d.told = true
		return n, d.text
	}
	return n, nil
}

// forget makes definitions be told again: there is a new worker.
func (r *registry) forget() {
	for i := range r.known {
		r.known[i].told = false
	}
}
