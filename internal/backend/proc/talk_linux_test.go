package proc

import (
	"io"
	"os"
	"testing"
	"time"
)

// What a child says is logged up to a burst, and later at a rate; that there was too
// much is told once.
func TestAllowance(t *testing.T) {
	var a allowance
	now := time.Unix(1e9, 0)
	bytes, told := 0, 0
	say := func(lines int) {
		for range lines {
			ok, first := a.take(now, 1024)
			if ok {
				bytes += 1024
			}
			if first {
				told++
			}
		}
	}
	say(100_000)
	if bytes != talkBurst || told != 1 {
		t.Errorf("%d bytes are logged at once and it is told %d times; want %d and once", bytes, told, talkBurst)
	}
	bytes = 0
	for range 100 {
		now = now.Add(time.Second)
		say(1000)
	}
	if bytes != 100*talkRate || told != 1 {
		t.Errorf("%d bytes are logged in 100 s and it is told %d times; want %d and once", bytes, told, 100*talkRate)
	}
	now, bytes = now.Add(time.Hour), 0
	say(100_000)
	if bytes != talkBurst {
		t.Errorf("%d bytes are logged after an hour of silence; want %d", bytes, talkBurst)
	}
}

// What a child printed is read to its end once the deadline has passed, though the pipe is
// held open by another process.
func TestOutputEnds(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	read := make(chan string)
	go func() {
		all, err := io.ReadAll(&output{f: r})
		if err != nil {
			t.Error(err)
		}
		read <- string(all)
	}()
	if _, err := w.WriteString("panic: one\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteString("two\n"); err != nil {
		t.Fatal(err)
	}
	if err := r.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-read:
		if got != "panic: one\ntwo\n" {
			t.Errorf("read %q", got)
		}
	case <-time.After(time.Minute):
		t.Fatal("it waits for the pipe to be closed")
	}
}
