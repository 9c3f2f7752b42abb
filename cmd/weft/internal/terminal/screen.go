package terminal

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"unicode/utf8"
)

// Screen is a terminal that shows one text in place of another, until Close gives it back
// as it was.
type Screen struct {
	out     *os.File
	keys    chan byte
	resized chan os.Signal
	hung    chan os.Signal
	restore func() // gives the terminal back; once
}

// shown is the screen that is open, nil for none.
var shown atomic.Pointer[Screen]

// CtrlC is the key that a screen tells in place of a signal.
const CtrlC = 3

const (
	// enterScreen saves what the terminal shows and hides the cursor; leaveScreen undoes
	// both.
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[2J"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
)

// Keys tells the keys that are pressed.
func (s *Screen) Keys() <-chan byte { return s.keys }

// Resized has an element when the terminal has another size.
func (s *Screen) Resized() <-chan os.Signal { return s.resized }

// Hung has an element when the terminal is gone.
func (s *Screen) Hung() <-chan os.Signal { return s.hung }

// Size returns the columns and rows of the terminal.
func (s *Screen) Size() (columns, rows int) { return size(s.out) }

// Show shows lines, as many and as much of each as there is room for.
func (s *Screen) Show(lines []string) error {
	columns, rows := s.Size()
	var b strings.Builder
	b.WriteString("\x1b[H")
	for i, line := range lines[:min(len(lines), rows)] {
		if i > 0 {
			b.WriteByte('\n') // the terminal adds the return
		}
		b.WriteString(Cut(line, columns) + "\x1b[K")
	}
	b.WriteString("\x1b[J")
	_, err := fmt.Fprint(s.out, b.String())
	return err
}

// Cut shortens a text to some columns; an ellipsis stands for the rest.
func Cut(s string, columns int) string {
	if utf8.RuneCountInString(s) <= columns {
		return s
	}
	return string([]rune(s)[:max(columns-1, 0)]) + "…"
}

// Close gives the terminal back as it was.
func (s *Screen) Close() {
	if s != nil {
		s.restore()
	}
}

// CloseScreen closes the screen that is open, if there is one: for a process that ends
// without returning.
func CloseScreen() { shown.Load().Close() }
