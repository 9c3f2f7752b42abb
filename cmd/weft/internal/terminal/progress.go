package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Progress shows on one line of a terminal a text about the work under way, a bar, the rate and
// the time left. It shows nothing in the first second. A nil *Progress, as for an
// output that is no terminal, does nothing.
type Progress struct {
	w     *os.File
	unit  string
	total int

	stop  chan struct{}
	ended chan struct{}

	mu    sync.Mutex // guards the fields below
	what  string
	done  int
	begin time.Time
	last  time.Time     // when the last unit was done
	part  float64       // of the unit under way that is done, 0 to 1
	left  time.Duration // estimated for the rest of it when that was told; negative if not known
	told  time.Time     // when that was
	shown bool
}

const (
	progressAfter = time.Second            // what ends sooner needs no bar
	progressEvery = 200 * time.Millisecond // smooth for the eye, and no load
)

// StartProgress begins to show the progress of total units on w. It returns nil if
// quiet is set, as for --json, or w is no terminal that takes control sequences, which
// TERM=dumb denies. The caller calls Finish.
func StartProgress(w io.Writer, quiet bool, unit string, total int) *Progress {
	f, ok := w.(*os.File)
	if quiet || !ok || !Interactive(w) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	now := time.Now()
	p := &Progress{w: f, unit: unit, total: total, begin: now, last: now, left: -1, stop: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		t := time.NewTicker(progressEvery)
		defer t.Stop()
		for {
			select {
			case <-p.stop:
				return
			case now := <-t.C:
				p.draw(now)
			}
		}
	}()
	return p
}

// At sets the text before the bar.
func (p *Progress) At(format string, args ...any) {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.what = OneLine(fmt.Sprintf(format, args...))
	p.mu.Unlock()
}

// Within sets how far the unit under way is: the part of it that is done, and the estimated
// time for the rest, which is negative if it is not known.
func (p *Progress) Within(part float64, left time.Duration) {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.part, p.left, p.told = part, left, time.Now()
	p.mu.Unlock()
}

// Add counts one more unit as done.
func (p *Progress) Add() {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.done, p.last, p.part, p.left = p.done+1, time.Now(), 0, -1
	p.mu.Unlock()
}

// Finish removes the line. It may be called more than once.
func (p *Progress) Finish() {
	if p == nil {
		return
	}
	select {
	case <-p.stop:
		return
	default:
	}
	close(p.stop)
	<-p.ended
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

func (p *Progress) draw(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.begin) < progressAfter {
		return
	}
	p.shown = true
	left := p.left
	if left >= 0 {
		left = max(left-now.Sub(p.told), 0)
	}
	columns, _ := size(p.w)
	fmt.Fprint(p.w, "\r\x1b[K"+progressLine(columns, p.what, p.unit, p.done, p.total, p.last.Sub(p.begin), now.Sub(p.last), p.part, left))
}

const (
	// barColumns is the length of a bar; of 80 columns it leaves 59 for text and figures. Beside a
	// long text the bar is shorter, down to barLeast.
	barColumns = 20
	barLeast   = 5
	// textLeast is the number of columns that a text keeps, if it is that long, before the bar and the
	// time left. It has room for "step 49900".
	textLeast = 10
)

// Bar draws a part, from 0 to 1, as a bar of some columns.
func Bar(part float64, columns int) string {
	full := int(float64(columns) * min(max(part, 0), 1))
	return strings.Repeat("#", full) + strings.Repeat(".", columns-full)
}

// progressLine returns the line, of less than the given columns. took is the time that the units done took,
// since the time that the unit under way has run, part the part of it that is done, and left the estimated
// time for the rest of it. If left is negative, it is estimated from the units before.
func progressLine(columns int, what, unit string, done, total int, took, since time.Duration, part float64, left time.Duration) string {
	each := since + max(left, 0)
	if done > 0 {
		each = took / time.Duration(done)
		if left < 0 && each > 0 {
			part, left = since.Seconds()/each.Seconds(), max(each-since, 0)
		}
	}
	if part = min(part, 0.99); done == total { // never 1 while it is not done
		part, left = 0, 0
	}
	whole := (float64(done) + part) / float64(max(total, 1))
	count, rate, rest := fmt.Sprintf(" %d/%d", done, total), "", ""
	if done > 0 {
		if r := float64(done) / took.Seconds(); r >= 1 {
			rate = fmt.Sprintf("  %.3g %ss/s", r, unit)
		} else {
			rate = fmt.Sprintf("  %s a %s", Short(each), unit)
		}
	}
	if left >= 0 {
		left += each * time.Duration(max(total-done-1, 0))
		rest = "  about " + left.Round(time.Second).String() + " left"
	}
	// A long text takes the place of the rate, and of a part of the bar. If it then has fewer than textLeast
	// columns, the bar is left out, and then the time left.
	text := utf8.RuneCountInString(what)
	room := columns - 1 - len("  []") - barColumns - utf8.RuneCountInString(count+rate+rest)
	if text > room {
		room, rate = room+utf8.RuneCountInString(rate), ""
	}
	length := barColumns - min(max(text-room, 0), barColumns-barLeast)
	room += barColumns - length
	bar := "  [" + Bar(whole, length) + "]"
	if room < min(text, textLeast) {
		room, bar = room+len(bar), ""
	}
	if room < min(text, textLeast) {
		room, rest = room+len(rest), ""
	}
	return Cut(Cut(what, max(room, 0))+bar+count+rate+rest, columns-1)
}
