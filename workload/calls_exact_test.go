package workload_test

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload/automata"
	"github.com/weft-run/weft/workload/merkle"
)

func testMerkle(t *testing.T, rt *weft.Runtime) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 3, 600, 5003, 70_001} {
		for _, even := range []bool{true, false} {
			leaves := make([][]byte, n)
			for i := range leaves {
				length := merkle.Size
				if !even {
					length = r.IntN(100)
				}
				for range length {
					leaves[i] = append(leaves[i], byte(r.Uint32()))
				}
			}
			root, err := merkle.RootOf(t.Context(), rt, leaves)
			if want := rootOf(leaves); err != nil || root != want {
				t.Fatalf("%d leaves: root %x, want %x: %v", n, root, want, err)
			}
		}
	}
}

// rootOf is the definition in RFC 6962, section 2.1.
func rootOf(leaves [][]byte) [32]byte {
	switch n := len(leaves); n {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return sha256.Sum256(append([]byte{0}, leaves[0]...))
	default:
		k := 1
		for 2*k < n {
			k *= 2
		}
		left, right := rootOf(leaves[:k]), rootOf(leaves[k:])
		return sha256.Sum256(slices.Concat([]byte{1}, left[:], right[:]))
	}
}

func testAutomata(t *testing.T, rt *weft.Runtime) {
	for seed, c := range []struct {
		rows, cols, steps int
		rule              string
	}{
		{1, 1, 3, "B3/S23"}, {2, 3, 5, "B3/S23"}, {5, 2, 4, "B1/S012345678"}, {9, 31, 20, "B3/S23"}, {13, 32, 20, "B3/S23"}, {7, 33, 9, "B36/S23"},
		{40, 63, 70, "B3/S23"}, {40, 64, 70, "B3/S23"}, {40, 65, 70, "B3/S23"}, {30, 500, 40, "B3/S23"}, {21, 2500, 15, "B3/S23"}, {201, 127, 66, "b2/s"},
		{64, 64, 9, "B012345678/S"}, {12, 70, 9, "B0/S8"}, {10, 10, 0, "B3/S23"}, {100, 96, 33, "B3678/S34678"},
	} {
		rule, err := automata.ParseRule(c.rule)
		if err != nil || rule.String() != strings.ToUpper(c.rule) {
			t.Fatal(rule, err)
		}
		b, err := automata.NewBoard(c.rows, c.cols)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(uint64(seed), 3))
		for i := range b.Words {
			b.Words[i] = r.Uint64() // bits behind the last cell, too
		}
		first := slices.Clone(b.Words)
		cells := make([]bool, c.rows*c.cols)
		for i := range cells {
			cells[i] = b.Alive(i/c.cols, i%c.cols)
		}
		for range c.steps {
			cells = neighbours(cells, c.rows, c.cols, c.rule)
		}
		after, err := automata.Run(t.Context(), rt, b, rule, c.steps)
		if err != nil {
			t.Fatal(err)
		}
		population := 0
		for i, want := range cells {
			if after.Alive(i/c.cols, i%c.cols) != want {
				t.Fatalf("%+v: cell (%d, %d) is wrong", c, i/c.cols, i%c.cols)
			}
			if want {
				population++
			}
		}
		if after.Population() != population || !slices.Equal(b.Words, first) {
			t.Errorf("%+v: population %d, want %d; the board changed: %v", c, after.Population(), population, !slices.Equal(b.Words, first))
		}
	}
}

// neighbours steps cells by counting those around each.
func neighbours(cells []bool, rows, cols int, rule string) []bool {
	born, lives, _ := strings.Cut(strings.ToUpper(rule), "/")
	out := make([]bool, len(cells))
	for y := range rows {
		for x := range cols {
			n := 0
			for _, d := range [][2]int{{-1, -1}, {-1, 0}, {-1, 1}, {0, -1}, {0, 1}, {1, -1}, {1, 0}, {1, 1}} {
				if cells[(y+d[0]+rows)%rows*cols+(x+d[1]+cols)%cols] {
					n++
				}
			}
			set := born
			if cells[y*cols+x] {
				set = lives
			}
			out[y*cols+x] = strings.Contains(set, fmt.Sprint(n))
		}
	}
	return out
}
