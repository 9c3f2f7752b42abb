package bench

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/host"
	"github.com/weft-run/weft/workload"
)

// productRow is the rate of products of resident matrices.
type productRow struct {
	Precision string  `json:"precision"`
	Size      int     `json:"size"`
	Devices   int     `json:"devices"`
	Burst     int     `json:"burst"`         // products of each device in a run
	TFLOPS    float64 `json:"tflops"`        // of all devices together, median of the runs
	Best      float64 `json:"best_tflops"`   // likewise, of the best run
	Error     float64 `json:"error"`         // the largest relative error found
	Limit     float64 `json:"error_allowed"` // what it may be
}

// precision is a way to multiply: the routine, the bytes of an element, functions that
// write and read one, and the allowed relative error of a product of numbers between 1
// and 2.
type precision struct {
	name, routine string
	bytes         int
	put           func(b []byte, x float64)
	get           func(b []byte) float64
	limit         float64
}

var precisions = []precision{
	{"fp32", "cublas.sgemm", 4, putFP32, getFP32, 1e-5},
	{"tf32", "cublas.tf32gemm", 4, putFP32, getFP32, 2e-3},
	{"bf16", "cublas.bf16gemm", 2,
		func(b []byte, x float64) {
			binary.LittleEndian.PutUint16(b, uint16(math.Float32bits(float32(x))>>16))
		},
		func(b []byte) float64 {
			return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16))
		}, 1e-2},
	{"fp64", "cublas.dgemm", 8,
		func(b []byte, x float64) { binary.LittleEndian.PutUint64(b, math.Float64bits(x)) },
		func(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) }, 1e-12},
}

func putFP32(b []byte, x float64) { binary.LittleEndian.PutUint32(b, math.Float32bits(float32(x))) }
func getFP32(b []byte) float64    { return float64(math.Float32frombits(binary.LittleEndian.Uint32(b))) }

// products is the benchmark of that name.
type products struct {
	precisions  []string
	size, burst int
}

func newProduct(s Setup) *cobra.Command {
	var o products
	c := benchmark[productRow]{
		use:   "product",
		short: "Products of resident matrices by a vendor's library",
		long: `Multiply square matrices that stay on the devices, by the routines of a vendor's
library, in several precisions. Every device has matrices of its own and
computes a burst of products in each run; a rate is the sum over all devices,
from the beginning of a run to its end. Elements of the result are
compared with products in float64 before anything is timed.`,
		repeat: 10, measure: o.measure, text: writeProducts,
	}.command(s)
	c.Flags().StringSliceVar(&o.precisions, "precision", []string{"fp32", "tf32", "bf16"}, "`precisions`: fp32, tf32, bf16, fp64")
	c.Flags().IntVar(&o.size, "size", 8192, "rows and columns")
	c.Flags().IntVar(&o.burst, "burst", 10, "products in a run")
	return c
}

func (o *products) measure(m *meter) (rows []productRow, err error) {
	if o.size < 1 || o.size > 1<<16 || o.burst < 1 {
		return nil, terminal.Usagef("--size %d --burst %d: a size is from 1 to 65536, a burst at least 1", o.size, o.burst)
	}
	var chosen []precision
	for _, name := range o.precisions {
		i := slices.IndexFunc(precisions, func(p precision) bool { return p.name == name })
		if i < 0 {
			return nil, terminal.Usagef("--precision %s: there are fp32, tf32, bf16, fp64", name)
		}
		chosen = append(chosen, precisions[i])
	}
	if err := host.Enough("bench product", 5*8*int64(o.size)*int64(o.size)); err != nil {
		return nil, err
	}
	if m.options.Devices == "" {
		m.options.Devices = "cuda"
	}
	rt, err := m.open(nil)
	if err != nil {
		return nil, err
	}
	defer rt.Close()
	p := m.progress("run", len(chosen)*m.repeat)
	defer p.Finish()
	for _, prec := range chosen {
		p.At("%s", prec.name)
		row, err := o.one(m, rt, prec, p)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", prec.name, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// one measures one precision.
func (o *products) one(m *meter, rt *weft.Runtime, p precision, bar *terminal.Progress) (row productRow, err error) {
	n := o.size
	a, b := p.matrix(n, 1), p.matrix(n, 2)
	kernel := &graph.Kernel{Name: "bench." + p.name, Impls: []graph.Impl{workload.Library(p.routine)}}
	var g graph.Builder
	var bind []weft.Binding
	var results []*weft.Data[byte]
	devices := rt.Devices()
	for _, d := range devices {
		if !d.CanRun(kernel) {
			return row, terminal.Usagef("%s has no library for it; name devices, as in --devices cuda", d.Name)
		}
		var ids [3]graph.DataID
		for i, content := range [][]byte{a, b, nil} {
			name := fmt.Sprintf("%c on %s", "ABC"[i], d.Name)
			var data *weft.Data[byte]
			if content != nil {
				data, err = weft.Put(rt, name, content)
			} else {
				data, err = weft.Alloc[byte](rt, name, len(a))
				results = append(results, data)
			}
			if err != nil {
				return row, err
			}
			defer data.Release()
			ids[i] = g.Data(graph.Data{Name: name, Bytes: int64(len(a)), Input: content != nil, Output: content == nil})
			bind = append(bind, data.As(name))
		}
		for range o.burst {
			g.Add(graph.Task{
				Name:  "product on " + d.Name,
				Steps: []graph.Step{graph.Step{Kernel: kernel, Launch: graph.Grid(int64(n), int64(n))}.With(graph.MatMul{M: n, K: n, N: n})},
				Uses:  []graph.Use{{Data: ids[0], Access: graph.Read}, {Data: ids[1], Access: graph.Read}, {Data: ids[2], Access: graph.Write}},
				Work:  graph.Work{Ops: 2 * math.Pow(float64(n), 3), Bytes: 3 * float64(len(a))},
				On:    graph.Constraint{Only: []string{d.Name}},
			})
		}
	}
	built, err := g.Build()
	if err != nil {
		return row, err
	}
	prepared, err := rt.Prepare(built, bind...)
	if err != nil {
		return row, err
	}
	for range 3 { // matrices are copied, the library is loaded, clocks rise
		if _, err := prepared.Run(m.ctx); err != nil {
			return row, err
		}
	}
	row = productRow{Precision: p.name, Size: n, Devices: len(devices), Burst: o.burst, Limit: p.limit}
	for _, data := range results {
		c, err := data.Get(m.ctx)
		if err != nil {
			return row, err
		}
		if row.Error = max(row.Error, p.off(n, a, b, c)); !(row.Error <= p.limit) {
			return row, fmt.Errorf("the product is off by %.2g of itself; %.2g is right", row.Error, p.limit)
		}
	}
	if _, err := prepared.Run(m.ctx); err != nil { // clocks fell during the check
		return row, err
	}
	var rates []float64
	for range m.repeat {
		rep, err := prepared.Run(m.ctx)
		if err != nil {
			return row, err
		}
		rates = append(rates, 2*math.Pow(float64(n), 3)*float64(o.burst*len(devices))/rep.Elapsed().Seconds()/1e12)
		bar.Add()
	}
	row.TFLOPS, row.Best = median(rates), slices.Max(rates)
	return row, nil
}

// matrix makes n × n numbers between 1 and 2.
func (p *precision) matrix(n int, seed uint32) []byte {
	out := make([]byte, n*n*p.bytes)
	h := seed * 0x9e3779b9
	for i := range n * n {
		h = h*1664525 + 1013904223
		p.put(out[i*p.bytes:], 1+float64(h>>8)/(1<<24))
	}
	return out
}

// off is the largest relative error of 97 elements from all parts of a product, against
// float64.
func (p *precision) off(n int, a, b, c []byte) (worst float64) {
	const some = 97
	for s := range some {
		i, j := s*(n-1)/(some-1), (s*31)%n
		want := 0.0
		for k := range n {
			want += p.get(a[(i*n+k)*p.bytes:]) * p.get(b[(k*n+j)*p.bytes:])
		}
		// A NaN is the worst: no comparison with it holds.
		if e := math.Abs(p.get(c[(i*n+j)*p.bytes:])-want) / want; !(e <= worst) {
			worst = e
		}
	}
	return worst
}

func writeProducts(w io.Writer, rows []productRow) {
	table := [][]any{{"precision", "size", "devices", "median TFLOP/s", "best TFLOP/s", "off by"}}
	for _, r := range rows {
		table = append(table, []any{r.Precision, r.Size, r.Devices, fmt.Sprintf("%.3g", r.TFLOPS), fmt.Sprintf("%.3g", r.Best), strings.TrimSpace(fmt.Sprintf("%.1e", r.Error))})
	}
	terminal.Table(w, table)
}
