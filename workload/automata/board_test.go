package automata_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/automata"
)

// Boards, rules and numbers of generations that make no game are refused in one line.
func TestRunRefuses(t *testing.T) {
	rt := workloadtest.Open(t, 1, automata.Funcs())
	good := &automata.Board{Rows: 3, Cols: 65, Words: make([]uint64, 6)}
	for what, c := range map[string]struct {
		board       *automata.Board
		generations int
	}{
		"no board":       {nil, 1},
		"an empty board": {&automata.Board{}, 1},
		"no columns":     {&automata.Board{Rows: 3}, 1},
		"few words":      {&automata.Board{Rows: 3, Cols: 65, Words: make([]uint64, 5)}, 1},
		"no words":       {&automata.Board{Rows: 3, Cols: 65}, 1},
		"a huge board":   {&automata.Board{Rows: 1 << 62, Cols: 1 << 62}, 1},
		"steps back":     {good, -1},
		"too many steps": {good, 1_000_001},
	} {
		_, err := automata.Run(t.Context(), rt, c.board, automata.Life, c.generations)
		if !errors.Is(err, workload.ErrConfig) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, text := range []string{"", "B3", "S23/B3", "B9/S", "B3/S2x", "B3/S-1", "3/23", "B3/S23/C4"} {
		if r, err := automata.ParseRule(text); !errors.Is(err, workload.ErrConfig) {
			t.Errorf("rule %q is %v: %v", text, r, err)
		}
		if _, err := automata.New(automata.Config{Rows: 3, Cols: 3, Steps: 1, Rule: text}); text != "" && !errors.Is(err, workload.ErrConfig) {
			t.Errorf("rule %q: %v", text, err)
		}
	}
	for _, picture := range []string{"", "\n", "..\n.\n", "ab\n..\n"} {
		if _, err := automata.ParseBoard(picture); !errors.Is(err, workload.ErrConfig) {
			t.Errorf("picture %q: %v", picture, err)
		}
	}
	for _, size := range [][2]int{{0, 1}, {1, 0}, {-1, 1}, {1 << 40, 1 << 40}} {
		if _, err := automata.NewBoard(size[0], size[1]); !errors.Is(err, workload.ErrConfig) {
			t.Errorf("%v: %v", size, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := automata.Run(ctx, rt, good, automata.Life, 5); !errors.Is(err, context.Canceled) {
		t.Errorf("after its context ended: %v", err)
	}
}

// Check sees one wrong cell of games of any width and rule.
func TestCheckFindsAny(t *testing.T) {
	for _, c := range []automata.Config{
		{Rows: 30, Cols: 70, Steps: 5, Seed: 1},
		{Rows: 30, Cols: 13, Steps: 90, Seed: 1, Rule: "B2/S"},
	} {
		j := workloadtest.New[*automata.Job](t)(automata.New(c))
		workloadtest.Finds(t, automata.Funcs(), j, "cell", func() { j.Result()[len(j.Result())-1] ^= 1 << 5 }, automata.ErrWrong)
	}
}
