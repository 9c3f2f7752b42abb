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
	// Alone is what each share would take to do all of it, transfers included,
	// 0 for one that cannot; Copies is the part of it that is transfers, where
	// that is known.
	Alone, Copies []time.Duration
	// Together is what all of them take side by side, and Overhead what it costs
	// to start and await all but the best.
	Together, Overhead time.Duration
}

// Best returns the share that would be done first alone, -1 when none can.
func (c *Choice) Best() int {
	best := -1
	for i, t := range c.Alone {
		if t > 0 && (best < 0 || t < c.Alone[best]) {
			best = i
		}
	}
	return best
}

// Gain is how much sooner the work is done on several devices than on the best.
func (c *Choice) Gain() time.Duration { return c.Alone[c.Best()] - c.Together }

// One reports whether one device is the better choice.
func (c *Choice) One() bool { return c.Gain() <= c.Overhead }

// String puts the choice into words.
func (c *Choice) String() string {
	best := c.Best()
	alone, able := Round(c.Alone[best]), 0
	var others []string
	for i, t := range c.Alone {
		if t == 0 {
			continue
		}
		able++
		if i == best {
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
	alternatives := ""
	if len(others) > 0 {
		alternatives = " (" + strings.Join(others, ", ") + ")"
	}
	switch {
	case able == 1:
		return fmt.Sprintf("%s is the only device that can run it, in %v", c.Names[best], alone)
	case !c.One():
		return fmt.Sprintf("several devices: %s alone takes %v%s; splitting gains %v and costs %v to start and await the others",
			c.Names[best], alone, alternatives, Round(c.Gain()), Round(c.Overhead))
	case c.Gain() <= 0:
		return fmt.Sprintf("one device: %s alone takes %v%s; splitting gains nothing", c.Names[best], alone, alternatives)
	}
	return fmt.Sprintf("one device: %s alone takes %v%s; splitting would gain %v and cost %v to start and await the others",
		c.Names[best], alone, alternatives, Round(c.Gain()), Round(c.Overhead))
}
