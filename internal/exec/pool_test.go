package exec

import "testing"

// A large buffer of any size is used again for a request of the same size or a little
// less, and never for a larger one.
func TestPoolKeepsLargeBuffers(t *testing.T) {
	var p hostPool
	const n = 3 << 20 // no power of two
	b := p.get(n)
	p.put(b)
	if more := p.get(n + 8192); &more[0] == &b[0] {
		t.Error("a buffer was given to who needs more")
	}
	less := p.get(n - 5)
	if &less[0] != &b[0] || len(less) != n-5 || p.held != 0 {
		t.Errorf("a kept buffer was not used again; %d bytes are held", p.held)
	}
	p.limit = n
	p.put(less)
	p.put(make([]byte, n))
	if p.held < n || p.held >= 2*n {
		t.Errorf("%d bytes are held with a limit of %d", p.held, n)
	}
}
