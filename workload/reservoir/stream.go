package reservoir

import (
	"context"
	"fmt"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/replica"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/philox"
	"github.com/weft-run/weft/internal/signature"
	"github.com/weft-run/weft/workload"
)

// StreamConfig says what goes through a [Stream].
type StreamConfig struct {
	Params
	Replicas int // of the state; they are dealt out to devices in turn
	Patterns int // of each replica in a batch
	Steps    int // of a pattern
	Strategy replica.Strategy
	// Sample is on how many neurons an adaptive strategy measures divergence; 0
	// leaves it to package replica.
	Sample int
}

// Validate reports sizes that make no stream.
func (c StreamConfig) Validate() error {
	if err := c.Params.Validate(); err != nil {
		return err
	}
	const most = 1 << 10
	if c.Replicas < 1 || c.Replicas > most || c.Patterns < 1 || c.Patterns > most || c.Steps < 1 || c.Steps > most {
		return fmt.Errorf("reservoir: %d replicas, %d patterns, %d steps: %w: there must be 1 to %d", c.Replicas, c.Patterns, c.Steps, ErrParams, most)
	}
	return c.Strategy.Validate()
}

// Bytes is the host memory that a stream takes: inputs, states and the state that is
// carried on, of every replica, one if their number is left open; and the weights, as in
// [Config.Bytes], with the copy of them that stays with the runtime.
func (c StreamConfig) Bytes() float64 {
	replica := float64(c.Patterns)*c.patternBytes(c.Steps) + 4*float64(c.Size)
	return float64(max(c.Replicas, 1))*replica + 3*c.weightBytes() + 2*float64(c.denseBytes())
}

// Stream is a reservoir whose state goes on from batch to batch, in a replica on
// each of several devices. All patterns of a replica in a batch start from its
// state, and the mean of where they end is its state for the next; between
// batches replicas are merged into their mean when the strategy says so. Which
// device has a replica cannot be seen in the result: class R.
type Stream struct {
	rt      *weft.Runtime
	c       StreamConfig
	w       *Weights
	state   *replica.State[float32]
	weights []weft.Binding
	release []func()
	dense   bool // weights are there with their zeros as well
	batch   int  // how many there were
	u       []float32
	merged  []bool // by batch
}

var (
	// spreadKernel takes a state and the states patterns begin with, carryKernel
	// those they end with and the next state.
	spreadKernel = workload.With(graph.GoKernel("reservoir.spread", perItem),
		workload.PTX(ptx, "reservoir_spread", 256, 256), workload.SPIRV(spirv, "reservoir_spread", 64, 64))
	carryKernel = workload.With(graph.GoKernel("reservoir.carry", perItem),
		workload.PTX(ptx, "reservoir_carry", 256, 256), workload.SPIRV(spirv, "reservoir_carry", 64, 64))
)

// carryParams are the parameters of both.
type carryParams struct {
	size, patterns int
}

// need returns the need of a state, in one argument, and of the patterns' states, in
// another.
func (p carryParams) need(state, patterns int) (n signature.Need, err error) {
	n.Items = signature.Parts(p.size, perItem)
	n.Elements[state], n.Elements[patterns] = int64(p.size), signature.Product(p.size, p.patterns)
	return n, signature.Positive([]string{"size", "patterns"}, p.size, p.patterns)
}

// spread gives every pattern the replica's state.
func spread(c *weft.Call, p carryParams, lo, hi int) {
	x, start := weft.View[float32](c.Args[0]), weft.View[float32](c.Args[1])
	n := p.patterns
	for i := lo * perItem; i < min(hi*perItem, p.size); i++ {
		row := start[i*n : (i+1)*n]
		for l := range row {
			row[l] = x[i]
		}
	}
}

// carry makes the mean over patterns the replica's state.
func carry(c *weft.Call, p carryParams, lo, hi int) {
	end, x := weft.View[float32](c.Args[0]), weft.View[float32](c.Args[1])
	n := p.patterns
	for i := lo * perItem; i < min(hi*perItem, p.size); i++ {
		sum := float32(0)
		for _, v := range end[i*n : (i+1)*n] {
			sum += v
		}
		x[i] = sum / float32(n)
	}
}

// NewStream draws the weights, puts them on the devices and sets all replicas to
// zero. The runtime must have been opened with Funcs. Release gives up what it
// holds.
func NewStream(rt *weft.Runtime, c StreamConfig) (*Stream, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	w, err := New(c.Params)
	if err != nil {
		return nil, err
	}
	return newStream(rt, c, w)
}

func newStream(rt *weft.Runtime, c StreamConfig, w *Weights) (s *Stream, err error) {
	w.pad()
	s = &Stream{rt: rt, c: c, w: w, u: make([]float32, c.Replicas*c.Patterns*c.Steps*c.Inputs)}
	devices := rt.Machine().Devices
	var on []string
	for r := range c.Replicas {
		on = append(on, devices[r%len(devices)].Name)
	}
	s.state, err = replica.New(rt, make([]float32, c.Size), replica.Options[float32]{Devices: on, Strategy: c.Strategy, Sample: c.Sample, Exact: true})
	if err != nil {
		return nil, err
	}
	s.release = append(s.release, s.state.Release)
	s.dense = w.dense(rt.Machine())
	weights, release, err := w.reside(rt, s.dense)
	s.weights, s.release = weights, append(s.release, release...)
	if err != nil {
		s.Release()
		return nil, fmt.Errorf("reservoir: %w", err)
	}
	return s, nil
}

// Release gives up what the stream holds on devices.
func (s *Stream) Release() {
	for _, f := range s.release {
		f()
	}
}

// State is the replicated state.
func (s *Stream) State() *replica.State[float32] { return s.state }

// first is the number of a replica's first pattern in a batch.
func (c *StreamConfig) first(batch, r int) int { return (batch*c.Replicas + r) * c.Patterns }

// encode puts the inputs of a pattern, by its number, into lane l of n.
func (c *StreamConfig) encode(u []float32, pattern, n, l int) error {
	values := make([]float64, c.Inputs)
	draw := philox.Source{Seed: c.Seed, Stream: streamValues}
	for i := range values {
		values[i] = philox.Unit(draw.Uint32(uint64(pattern), 0, uint32(i)))
	}
	encoder := Encoder{Seed: c.Seed, Duration: duration}
	p, err := encoder.Rate(values, uint64(pattern))
	if err != nil {
		return err
	}
	p.Bins(u, c.Steps, c.Inputs, n, l)
	return nil
}

// Next takes the next batch through the reservoir and says whether the replicas
// were merged after it.
func (s *Stream) Next(ctx context.Context) (replica.Outcome, error) {
	g, err := s.graph()
	if err != nil {
		return replica.Outcome{}, err
	}
	if err := s.fill(); err != nil {
		return replica.Outcome{}, err
	}
	if _, err := s.rt.Run(ctx, g, s.bind()...); err != nil {
		return replica.Outcome{}, err
	}
	return s.updated(ctx)
}

// fill encodes the inputs of the next batch.
func (s *Stream) fill() error {
	c := &s.c
	clear(s.u)
	each := c.Patterns * c.Steps * c.Inputs
	for r := range c.Replicas {
		for l := range c.Patterns {
			if err := c.encode(s.u[r*each:(r+1)*each], c.first(s.batch, r)+l, c.Patterns, l); err != nil {
				return err
			}
		}
	}
	return nil
}

// bind ties the data of a batch's graph to inputs, weights and replicas.
func (s *Stream) bind() []weft.Binding {
	bind := append([]weft.Binding{weft.Bind("inputs", s.u)}, s.weights...)
	for r := range s.c.Replicas {
		bind = append(bind, s.state.Replica(r).As(fmt.Sprint("state ", r)))
	}
	return bind
}

// updated merges the replicas after a batch if the strategy says so.
func (s *Stream) updated(ctx context.Context) (replica.Outcome, error) {
	s.batch++
	out, err := s.state.Updated(ctx)
	s.merged = append(s.merged, out.Merged)
	return out, err
}

// graph is a batch: for every replica, on its device, three tasks in a row.
func (s *Stream) graph() (*graph.Graph, error) {
	var b graph.Builder
	c, w := &s.c, s.w
	weights := w.data(&b)
	u := b.Data(graph.Data{Name: "inputs", Bytes: int64(4 * len(s.u)), Input: true})
	input, size := int64(4*len(s.u)/c.Replicas), int64(4*c.Size*c.Patterns)
	k := call{
		size: c.Size, inputs: c.Inputs, neurons: c.Size, batch: c.Patterns, block: c.Patterns, steps: c.Steps,
		seed: c.Seed, leak: float32(c.Leak), noise: float32(c.Noise),
	}
	var dense graph.Use
	if s.dense {
		dense = w.denseUse(&b)
	}
	for r := range c.Replicas {
		data := func(what string) graph.DataID {
			return b.Data(graph.Data{Name: fmt.Sprint(what, " ", r), Bytes: size})
		}
		on := graph.Constraint{Only: []string{s.state.Device(r)}}
		x := b.Data(graph.Data{Name: fmt.Sprint("state ", r), Bytes: int64(4 * c.Size), Input: true, Output: true})
		start, end, mean := data("start"), data("end"), data("mean")
		moves := graph.Work{Ops: float64(c.Size * c.Patterns), Bytes: float64(4*c.Size) + float64(size)}
		b.Add(graph.Task{
			Name: fmt.Sprintf("replica %d, spread", r), On: on, Work: moves,
			Steps: []graph.Step{graph.Step{Kernel: spreadKernel, Launch: graph.Grid(int64(c.Size))}.With(carryParams{c.Size, c.Patterns})},
			Uses:  []graph.Use{{Data: x, Access: graph.Read}, {Data: start, Access: graph.Write}},
		})
		k.pattern = c.first(s.batch, r)
		t := w.stepsTask(k, s.dense)
		t.Name, t.On = fmt.Sprintf("replica %d, batch %d", r, s.batch), on
		t.Uses = append(w.uses(weights, 0, c.Size),
			graph.Use{Data: u, Offset: int64(r) * input, Bytes: input, Access: graph.Read},
			graph.Use{Data: start, Access: graph.Read}, graph.Use{Data: end, Access: graph.Write}, graph.Use{Data: mean, Access: graph.Write})
		if s.dense {
			t.Uses = append(t.Uses, dense)
		}
		b.Add(t)
		b.Add(graph.Task{
			Name: fmt.Sprintf("replica %d, carry", r), On: on, Work: moves,
			Steps: []graph.Step{graph.Step{Kernel: carryKernel, Launch: graph.Grid(int64(c.Size))}.With(carryParams{c.Size, c.Patterns})},
			Uses:  []graph.Use{{Data: end, Access: graph.Read}, {Data: x, Access: graph.Write}},
		})
	}
	return b.Build()
}

// Reference computes the replicas after the batches so far in float64, straight
// from the formula, with merges where there were some.
func (s *Stream) Reference() ([][]float64, error) {
	x, _, err := s.follow()
	return x, err
}

// follow is Reference, with how far every neuron of every replica may be off.
func (s *Stream) follow() (x, off [][]float64, err error) {
	c := &s.c
	x, off = make([][]float64, c.Replicas), make([][]float64, c.Replicas)
	for r := range x {
		x[r], off[r] = make([]float64, c.Size), make([]float64, c.Size)
	}
	u, one := make([]float32, c.Steps*c.Inputs), make([]float64, c.Inputs)
	for batch, merged := range s.merged {
		for r := range x {
			mean, meanOff := make([]float64, c.Size), make([]float64, c.Size)
			start := make([]float64, c.Size)
			for i, v := range off[r] {
				start[i] = v * v / (sigmas * sigmas)
			}
			for l := range c.Patterns {
				number := c.first(batch, r) + l
				clear(u)
				if err := c.encode(u, number, 1, 0); err != nil {
					return nil, nil, err
				}
				at, variance := x[r], start
				for k := range c.Steps {
					for i := range one {
						one[i] = float64(u[k*c.Inputs+i])
					}
					at, variance = s.w.follow(at, variance, one, uint64(number), uint32(k))
				}
				for i, v := range at {
					mean[i] += v / float64(c.Patterns)
					meanOff[i] += within(variance[i]) / float64(c.Patterns)
				}
			}
			x[r], off[r] = mean, meanOff
		}
		if merged {
			merge(x)
			merge(off)
		}
	}
	return x, off, nil
}

// merge sets all replicas to their mean.
func merge(x [][]float64) {
	mean := make([]float64, len(x[0]))
	for _, one := range x {
		for i, v := range one {
			mean[i] += v / float64(len(x))
		}
	}
	for r := range x {
		copy(x[r], mean)
	}
}
