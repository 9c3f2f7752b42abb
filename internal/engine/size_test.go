package engine

import (
	"testing"
	"unsafe"
)

// A task fills a cache line; what else is touched for every task stays small.
func TestRecordSizes(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, want uintptr
	}{
		{"task", unsafe.Sizeof(task{}), 64},
		{"value", unsafe.Sizeof(value{}), 48},
		{"inst", unsafe.Sizeof(inst{}), 64},
		{"slot", unsafe.Sizeof(slot{}), 32},
		{"datum", unsafe.Sizeof(datum{}), 16},
	} {
		if c.got != c.want {
			t.Errorf("a %s takes %d bytes, want %d: change it knowingly", c.name, c.got, c.want)
		}
	}
}
