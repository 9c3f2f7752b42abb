package merkle

import "golang.org/x/sys/cpu"

// wide selects the kernel that hashes sixteen messages at once. Tests clear it
// to run the other.
var wide = cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW

// lanes is the number of messages that sum16 hashes at once: one in each 32-bit
// element of a vector register.
const lanes = 16

// messages holds a padded message of one or two blocks for each lane.
type messages [lanes][128]byte

// sum16 writes the SHA-256 digests of the first blocks (1 or 2) blocks of every
// lane to dst, one after the other.
//
//go:noescape
func sum16(dst *[lanes * Size]byte, m *messages, blocks int, k *[64]uint32)

// leavesWide does the work of Leaves for as many whole groups of lanes as there
// are from lo on, and returns the number of leaves hashed.
func leavesWide(dst, src []byte, lo, hi int) int {
	if !wide || hi-lo < lanes {
		return 0
	}
	var m messages
	m.pad(1 + Size)
	i := lo
	for ; i+lanes <= hi; i += lanes {
		for lane := range m {
			*(*[Size]byte)(m[lane][1:]) = [Size]byte(src[(i+lane)*Size:])
		}
		sum16((*[lanes * Size]byte)(dst[i*Size:]), &m, 1, &roundConstants)
	}
	return i - lo
}

// nodesWide does the work of Level for as many whole groups of lanes as there
// are from lo on, and returns the number of nodes computed. Nodes below hi have
// two nodes below them.
func nodesWide(mode Mode, dst, src []byte, lo, hi int) int {
	if !wide || hi-lo < lanes {
		return 0
	}
	prefix := 0
	if mode == RFC6962 {
		prefix = 1
	}
	var m messages
	m.pad(prefix + 2*Size)
	for lane := range m {
		m[lane][0] = byte(prefix)
	}
	i := lo
	for ; i+lanes <= hi; i += lanes {
		for lane := range m {
			*(*[2 * Size]byte)(m[lane][prefix:]) = [2 * Size]byte(src[2*(i+lane)*Size:])
		}
		sum16((*[lanes * Size]byte)(dst[i*Size:]), &m, 2, &roundConstants)
	}
	return i - lo
}

// pad appends to messages of n < 128 bytes what FIPS 180-4, section 5.1.1 asks
// for: a one bit, zeros, and the length in bits at the end of the block.
func (m *messages) pad(n int) {
	end := 64
	if n+9 > end {
		end = 128
	}
	for lane := range m {
		m[lane][n] = 0x80
		m[lane][end-2] = byte(n * 8 >> 8)
		m[lane][end-1] = byte(n * 8)
	}
}

// roundConstants are from FIPS 180-4, section 4.2.2: the fractional parts of the
// cube roots of the first 64 primes.
var roundConstants = [64]uint32{
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
}
