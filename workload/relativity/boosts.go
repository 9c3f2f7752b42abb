package relativity

import (
	"fmt"
	"math"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/philox"
	"github.com/weft-run/weft/internal/signature"
	"github.com/weft-run/weft/workload"
)

// boostsOnDevices boosts events. Its arguments are events x and y, velocities, the events x as
// they are in frames that move with the velocities, and the Minkowski products of x and y.
var boostsOnDevices = workload.With(graph.GoKernel("relativity.boosts", 256),
	workload.PTX(ptx, "relativity_boosts", 128, 128), workload.SPIRV(spirv, "relativity_boosts", 64, 64))

// boostParams are the parameters of boostsOnDevices.
type boostParams struct {
	n int
}

var boostsKernel = signature.Of(signature.Kernel{
	Name: "relativity.boosts", Does: "n Lorentz boosts, and n Minkowski products", Grid: "n", Per: []uint32{256},
	Args: []signature.Arg{signature.In("events x", graph.F8), signature.In("events y", graph.F8), signature.In("velocities", graph.F8),
		signature.Out("boosted x", graph.F8), signature.Out("products", graph.F8)},
}, func(_ *weft.Call, p boostParams) (n signature.Need, err error) {
	n.Items = signature.Parts(p.n, 256)
	for i, each := range []int{4, 4, 3, 4, 1} {
		n.Elements[i] = signature.Product(p.n, each)
	}
	return n, signature.Positive([]string{"n"}, p.n)
}, func(c *weft.Call, p boostParams, lo, hi int) {
	x, y, v := weft.View[float64](c.Args[0]), weft.View[float64](c.Args[1]), weft.View[float64](c.Args[2])
	out, products := weft.View[float64](c.Args[3]), weft.View[float64](c.Args[4])
	for i := lo * 256; i < min(hi*256, p.n); i++ {
		boost(out[4*i:4*i+4], x[4*i:4*i+4], v[3*i:3*i+3])
		products[i] = minkowski(x[4*i:4*i+4], y[4*i:4*i+4])
	}
})

// minkowski is t t′ − x x′ − y y′ − z z′.
func minkowski(x, y []float64) float64 {
	return float64(x[0]*y[0]) - float64(x[1]*y[1]) - float64(x[2]*y[2]) - float64(x[3]*y[3])
}

// boost writes an event as it is in a frame that moves with velocity v.
func boost(out, x, v []float64) {
	v2 := float64(v[0]*v[0]) + float64(v[1]*v[1]) + float64(v[2]*v[2])
	along := float64(v[0]*x[1]) + float64(v[1]*x[2]) + float64(v[2]*x[3])
	g := 1 / math.Sqrt(1-v2)
	by := g * (float64(g/(g+1)*along) - x[0])
	out[0] = g * (x[0] - along)
	for k := range 3 {
		out[k+1] = x[k+1] + float64(by*v[k])
	}
}

// boostJob is one set of events.
type boostJob struct {
	workload.Declared
	c             Config
	x, y, v       []float64
	out, products []float64
}

// newBoosts draws events in a cube around the origin, and velocities up to 0.99.
func newBoosts(c Config) *boostJob {
	j := &boostJob{c: c, x: make([]float64, 4*c.Count), y: make([]float64, 4*c.Count), v: make([]float64, 3*c.Count)}
	j.out, j.products = make([]float64, 4*c.Count), make([]float64, c.Count)
	draw := philox.Source{Seed: c.Seed, Stream: streamEvents}
	for i := range c.Count {
		a, b, v := draw.Block(uint64(i), 0, 0), draw.Block(uint64(i), 1, 0), draw.Block(uint64(i), 2, 0)
		for k := range 4 {
			j.x[4*i+k], j.y[4*i+k] = philox.Symmetric(a[k]), philox.Symmetric(b[k])
		}
		for k := range 3 {
			j.v[3*i+k] = philox.Symmetric(v[k]) * 0.99 / math.Sqrt(3)
		}
	}
	return j.declare()
}

// declare says what the job is. An event does not depend on others, and so rows are exact.
func (j *boostJob) declare() *boostJob {
	j.Declared = workload.Declare(workload.Declaration{
		Name: fmt.Sprintf("relativity %d boosts", j.c.Count), Class: workload.RowExact, Of: "events", Extent: int64(j.c.Count),
		Ports: []workload.Port{
			workload.In("x", j.x, 4), workload.In("y", j.y, 4), workload.In("velocities", j.v, 3),
			workload.Out("boosted", j.out, 4), workload.Out("products", j.products, 1),
		},
		Kernel: boostsOnDevices, Params: func(lo, hi int64) any { return boostParams{int(hi - lo)} },
		Ops: 60, Unit: graph.FP64,
	})
	return j
}

// Result is the boosted events and the products after a run, in the job's own memory.
func (j *boostJob) Result() (boosted, products []float64) { return j.out, j.products }

// Rate is boosts a second, and the memory that they take.
func (j *boostJob) Rate(d time.Duration) string {
	n := float64(j.c.Count) / d.Seconds()
	return fmt.Sprintf("%.1f M/s, %.2f GB/s", n/1e6, 8*16*n/1e9)
}

// Summary is the sums of the Minkowski products and of the times of boosted events.
func (j *boostJob) Summary() string {
	products, times := 0.0, 0.0
	for i, p := range j.products {
		products += p
		times += j.out[4*i]
	}
	return fmt.Sprintf("sum of products %.9g, of times after boosts %.9g", products, times)
}
