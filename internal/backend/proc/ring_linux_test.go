package proc

import "testing"

// Records are seen when the reader is rung, and of many the first before that.
func TestRingShowsTogether(t *testing.T) {
	mem := make([]byte, ringMemory)
	from, to := ringOn(mem), ringOn(mem)
	put := func(n int) {
		t.Helper()
		for range n {
			if ok, err := from.put([]byte("a record")); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
	}
	seen := func() (n int) {
		t.Helper()
		for {
			rec, err := to.get()
			if err != nil {
				t.Fatal(err)
			}
			if rec == nil {
				return n
			}
			to.next(uint32(len(rec)))
			n++
		}
	}
	put(3)
	if n := seen(); n != 0 {
		t.Errorf("%d of 3 records are seen before the ring is rung", n)
	}
	from.ring()
	if n := seen(); n != 3 {
		t.Errorf("%d of 3 records are seen", n)
	}
	put(2*together + 1)
	if n := seen(); n != 2*together {
		t.Errorf("%d of %d records are seen before the ring is rung", n, 2*together)
	}
	from.ring()
	if n := seen(); n != 1 {
		t.Errorf("%d records are seen after all but one were", n)
	}
}
