package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// terminal reports whether a person reads what is written to w.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// progress shows how far something is on one line of a terminal: what is being
// done, a bar, the rate and the time left. It shows nothing in the first second,
// and nothing ever where nobody would read it; a nil *progress does nothing.
type progress struct {
	w     io.Writer
	unit  string
	total int

	stop  chan struct{}
	ended chan struct{}

	mu    sync.Mutex // guards what follows
	what  string
	done  int
	begin time.Time
	last  time.Time     // when the last unit was done
	next  time.Duration // what the one under way is predicted to take; 0 if nobody did
	shown bool
}

const (
	progressAfter = time.Second
	progressEvery = 200 * time.Millisecond
)

// startProgress begins to show the progress of total units on w; quiet, as for
// a program that reads JSON, shows none. Its owner calls finish.
func startProgress(w io.Writer, quiet bool, unit string, total int) *progress {
	if quiet || !terminal(w) {
		return nil
	}
	now := time.Now()
	p := &progress{w: w, unit: unit, total: total, begin: now, last: now, stop: make(chan struct{}), ended: make(chan struct{})}
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

// at says what is being done now.
func (p *progress) at(format string, args ...any) {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.what = fmt.Sprintf(format, args...)
	p.mu.Unlock()
}

// expect says what the unit under way is predicted to take. Until one is done that is
// all that is known of the time left.
func (p *progress) expect(d time.Duration) {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.next = d
	p.mu.Unlock()
}

// add counts one more unit as done.
func (p *progress) add() {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.done, p.last, p.next = p.done+1, time.Now(), 0
	p.mu.Unlock()
}

// finish takes the line away. It may be called more than once.
func (p *progress) finish() {
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

func (p *progress) draw(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.begin) < progressAfter {
		return
	}
	p.shown = true
	fmt.Fprint(p.w, "\r\x1b[K"+progressLine(p.what, p.unit, p.done, p.total, p.last.Sub(p.begin), now.Sub(p.last), p.next))
}

// barColumns is the length of a bar.
const barColumns = 20

// progressLine is what is shown, in less than 80 columns: took is how long the
// units that are done took, since how long the next has been at it, next what that
// one is predicted to take, or 0.
func progressLine(what, unit string, done, total int, took, since, next time.Duration) string {
	each := next
	if done > 0 {
		each = took / time.Duration(done)
	}
	if next == 0 {
		next = each
	}
	part := 0.0 // of the unit under way, which is not done before it is
	if done < total && next > 0 {
		part = min(since.Seconds()/next.Seconds(), 0.99)
	}
	full := int(barColumns * (float64(done) + part) / float64(max(total, 1)))
	tail := fmt.Sprintf("  [%s%s] %d/%d", strings.Repeat("#", full), strings.Repeat(".", barColumns-full), done, total)
	if done > 0 {
		if rate := float64(done) / took.Seconds(); rate >= 1 {
			tail += fmt.Sprintf("  %.3g %ss/s", rate, unit)
		} else {
			tail += fmt.Sprintf("  %s a %s", short(each), unit)
		}
	}
	if next > 0 {
		left := time.Duration(0)
		if done < total {
			left = max(next-since, 0) + each*time.Duration(total-done-1)
		}
		tail += "  " + left.Round(time.Second).String() + " left"
	}
	room := defaultWidth - 1 - utf8.RuneCountInString(tail)
	if r := []rune(what); len(r) > room {
		what = string(r[:max(room-1, 0)]) + "…"
	}
	return what + tail
}
