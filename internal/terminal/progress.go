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

// Progress shows on one line of a terminal what is being done, a bar, the rate and
// the time left. It shows nothing in the first second. A nil *Progress, as for an
// output that is no terminal, does nothing.
type Progress struct {
	w     io.Writer
	unit  string
	total int

	stop  chan struct{}
	ended chan struct{}

	mu    sync.Mutex // guards the fields below
	what  string
	done  int
	begin time.Time
	last  time.Time     // when the last unit was done
	next  time.Duration // predicted duration of the unit under way; 0 is not predicted
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
	if quiet || !Interactive(w) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	now := time.Now()
	p := &Progress{w: w, unit: unit, total: total, begin: now, last: now, stop: make(chan struct{}), ended: make(chan struct{})}
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
	p.what = fmt.Sprintf(format, args...)
	p.mu.Unlock()
}

// Expect sets the predicted duration of the unit under way. Until the first unit is
// done the time left is computed from it alone.
func (p *Progress) Expect(d time.Duration) {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.next = d
	p.mu.Unlock()
}

// Add counts one more unit as done.
func (p *Progress) Add() {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.done, p.last, p.next = p.done+1, time.Now(), 0
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
	fmt.Fprint(p.w, "\r\x1b[K"+progressLine(p.what, p.unit, p.done, p.total, p.last.Sub(p.begin), now.Sub(p.last), p.next))
}

// barColumns is the length of a bar; it leaves 59 columns for text and figures.
const barColumns = 20

// progressLine returns the line, of less than 80 columns. took is how long the units
// that are done took, since how long the unit under way has run, and next the
// predicted duration of that unit, or 0.
func progressLine(what, unit string, done, total int, took, since, next time.Duration) string {
	each := next
	if done > 0 {
		each = took / time.Duration(done)
	}
	if next == 0 {
		next = each
	}
	part := 0.0 // of the unit under way; never 1, since it is not done
	if done < total && next > 0 {
		part = min(since.Seconds()/next.Seconds(), 0.99)
	}
	full := int(barColumns * (float64(done) + part) / float64(max(total, 1)))
	tail := fmt.Sprintf("  [%s%s] %d/%d", strings.Repeat("#", full), strings.Repeat(".", barColumns-full), done, total)
	if done > 0 {
		if rate := float64(done) / took.Seconds(); rate >= 1 {
			tail += fmt.Sprintf("  %.3g %ss/s", rate, unit)
		} else {
			tail += fmt.Sprintf("  %s a %s", Short(each), unit)
		}
	}
	if next > 0 {
		left := time.Duration(0)
		if done < total {
			left = max(next-since, 0) + each*time.Duration(total-done-1)
		}
		tail += "  " + left.Round(time.Second).String() + " left"
	}
	room := Width - 1 - utf8.RuneCountInString(tail)
	if r := []rune(what); len(r) > room {
		what = string(r[:max(room-1, 0)]) + "…"
	}
	return what + tail
}
