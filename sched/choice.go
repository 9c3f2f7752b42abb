package sched

import (
	"fmt"
	"strings"
	"time"
)

// Choice weighs doing work on one device against doing it on several. Splitting
// is right when it gains more than starting and awaiting the others costs.
type Choice struct {
	Names []string // of the shares
	// Alone is the duration of all the work on each share alone, transfers included, 0 for
	// one that cannot do it; Copies is the part of it that is transfers, if known.
	Alone, Copies []time.Duration
	// Together is the duration on several shares side by side, Overhead the time to start
	// and await all but the best, and Doubt the standard error of Together if it was
	// measured: the gain must be larger than the sum of both.
	Together, Overhead, Doubt time.Duration
	// Crowded names the devices that were left out from the start because they compute on
	// the cores of other devices, which are faster with them.
	Crowded []string
}

// Best returns the share that would be done first alone, of equal ones the first, and -1
// when none can.
func (c *Choice) Best() int {
	best := -1
	for i, t := range c.Alone {
		if t > 0 && (best < 0 || t < c.Alone[best]) {
			best = i
		}
	}
	return best
}

// Able returns the number of shares that can do the work alone.
func (c *Choice) Able() (n int) {
	for _, t := range c.Alone {
		if t > 0 {
			n++
		}
	}
	return n
}

// Gain returns the time saved by several devices compared with the best one alone.
func (c *Choice) Gain() time.Duration { return c.Alone[c.Best()] - c.Together }

// One reports whether one device is the better choice.
func (c *Choice) One() bool { return c.Gain() <= c.Overhead+c.Doubt }

// String puts the choice into words.
func (c *Choice) String() string {
	best := c.Best()
	alone := Round(c.Alone[best])
	var others []string
	for i, t := range c.Alone {
		if t == 0 || i == best {
			continue
		}
		note := ""
		if c.Copies[i] > 0 {
			note = fmt.Sprintf(", %v of it for copies", Round(c.Copies[i]))
		}
		others = append(others, fmt.Sprintf("%s takes %v%s", c.Names[i], Round(t), note))
	}
	const most = 3
	if len(others) > most {
		others = append(others[:most], "…")
	}
	crowd := ""
	if n := len(c.Crowded); n > 0 {
		crowd = fmt.Sprintf("; %s would compute on the same cores and make less of them", strings.Join(c.Crowded[:min(n, most)], ", "))
		if n > most {
			crowd = strings.Replace(crowd, " would", " … would", 1)
		}
	}
	alternatives := ""
	if len(others) > 0 {
		alternatives = " (" + strings.Join(others, ", ") + ")"
	}
	what := fmt.Sprintf("%s alone takes %v%s", c.Names[best], alone, alternatives)
	if c.Doubt > 0 {
		crowd = fmt.Sprintf(", give or take %v", Round(c.Doubt)) + crowd
	}
	switch {
	case c.Able() == 1:
		return fmt.Sprintf("%s is the only device that can run it, in %v", c.Names[best], alone)
	case !c.One():
		return fmt.Sprintf("several devices: %s; splitting gains %v and costs %v to start and await the others%s",
			what, Round(c.Gain()), Round(c.Overhead), crowd)
	case c.Gain() <= 0:
		return fmt.Sprintf("one device: %s; splitting gains nothing%s", what, crowd)
	}
	return fmt.Sprintf("one device: %s; splitting would gain %v and cost %v to start and await the others%s",
		what, Round(c.Gain()), Round(c.Overhead), crowd)
}
