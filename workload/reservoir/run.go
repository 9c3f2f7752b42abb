package reservoir

import (
	"fmt"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/signature"
)

// runOnDevices takes some blocks of patterns through all steps. It has the arguments of
// [stepOnDevices] and the parameters of a first step. Its grid is the patterns. Patterns do not
// depend on each other, so cores do not wait for one another, and the weights are checked and
// sorted once for all steps. It is implemented in Go alone: a device with more cores than
// patterns is faster with one step after another.
var runOnDevices = graph.GoKernel("reservoir.run", perRun)

// perRun is the number of patterns in one item of runOnDevices.
const perRun = 16

func runNeed(call *weft.Call, c call) (n signature.Need, err error) {
	if c.step != 0 {
		return n, fmt.Errorf("step %d: it begins at 0 and takes all", c.step)
	}
	n, err = stepNeed(call, c)
	n.Items = signature.Parts(c.batch, perRun)
	return n, err
}

// runTask takes the patterns of a call through all steps by one kernel.
func (w *Weights) runTask(c call) graph.Task {
	t := w.stepsTask(c, false)
	t.Steps = []graph.Step{graph.Step{Kernel: runOnDevices, Launch: graph.Grid(int64(c.batch))}.With(c)}
	return t
}

// block is the memory of a block of patterns, side by side in rows.
type block struct {
	width                        int
	u, start, end, mean, between []float32
}

func run(c *weft.Call, k call, lo, hi int) {
	w := k.weights(c.Args)
	for item := lo; item < hi; item++ {
		end := min((item+1)*perRun, k.batch)
		for b := item * perRun; b < end; {
			first := b / k.block * k.block // of the block
			width := min(k.block, k.batch-first)
			state := func(i int) []float32 { return weft.View[float32](c.Args[i])[first*k.size:][:width*k.size] }
			m := block{
				width: width,
				u:     weft.View[float32](c.Args[7])[first*k.inputs*k.steps:][:width*k.inputs*k.steps],
				start: state(8), end: state(9), mean: state(10), between: state(11),
			}
			patterns := Span{b - first, min(end-first, width)}
			if err := k.runBlock(c, &w, &m, uint64(k.pattern+first), patterns); err != nil {
				c.Fail(err)
				return
			}
			b = first + patterns.Hi
		}
	}
}

// runBlock takes some patterns of a block, the first of which has a number, through all steps.
func (c call) runBlock(call *weft.Call, w *Weights, b *block, first uint64, patterns Span) error {
	if done, err := c.runWide(w, b, patterns, call.Stopped); done {
		return err
	}
	for c.step = range c.steps {
		if call.Stopped() {
			return nil
		}
		x, next := c.states(b.start, b.end, b.between)
		t := Tick{Batch: b.width, First: first, Step: uint32(c.step)}
		if err := c.move(w, next, x, b.u[c.step*c.inputs*b.width:], b.mean, t, Span{0, c.size}, patterns); err != nil {
			return err
		}
	}
	return nil
}

// move takes neurons and patterns of a block through a step, and adds a part of their states
// to the means.
func (c call) move(w *Weights, next, x, u, mean []float32, t Tick, neurons, patterns Span) error {
	if err := w.update(next, x, u, t, neurons, patterns); err != nil {
		return err
	}
	for i := neurons.Lo - c.first; i < neurons.Hi-c.first; i++ {
		sum := mean[i*t.Batch+patterns.Lo : i*t.Batch+patterns.Hi]
		if c.step == 0 {
			clear(sum)
		}
		addMean(sum, next[i*t.Batch+patterns.Lo:i*t.Batch+patterns.Hi], float32(c.steps))
	}
	return nil
}

// resize returns a slice of a length, which is xs if that has room.
func resize[T any](xs []T, n int) []T {
	if cap(xs) < n {
		return make([]T, n)
	}
	return xs[:n]
}
