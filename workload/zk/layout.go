package zk

import (
	"encoding/binary"
	"math/bits"
)

// layout reads the lengths in gnark's binary format, without the elements. gnark allocates a list by the
// length that stands before it, so that a false length can use up the memory, which ends the program.
// gnark is given the bytes only if they are as many as their lengths say.
type layout struct {
	left  []byte
	short bool // the text ended early, or has a number that none of the kind has
}

// fits reports whether a text has all of its parts and nothing after them.
func fits(text []byte, parts func(*layout)) bool {
	l := &layout{left: text}
	parts(l)
	return !l.short && len(l.left) == 0
}

// take returns the next bytes, nil if there are not as many.
func (l *layout) take(n uint64) []byte {
	if l.short = l.short || uint64(len(l.left)) < n; l.short {
		return nil
	}
	b := l.left[:n]
	l.left = l.left[n:]
	return b
}

// number reads a number of 8 bytes.
func (l *layout) number() uint64 {
	if b := l.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// list reads a list: its length in 4 bytes, and elements, which take some bytes each.
func (l *layout) list(element func()) {
	b := l.take(4)
	for i := uint32(0); b != nil && i < binary.BigEndian.Uint32(b) && !l.short; i++ {
		element()
	}
}

// The sizes of coordinates.
const (
	inG1 = 32
	inG2 = 64
)

// points reads points of some group. The first two bits say whether both coordinates are there.
func (l *layout) points(n int, coordinate uint64) {
	for range n {
		if b := l.take(coordinate); b != nil && b[0]>>6 == 0 {
			l.take(coordinate)
		}
	}
}

// pointList reads a list of points of some group.
func (l *layout) pointList(coordinate uint64) {
	l.list(func() { l.points(1, coordinate) })
}

// proof reads a proof.
func (l *layout) proof() {
	l.points(1, inG1)
	l.points(1, inG2)
	l.points(1, inG1)
	l.pointList(inG1)
	l.points(1, inG1)
}

// verifyingKey reads a verifying key.
func (l *layout) verifyingKey() {
	l.points(2, inG1)
	l.points(2, inG2)
	l.points(1, inG1)
	l.points(1, inG2)
	l.pointList(inG1)
	l.list(func() { l.list(func() { l.number() }) })
	l.list(func() { l.points(2, inG2) })
}

// provingKey reads a proving key. It has a point for each root of unity but one, and there is a power of two of them.
func (l *layout) provingKey() {
	roots := l.number()
	l.short = l.short || roots > uint64(len(l.left)) || bits.OnesCount64(roots) != 1
	l.take(5*scalarBytes + 1)
	l.points(3, inG1)
	for range 4 {
		l.pointList(inG1)
	}
	l.points(2, inG2)
	l.pointList(inG2)
	wires := l.number()
	l.take(2 * 8)
	l.take(wires)
	l.take(wires)
	l.list(func() {
		l.pointList(inG1)
		l.pointList(inG1)
	})
}
