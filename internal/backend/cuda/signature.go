package cuda

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
)

// signature holds the sizes of an entry's parameters. known is false for machine code
// without PTX if the driver does not report the sizes.
type signature struct {
	known bool
	sizes []int
	last  parameter
}

// parameter is a kind of parameter. PTX may declare an address as it declares an
// integer of eight bytes, and the driver tells the size alone.
type parameter int

const (
	either  parameter = iota // an integer or an address; from the driver, anything
	address                  // of a buffer
	value                    // a structure or a floating-point number
)

const addressBytes = 8

// declared reads the signature of an entry from PTX.
func declared(ptx []byte, entry string) (s signature) {
	found := regexp.MustCompile(`\.entry\s+` + regexp.QuoteMeta(entry) + `(?:\s*\(([^)]*)\)|[^\w$])`).FindSubmatch(ptx)
	if found == nil {
		return s
	}
	s.known = true
	for _, p := range strings.Split(string(found[1]), ",") {
		if p = strings.TrimSpace(p); p == "" {
			continue
		}
		m := ptxParam.FindStringSubmatch(p)
		if m == nil {
			return signature{}
		}
		bits, _ := strconv.Atoi(m[2]) // the pattern has digits
		size, times := bits/8, 1
		switch s.last = either; {
		case m[4] != "":
			times, _ = strconv.Atoi(m[4])
			s.last = value
		case m[1] == "f":
			s.last = value
		case m[3] != "":
			s.last = address
		}
		s.sizes = append(s.sizes, size*times)
	}
	return s
}

// ptxParam is a parameter of an entry: its type, whether it is an address, and its
// length where it is an array.
var ptxParam = regexp.MustCompile(`^\.param\s.*\.([bsuf])(\d+)\s+(\.ptr\b)?.*?[\w$%]+(?:\[(\d+)\])?$`)

// takes returns how many of the buffers given an entry takes: all, or the first ones if
// it has fewer, as a step of a task whose other steps use more. The driver would read
// past the end of a list that is too short, and the kernel would follow the addresses it
// found there.
func (s *signature) takes(entry string, buffers, params int) (int, error) {
	if !s.known {
		return buffers, nil
	}
	n, own := len(s.sizes), 0
	if n > 0 {
		last := s.sizes[n-1]
		byValue := s.last == value || last != addressBytes
		// What may be either is a number if the step has parameters of its size, or has
		// parameters and too few buffers.
		number := s.last == either && (params == addressBytes || params > 0 && n > buffers)
		if byValue || number {
			n, own = n-1, last
		}
	}
	if err := graph.CheckParams(own, params); err != nil {
		return 0, fmt.Errorf("%w: entry %q: %w", driver.ErrUnfit, entry, err)
	}
	if n > buffers || slices.ContainsFunc(s.sizes[:n], func(size int) bool { return size != addressBytes }) {
		return 0, fmt.Errorf("%w: entry %q has parameters of %v bytes, given are %d buffers and %d bytes of parameters",
			driver.ErrUnfit, entry, s.sizes, buffers, params)
	}
	return n, nil
}
