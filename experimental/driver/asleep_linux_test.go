package driver

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// While a goroutine of one process sleeps on a shared board, what another process does is
// counted in the word on which the first waits, so that it is woken at once; what it does
// itself is not.
func TestSleeperIsTold(t *testing.T) {
	const lanes = 2
	a, b := BoardBytes(lanes)
	own, far := make([]byte, a), make([]byte, b)
	boards := []*Board{ShareBoard(own, far, lanes), nil}
	var err error
	if boards[1], err = JoinBoard(own, far, 1); err != nil {
		t.Fatal(err)
	}
	head := boards[0].shared.head
	for sleeper, b := range boards {
		var up atomic.Bool
		woken := make(chan struct{})
		go func() {
			b.Sleep(up.Load)
			close(woken)
		}()
		limit := time.Now().Add(2 * time.Minute)
		before := head.moves.Load()
		for head.asleep.Load() == 0 && time.Now().Before(limit) {
			runtime.Gosched()
		}
		for range 100 {
			b.shared.moved()
		}
		if n := head.moves.Load(); n != before {
			t.Errorf("member %d sleeps, and %d moves of its own were counted", sleeper, n-before)
		}
		for head.moves.Load() == before && time.Now().Before(limit) {
			boards[1-sleeper].shared.moved()
			runtime.Gosched()
		}
		if head.moves.Load() == before {
			t.Fatalf("member %d sleeps, and what the other does is not counted", sleeper)
		}
		up.Store(true)
		b.Stir()
		<-woken
		b.Retire()
	}
}
