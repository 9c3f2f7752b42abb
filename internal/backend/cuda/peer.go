package cuda

import "sync"

// GPUs of one process that have a link to each other's memory, by NVLink or a PCIe
// switch, copy over it directly. Memory here is mapped page by page, so the right
// to it is given with each mapping (cuMemSetAccess), and not once for a context
// (cuCtxEnablePeerAccess), which is for memory taken by cuMemAlloc. In workers the
// same is done by mapping a slab of another GPU's: who maps it gives itself access.

// peers are the GPUs a process has open.
type peers struct {
	mu  sync.Mutex
	all []*device
}

func (p *peers) add(d *device) {
	p.mu.Lock()
	p.all = append(p.all, d)
	p.mu.Unlock()
}

// maxPeers is the number of GPUs that may access another's memory.
const maxPeers = 32

// access is who may use a mapping, the device it belongs to first.
type access struct {
	n    int
	list [maxPeers]accessDesc
}

// of returns who may use a device's memory: itself, and all open GPUs that can
// reach it.
func (p *peers) of(d *device, f *frame) access {
	a := access{n: 1}
	a.list[0] = accessDesc{location{onDevice, d.num}, accessRW}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.all {
		if a.n < maxPeers && o.reaches(d, f) {
			a.list[a.n] = accessDesc{location{onDevice, o.num}, accessRW}
			a.n++
		}
	}
	return a
}

// reaches reports whether a GPU can use another's memory.
func (d *device) reaches(o *device, f *frame) bool {
	return d.num != o.num && d.api.code(f, &d.api.canAccessPeer, f.at(0), uintptr(d.num), uintptr(o.num)) == 0 && f.i32(0) != 0
}
