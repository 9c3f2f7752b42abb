package cuda

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weft-run/weft/driver"
	"github.com/weft-run/weft/graph"
)

// signature is what an entry takes: the sizes of its parameters. It is not known of
// code that is no PTX where the driver does not tell.
type signature struct {
	known     bool
	sizes     []int
	declared  bool // read from PTX, which tells structures from addresses
	structure bool // the last is a structure by value, if declared
}

const addressBytes = 8

// declared reads the signature of an entry from PTX.
func declared(ptx []byte, entry string) (s signature) {
	found := regexp.MustCompile(`\.entry\s+` + regexp.QuoteMeta(entry) + `(?:\s*\(([^)]*)\)|[^\w$])`).FindSubmatch(ptx)
	if found == nil {
		return s
	}
	s.known, s.declared = true, true
	for _, p := range strings.Split(string(found[1]), ",") {
		if p = strings.TrimSpace(p); p == "" {
			continue
		}
		m := ptxParam.FindStringSubmatch(p)
		if m == nil {
			return signature{}
		}
		bits, _ := strconv.Atoi(m[1]) // the pattern has digits
		size, times := bits/8, 1
		if m[2] != "" {
			times, _ = strconv.Atoi(m[2])
		}
		s.structure = m[2] != ""
		s.sizes = append(s.sizes, size*times)
	}
	return s
}

// ptxParam is a parameter of an entry: its type, and its length where it is an array.
var ptxParam = regexp.MustCompile(`^\.param\s.*\.[bsuf](\d+)\s.*?[\w$%]+(?:\[(\d+)\])?$`)

// takes returns how many of the buffers given an entry takes: all, or the first so many
// when it has fewer, as a step of a task whose other steps use more. The driver would
// read past the end of a list that is too short, and the kernel would follow whatever it
// found there.
func (s *signature) takes(entry string, buffers, params int) (int, error) {
	if !s.known {
		return buffers, nil
	}
	n, own := len(s.sizes), 0
	if n > 0 {
		last := s.sizes[n-1]
		byValue := s.structure || last != addressBytes
		// A number of eight bytes looks like an address.
		if byValue || params > 0 && (!s.declared || n > buffers) {
			n, own = n-1, last
		}
	}
	if err := graph.CheckParams(own, params); err != nil {
		return 0, fmt.Errorf("%w: entry %q: %w", driver.ErrKernel, entry, err)
	}
	if n > buffers || slices.ContainsFunc(s.sizes[:n], func(size int) bool { return size != addressBytes }) {
		return 0, fmt.Errorf("%w: entry %q has parameters of %v bytes, given are %d buffers and %d bytes of parameters",
			driver.ErrKernel, entry, s.sizes, buffers, params)
	}
	return n, nil
}
