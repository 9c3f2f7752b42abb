package serve

import (
	"sync"
	"sync/atomic"
	"time"
)

// maxClients is the number of clients that are told apart. Beyond it those that have been quiet are
// forgotten, and if none was, newcomers share one allowance.
const maxClients = 10_000

// clients counts what each client takes: requests a second, and requests at a time.
type clients struct {
	rate       float64 // a second; 0 is no limit
	burst      float64
	concurrent int
	reads      int // messages of gRPC of one client that are read at a time
	now        func() time.Time

	mu  sync.Mutex
	all map[string]*client
}

// client is one client. With a rate it has an allowance that fills up to a burst.
type client struct {
	left  float64 // requests it may make at once
	at    time.Time
	under int // requests under way

	held    atomic.Int64  // bytes of the bodies of its requests under way
	reading chan struct{} // has room for its messages of gRPC that are read at a time
}

func newClients(rate float64, concurrent int) *clients {
	return &clients{rate: rate, burst: max(2*rate, 1), concurrent: concurrent, now: time.Now, all: make(map[string]*client)}
}

// enter counts a request of a client in, for leave to count it out; or, if it is one too
// many, returns how long to wait.
func (c *clients) enter(name string) (who *client, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	x := c.find(name, now)
	if x.under >= c.concurrent {
		return nil, time.Second
	}
	if c.rate > 0 {
		x.left = min(c.burst, x.left+c.rate*now.Sub(x.at).Seconds())
		if x.at = now; x.left < 1 {
			return nil, time.Duration((1-x.left)/c.rate*float64(time.Second)) + 1
		}
		x.left--
	}
	x.under++
	return x, 0
}

// known returns the record of a client, of which no request is counted.
func (c *clients) known(name string) *client {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.find(name, c.now())
}

// find returns the record of a client.
func (c *clients) find(name string, now time.Time) *client {
	if x := c.all[name]; x != nil {
		return x
	}
	if len(c.all) >= maxClients {
		for k, x := range c.all {
			if x.under == 0 && (c.rate == 0 || x.left+c.rate*now.Sub(x.at).Seconds() >= c.burst) {
				delete(c.all, k) // a new record would be the same
			}
		}
	}
	if len(c.all) >= maxClients {
		if name = ""; c.all[name] != nil {
			return c.all[name]
		}
	}
	x := &client{left: c.burst, at: now, reading: make(chan struct{}, c.reads)}
	c.all[name] = x
	return x
}

// leave counts a request out.
func (c *clients) leave(who *client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	who.under--
}

// forgive gives back what a request took of its client's allowance.
func (c *clients) forgive(who *client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	who.left = min(c.burst, who.left+1)
}
