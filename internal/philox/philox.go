// Package philox draws random numbers by index instead of in sequence.
//
// It is the counter-based generator Philox4x32-10 of Salmon, Moraes, Dror and
// Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011, section 3.3).
// A value depends on its key and its counter alone, so work that is cut over
// any number of devices draws the same numbers as work that is not cut. The
// integer arithmetic is the same on every backend; so are the conversions to
// floating point, which are exact.
package philox

import "math/bits"

// Block returns the four words that Philox4x32-10 assigns to a counter under a
// key.
func Block(counter [4]uint32, key [2]uint32) [4]uint32 {
	c0, c1, c2, c3 := counter[0], counter[1], counter[2], counter[3]
	k0, k1 := key[0], key[1]
	for range 10 {
		hi0, lo0 := bits.Mul32(0xD2511F53, c0)
		hi1, lo1 := bits.Mul32(0xCD9E8D57, c2)
		c0, c1, c2, c3 = hi1^c1^k0, lo1, hi0^c3^k1, lo0
		k0 += 0x9E3779B9
		k1 += 0xBB67AE85
	}
	return [4]uint32{c0, c1, c2, c3}
}

// Source draws the numbers of one stream of one seed. Different streams of a
// seed are independent. A Source holds no position, so copies of it agree and
// may be used by many goroutines.
type Source struct {
	Seed   uint32
	Stream uint32
}

// Block returns the words of lanes 4·block to 4·block+3 of an item at a step.
func (s Source) Block(item uint64, step, block uint32) [4]uint32 {
	return Block([4]uint32{uint32(item), uint32(item >> 32), step, block}, [2]uint32{s.Seed, s.Stream})
}

// Uint32 returns the word of one lane of an item at a step. Neighbouring lanes
// share a block: who needs four of them calls Block once.
func (s Source) Uint32(item uint64, step, lane uint32) uint32 {
	return s.Block(item, step, lane/4)[lane%4]
}

// Unit maps a word to the open interval (0, 1), symmetrically about one half.
func Unit(word uint32) float64 { return (float64(word) + 0.5) / (1 << 32) }

// Symmetric maps a word to the open interval (-1, 1), symmetrically about zero.
func Symmetric(word uint32) float64 { return 2*Unit(word) - 1 }

// Symmetric32 maps the upper 23 bits of a word to the open interval (-1, 1),
// symmetrically about zero. No result is rounded.
func Symmetric32(word uint32) float32 { return (float32(word>>9)+0.5)/(1<<22) - 1 }

// Fill32 sets x to numbers uniform in the open interval (-1, 1): element i is
// word i%4 of item i/4 of a stream of the seed.
func Fill32(x []float32, seed uint64, stream uint32) {
	s := Source{Seed: uint32(seed), Stream: stream}
	for i := 0; i < len(x); i += 4 {
		words := s.Block(uint64(i/4), uint32(seed>>32), 0)
		for k := range min(4, len(x)-i) {
			x[i+k] = Symmetric32(words[k])
		}
	}
}
