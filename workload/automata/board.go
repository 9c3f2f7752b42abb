package automata

import (
	"context"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload"
)

// Board is cells on a torus: the first and the last row are neighbours, and so are the
// first and the last column.
type Board struct {
	Rows, Cols int
	// Words are the cells, 64 to a word: each row has as many words as its cells take, and
	// cell x of it is bit x%64 of word x/64. Other bits of its last word do not count.
	Words []uint64
}

// NewBoard returns a board of dead cells. Sizes below 1 or above 2¹⁷ are an error that
// wraps [workload.ErrConfig].
func NewBoard(rows, cols int) (*Board, error) {
	if err := (Config{Rows: rows, Cols: cols, Steps: 1}).Validate(); err != nil {
		return nil, err
	}
	return &Board{rows, cols, make([]uint64, rows*((cols+63)/64))}, nil
}

// ParseBoard returns the board of a picture: a line for each row, all of one length, in
// which live cells are written O or # and others '.' or ' '.
func ParseBoard(picture string) (*Board, error) {
	lines := strings.Split(strings.TrimSuffix(picture, "\n"), "\n")
	b, err := NewBoard(len(lines), len(lines[0]))
	if err != nil {
		return nil, err
	}
	for y, line := range lines {
		if len(line) != b.Cols || strings.Trim(line, "O#. ") != "" {
			return nil, fmt.Errorf("automata: line %q: %w: all are %d cells, O or # for a live one and . for another", line, workload.ErrConfig, b.Cols)
		}
		for x, c := range line {
			b.Set(y, x, c == 'O' || c == '#')
		}
	}
	return b, nil
}

// at returns the word and bit of a cell.
func (b *Board) at(row, col int) (word int, bit uint64) {
	if row < 0 || row >= b.Rows || col < 0 || col >= b.Cols {
		panic(fmt.Sprintf("automata: cell (%d, %d) of %d × %d", row, col, b.Rows, b.Cols))
	}
	return row*((b.Cols+63)/64) + col/64, 1 << (col % 64)
}

// Alive reports whether a cell lives. Like an index, it panics beyond the board.
func (b *Board) Alive(row, col int) bool {
	word, bit := b.at(row, col)
	return b.Words[word]&bit != 0
}

// Set says whether a cell lives. Like an index, it panics beyond the board.
func (b *Board) Set(row, col int, alive bool) {
	word, bit := b.at(row, col)
	b.Words[word] &^= bit
	if alive {
		b.Words[word] |= bit
	}
}

// String draws the board as ParseBoard reads it.
func (b *Board) String() string {
	var out strings.Builder
	for y := range b.Rows {
		for x := range b.Cols {
			if b.Alive(y, x) {
				out.WriteByte('O')
			} else {
				out.WriteByte('.')
			}
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// Population is the number of live cells.
func (b *Board) Population() (n int) {
	words := (b.Cols + 63) / 64
	for i, w := range b.Words {
		if spare := words*64 - b.Cols; i%words == words-1 {
			w <<= spare
		}
		n += bits.OnesCount64(w)
	}
	return n
}

// Run returns what becomes of a board in a number of generations, computed on the devices
// of a runtime that was opened with [Funcs] among its kernels. The board stays as it is.
// The result is the same bits on any devices. A board or a number of generations that
// makes no game is an error that wraps [workload.ErrConfig].
func Run(ctx context.Context, rt *weft.Runtime, board *Board, rule Rule, generations int) (*Board, error) {
	if board == nil {
		return nil, fmt.Errorf("automata: no board: %w: see NewBoard", workload.ErrConfig)
	}
	c := Config{Rows: board.Rows, Cols: board.Cols, Steps: generations, Rule: rule.String(), Pattern: given}
	if generations == 0 {
		c.Steps = 1
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	words := (c.Cols + 63) / 64
	if len(board.Words) != c.Rows*words {
		return nil, fmt.Errorf("automata: %d words: %w: %d × %d cells take %d", len(board.Words), workload.ErrConfig, c.Rows, c.Cols, c.Rows*words)
	}
	j := &job{c: c, words: words, rule: rule, start: board.Words}
	j.every(min(unknownK, c.Rows))
	if spare := ^j.last(); spare != 0 {
		j.start = slices.Clone(j.start)
		for i := words - 1; i < len(j.start); i += words {
			j.start[i] &^= spare
		}
	}
	if generations == 0 {
		return &Board{c.Rows, c.Cols, slices.Clone(j.start)}, nil
	}
	j.end = make([]uint64, len(j.start))
	if _, err := workload.Call(ctx, rt, j, "automata"); err != nil {
		return nil, err
	}
	return &Board{c.Rows, c.Cols, j.end}, nil
}
