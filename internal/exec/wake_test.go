package exec

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
)

// Devices wake the loop from several goroutines, or each only when the loop has heard
// of the last time, while callers ask it for something: it hears of everything, and
// no caller waits for it. With nothing lost it never sleeps for the hour it may.
func TestWakes(t *testing.T) {
	for _, c := range []struct {
		name                  string
		wakers, callers, each int
	}{{"one by one", 1, 0, 50_000}, {"at once", 4, 2, 3000}} {
		t.Run(c.name, func(t *testing.T) {
			l := &loop{
				x: &Executor{calls: make(chan func(*loop), 1)}, engine: engine.New(engine.Options{Machine: &machine.Machine{}}),
				wakeup: make(chan struct{}, 1), timer: time.NewTimer(time.Hour), spins: 1, yield: 1, host: &dev{},
			}
			var told, heard atomic.Int64
			called := 0
			var wg sync.WaitGroup
			for i := range c.wakers {
				wg.Go(func() {
					for k := range c.each {
						n := told.Add(1)
						l.wake()
						for look := 1; c.wakers == 1 && heard.Load() < n; look++ {
							if look%1000 == 0 {
								runtime.Gosched()
							}
						}
						for range k % (40 + i) { // until it sleeps, or nearly
							_ = told.Load()
						}
					}
				})
			}
			for range c.callers {
				wg.Go(func() {
					for range c.each {
						l.x.calls <- func(l *loop) {
							called++
							l.wake() // as a device does that refuses what it is given
						}
					}
				})
			}
			deadline := time.AfterFunc(time.Minute, func() { panic("the loop sleeps though it was woken") })
			defer deadline.Stop()
			for {
				l.rung.Store(false)
				heard.Store(told.Load())
				l.requests()
				if heard.Load() == int64(c.wakers*c.each) && called == c.callers*c.each {
					break
				}
				l.wait()
				if l.asleep.Load() || len(l.wakeup) > 0 {
					t.Fatal("awake, the loop is thought to be asleep")
				}
			}
			wg.Wait()
			l.wake() // after the end, too
		})
	}
}

// A loop beside devices in other processes yields while only devices of its own process work, which
// need its processor, and looks on without a pause in all other cases.
func TestLooking(t *testing.T) {
	for _, c := range []struct {
		name                            string
		copies, near, far, looks, yield int
	}{
		{"nothing", 0, 0, 0, farSpins, farYield}, {"far", 0, 0, 1, farSpins, farYield}, {"near", 0, 1, 0, spins, 1},
		{"copies in host memory", 1, 0, 0, spins, 1}, {"both", 1, 1, 1, farSpins, farYield},
	} {
		l := &loop{host: &dev{flight: c.copies}, devs: []*dev{{flight: c.near}, {flight: c.far, far: true}}, spins: farSpins, yield: farYield}
		if looks, yield := l.looking(); looks != c.looks || yield != c.yield {
			t.Errorf("%s: looks %d times and yields after %d, want %d and %d", c.name, looks, yield, c.looks, c.yield)
		}
		l.spins, l.yield = spins, 1 // as without others
		if looks, yield := l.looking(); looks != spins || yield != 1 {
			t.Errorf("%s, with no spare cores: looks %d times and yields after %d", c.name, looks, yield)
		}
	}
}

// A loop that would look for ever looks only where something began or ended: samples
// of idle devices' condition, and what else callers want to know, have it sleep again.
func TestIdleSleeps(t *testing.T) {
	x := open(t, Config{Drivers: []driver.Driver{faked(t, "devices 2; on 1 set util 0.7", incs)}, HealthInterval: time.Millisecond})
	own := make(chan *loop, 1)
	x.do(func(l *loop) {
		l.spins, l.yield = math.MaxInt, 1
		own <- l
	})
	l := <-own
	if x.spins != 0 {
		t.Error("callers stay awake for devices in this process")
	}
	for range 20 {
		eventually(t, x, "its condition was sampled", func(st []engine.DeviceStatus) bool { return st[1].Util == 0.7 })
		for end := time.Now().Add(time.Minute); !l.asleep.Load(); runtime.Gosched() {
			if time.Now().After(end) {
				t.Fatal("an idle loop looks for ever")
			}
		}
	}
	runs(t, x)
	x.Status()
	for range 1000 {
		runtime.Gosched()
		if l.asleep.Load() {
			t.Fatal("a loop that ran something sleeps at once")
		}
	}
}
