package cuda

import (
	"slices"
	"strings"
	"testing"
)

const signatures = `.version 6.3
.visible .entry none()
{ ret; }
.visible .entry bare
{ ret; }
.visible .entry none_more(
	.param .u64 none_more_param_0,
	.param .align 8 .b8 none_more_param_1[40]
)                                       // @none_more
.maxntid 256, 1, 1
{ ret; }
.entry scalar (.param .u64 .ptr .global .align 4 a, .param .u32 n) { ret; }
.entry wide(.param .u64 a, .param .u64 b) { ret; }
.entry pair(.param .b64 a, .param .align 4 .b8 p[8]) { ret; }
.entry real(.param .u64 a, .param .f64 x) { ret; }
.entry pointers(.param .u64 .ptr .global .align 4 a, .param .u64 .ptr .align 1 b) { ret; }
`

// What an entry takes is told by its PTX, whatever the driver knows: buffers it may have
// more of, parameters not.
func TestSignature(t *testing.T) {
	for _, c := range []struct {
		entry           string
		sizes           []int
		buffers, params int
		takes           int
		says            string
	}{
		{"none", nil, 2, 0, 0, ""},
		{"none", nil, 2, 4, 0, "it takes 0 bytes, given are 4"},
		{"bare", nil, 0, 8, 0, "it takes 0 bytes, given are 8"},
		{"none_more", []int{8, 40}, 3, 40, 1, ""},
		{"none_more", []int{8, 40}, 3, 36, 0, "it takes 40 bytes, given are 36"},
		{"none_more", []int{8, 40}, 3, 44, 0, "it takes 40 bytes, given are 44"},
		{"none_more", []int{8, 40}, 3, 0, 0, "it takes 40 bytes, given are 0"},
		{"none_more", []int{8, 40}, 0, 40, 0, "has parameters of [8 40] bytes, given are 0 buffers"},
		{"scalar", []int{8, 4}, 1, 4, 1, ""},
		{"scalar", []int{8, 4}, 1, 8, 0, "it takes 4 bytes, given are 8"},
		// Two addresses, or one and a number.
		{"wide", []int{8, 8}, 2, 0, 2, ""},
		{"wide", []int{8, 8}, 1, 8, 1, ""},
		{"wide", []int{8, 8}, 2, 8, 1, ""},
		{"wide", []int{8, 8}, 3, 8, 1, ""},
		{"wide", []int{8, 8}, 2, 4, 0, "it takes 0 bytes, given are 4"},
		{"wide", []int{8, 8}, 1, 4, 0, "it takes 8 bytes, given are 4"},
		{"wide", []int{8, 8}, 1, 0, 0, "given are 1 buffers"},
		// A structure as long as an address is none.
		{"pair", []int{8, 8}, 2, 0, 0, "it takes 8 bytes, given are 0"},
		{"pair", []int{8, 8}, 2, 8, 1, ""},
		{"real", []int{8, 8}, 2, 0, 0, "it takes 8 bytes, given are 0"},
		{"real", []int{8, 8}, 2, 8, 1, ""},
		// What PTX calls an address is one.
		{"pointers", []int{8, 8}, 2, 0, 2, ""},
		{"pointers", []int{8, 8}, 3, 8, 0, "it takes 0 bytes, given are 8"},
		{"pointers", []int{8, 8}, 1, 8, 0, "it takes 0 bytes, given are 8"},
	} {
		s := declared([]byte(signatures), c.entry)
		if !s.known || !slices.Equal(s.sizes, c.sizes) {
			t.Errorf("%s: read as %+v", c.entry, s)
		}
		n, err := s.takes(c.entry, c.buffers, c.params)
		if n != c.takes || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s with %d buffers and %d bytes: takes %d, %v; want %d, %q", c.entry, c.buffers, c.params, n, err, c.takes, c.says)
		}
	}
	if s := declared([]byte(signatures), "more"); s.known {
		t.Errorf("an entry that is not there: %+v", s)
	}
}
