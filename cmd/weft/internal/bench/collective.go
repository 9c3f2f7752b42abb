package bench

import (
	"context"
	_ "embed" // for the peer's source
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/collective"
	"github.com/weft-run/weft/internal/host"
	"github.com/weft-run/weft/internal/text"
)

// collectiveRow is the time of one operation.
type collectiveRow struct {
	Op        string `json:"op"`
	Algorithm string `json:"algorithm,omitempty"`
	// Peer is empty for weft. "openmpi" is the same operation by OpenMPI; "memcpy"
	// copies the bytes that every device must get, on as many threads.
	Peer    string  `json:"peer,omitempty"`
	Devices int     `json:"devices"`
	Bytes   int64   `json:"bytes"` // of each device's vector
	Seconds float64 `json:"seconds"`
	BestSec float64 `json:"best_seconds"`
	// BusGBPS is bytes a second that each device must get, in units of 10⁹: 2(n-1)/n
	// times the vector's in an all-reduce, see traffic for others. A barrier has none.
	BusGBPS float64 `json:"bus_gbps,omitempty"`
	// Ratio is weft's bus bandwidth over the peer's, in rows of peers.
	Ratio float64 `json:"ratio,omitempty"`
	Why   string  `json:"why,omitempty"`
}

// collectives is the benchmark of that name.
type collectives struct {
	ops       []string
	sizes     []string
	counts    []int
	algorithm string
	peers     bool
	explain   bool
}

func newCollective(s Setup) *cobra.Command {
	var o collectives
	c := benchmark[collectiveRow]{
		use:   "collective",
		short: "How fast devices combine what each of them has",
		long: `Operations on vectors of float32 in host memory, on the cores cut into devices
(or on --devices). All-reduce of sums is compared with the limit of the machine,
as many copies at once of the bytes each device must get (memcpy), and with
OpenMPI where mpirun and mpicc are installed; --ops names other operations.
Every result is checked first; all take turns, round by round, and medians
count. Bus bandwidth is the bytes that each device must get over the time: for
an all-reduce 2(n-1)/n times the vector's.`,
		repeat: 9, measure: o.measure, text: o.text,
	}.command(s)
	c.Flags().StringSliceVar(&o.ops, "ops", []string{collective.OpAllReduce.String()}, "`operations`: "+strings.Join(operationNames(), ", "))
	c.Flags().StringSliceVar(&o.sizes, "sizes", []string{"4KiB", "1MiB", "64MiB"}, "`sizes` of the vectors")
	c.Flags().IntSliceVar(&o.counts, "split", []int{2, 4}, "`numbers` of devices to cut the cores into, when --devices names none")
	c.Flags().StringVar(&o.algorithm, "algorithm", "", "one of "+strings.Join(collective.Algorithms(), ", ")+"; the best by default")
	c.Flags().BoolVar(&o.peers, "peers", true, "also measure memcpy and OpenMPI")
	c.Flags().BoolVar(&o.explain, "explain", false, "say why the algorithm was chosen")
	return c
}

func (o *collectives) measure(m *meter) (rows []collectiveRow, err error) {
	sizes, err := byteSizes(o.sizes, 4, "1MiB")
	if err != nil {
		return nil, err
	}
	if o.algorithm != "" {
		if err := terminal.MustName("algorithm", o.algorithm, collective.Algorithms()); err != nil {
			return nil, err
		}
	}
	var ops []collective.Op
	for _, name := range o.ops {
		op, err := collective.ParseOp(name)
		if err != nil {
			return nil, terminal.Usagef("--ops %s: there are %s", name, strings.Join(operationNames(), ", "))
		}
		ops = append(ops, op)
	}
	if len(ops) == 0 {
		return nil, terminal.Usagef("--ops is empty: there are %s", strings.Join(operationNames(), ", "))
	}
	lists := []string{m.options.Devices}
	if m.options.Devices == "" {
		lists = nil
		for _, n := range o.counts {
			if n < 1 {
				return nil, terminal.Usagef("--split %d: cut the cores into 1 device or more", n)
			}
			lists = append(lists, "cpu/"+strconv.Itoa(n))
		}
	}
	if err := host.Enough("bench collective", 4*int64(slices.Max(append(o.counts, 1)))*slices.Max(sizes)); err != nil {
		return nil, err
	}
	var mpi *mpiPeer
	if o.peers {
		if mpi, err = newMPI(m.ctx); err != nil {
			return nil, err
		}
		defer mpi.close()
	}
	p := m.progress("size", len(lists)*len(sizes)*len(ops))
	defer p.Finish()
	for _, list := range lists {
		err := func() error {
			rt, err := m.open(func(w *weft.Options) { w.Devices = list })
			if err != nil {
				return err
			}
			defer rt.Close()
			g, err := collective.New(rt, collective.Options{Algorithm: o.algorithm})
			if err != nil {
				return err
			}
			for _, op := range ops {
				for _, size := range sizes {
					p.At("%v, %d devices, %s", op, g.Size(), text.FormatSize(size))
					more, err := o.one(m, g, mpi, op, size)
					rows = append(rows, more...)
					if err != nil {
						return err
					}
					p.Add()
					if op == collective.OpBarrier { // whose vectors are empty
						break
					}
				}
			}
			return nil
		}()
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// An operation is repeated until roundBytes of vectors were reduced, at most mostTimes
// times, and the time divided: small ones take microseconds, of which reading the clock
// is a part.
const (
	roundBytes = 64 << 20
	mostTimes  = 2000
)

// one measures one size of an operation on a group, and the peers of an all-reduce in
// turn with it.
func (o *collectives) one(m *meter, g *collective.Group, mpi *mpiPeer, op collective.Op, size int64) ([]collectiveRow, error) {
	n := g.Size()
	if op == collective.OpSend && n < 2 {
		return nil, nil
	}
	v := newVectors(op, n, size/4)
	res, err := v.do(m.ctx, g)
	if err != nil {
		return nil, err
	}
	if err := v.check(); err != nil {
		return nil, fmt.Errorf("%v of %d bytes on %d devices: %w", op, size, n, err)
	}
	if op == collective.OpBarrier {
		size = 0
	}
	times := int(min(max(roundBytes/max(size, 1), 1), mostTimes))
	ours := func() (float64, error) {
		began := time.Now()
		for range times {
			if _, err := v.do(m.ctx, g); err != nil {
				return 0, err
			}
		}
		return time.Since(began).Seconds() / float64(times), nil
	}
	row := collectiveRow{Op: op.String(), Algorithm: res.Algorithm, Devices: n, Bytes: size}
	contenders := []contender{{row, ours}}
	if o.explain && res.Algorithm == collective.Inline {
		contenders[0].row.Why = fmt.Sprintf("%v of %s over %s: inline, by the goroutine that asks for it\n", op, text.FormatSize(size), text.Count(n, "rank"))
	} else if o.explain {
		plan, err := g.Plan(collective.Spec{Op: op, Peer: v.spec.Peer, Count: v.spec.Count})
		if err != nil {
			return nil, err
		}
		contenders[0].row.Why = plan.Explain()
	}
	if o.peers && op == collective.OpAllReduce {
		row.Algorithm, row.Peer = "", "memcpy"
		contenders = append(contenders, contender{row, func() (float64, error) { return copyAll(n, int(size), times), nil }})
		if mpi != nil {
			row.Peer = "openmpi"
			contenders = append(contenders, contender{row, func() (float64, error) { return mpi.run(m.ctx, n, size, times) }})
		}
	}
	return race(contenders, m.repeat)
}

// contender is weft or a peer.
type contender struct {
	row  collectiveRow
	once func() (seconds float64, err error)
}

// race runs the contenders in turn, round by round, and compares the others with the
// first.
func race(all []contender, rounds int) (rows []collectiveRow, err error) {
	took := make([][]float64, len(all))
	for range rounds {
		for i, c := range all {
			s, err := c.once()
			if err != nil {
				return nil, err
			}
			took[i] = append(took[i], s)
		}
	}
	for i, c := range all {
		r := c.row
		r.Seconds, r.BestSec = median(took[i]), best(took[i])
		r.BusGBPS = traffic(r.Op, r.Devices) * float64(r.Bytes) / r.Seconds / 1e9
		if i > 0 {
			r.Ratio = r.Seconds / rows[0].Seconds
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// copyAll copies on n threads at once the bytes that n devices must get in an
// all-reduce, and returns the seconds until the last thread is done.
func copyAll(n, size, times int) float64 {
	each := 2 * (n - 1) * size / n
	src, dst := make([][]byte, n), make([][]byte, n)
	for i := range n {
		src[i], dst[i] = make([]byte, each), make([]byte, each)
		copy(dst[i], src[i]) // so that nothing is paged in while it is timed
	}
	var all sync.WaitGroup
	began := time.Now()
	for i := range n {
		all.Go(func() {
			for range times {
				copy(dst[i], src[i])
			}
		})
	}
	all.Wait()
	return time.Since(began).Seconds() / float64(times)
}

func (o *collectives) text(w io.Writer, rows []collectiveRow) {
	table := [][]any{{"operation", "devices", "vector", "by", "median", "best", "bus", "weft's is"}}
	for _, r := range rows {
		by, times := "weft, "+r.Algorithm, ""
		if r.Peer != "" {
			by, times = r.Peer, fmt.Sprintf("%.2f ×", r.Ratio)
		}
		table = append(table, []any{r.Op, r.Devices, text.FormatSize(r.Bytes), by,
			terminal.Seconds(r.Seconds), terminal.Seconds(r.BestSec), terminal.SI(1e9*r.BusGBPS, "B/s"), times})
	}
	terminal.Table(w, table)
	for _, r := range rows {
		if r.Why != "" {
			fmt.Fprintf(w, "\n%s", r.Why)
		}
	}
}

//go:embed peer/allreduce.c
var mpiSource []byte

// mpiPeer runs the same operation by OpenMPI.
type mpiPeer struct{ dir string }

// newMPI compiles the peer. It returns nil where mpirun or mpicc is not installed.
func newMPI(ctx context.Context) (*mpiPeer, error) {
	for _, name := range []string{"mpirun", "mpicc"} {
		if _, err := exec.LookPath(name); err != nil {
			return nil, nil
		}
	}
	dir, err := os.MkdirTemp("", "weft-mpi-")
	if err != nil {
		return nil, err
	}
	p := &mpiPeer{dir}
	source := filepath.Join(dir, "allreduce.c")
	if err := os.WriteFile(source, mpiSource, 0o600); err != nil {
		p.close()
		return nil, err
	}
	if out, err := exec.CommandContext(ctx, "mpicc", "-O3", "-o", filepath.Join(dir, "allreduce"), source).CombinedOutput(); err != nil {
		p.close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("mpicc: %w: %s (or leave peers out: --peers=false)", err, strings.TrimSpace(string(out)))
	}
	return p, nil
}

func (p *mpiPeer) close() {
	if p != nil {
		os.RemoveAll(p.dir)
	}
}

// mpiRounds is the number of rounds in one start of mpirun, which takes longer than
// they do.
const mpiRounds = 3

// run returns the median seconds of an operation.
func (p *mpiPeer) run(ctx context.Context, n int, size int64, times int) (float64, error) {
	limited, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(limited, "mpirun", "--allow-run-as-root", "--oversubscribe", "-np", strconv.Itoa(n), filepath.Join(p.dir, "allreduce"),
		strconv.FormatInt(size, 10), strconv.Itoa(times), strconv.Itoa(mpiRounds))
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	if ctx.Err() != nil {
		return 0, ctx.Err() // err is that mpirun was killed
	}
	if err != nil {
		return 0, fmt.Errorf("mpirun: %w: %s (or leave peers out: --peers=false)", err, strings.TrimSpace(stderr.String()))
	}
	var took []float64
	for line := range strings.FieldsSeq(string(out)) {
		s, err := strconv.ParseFloat(line, 64)
		if err != nil {
			return 0, fmt.Errorf("mpirun printed %q: %w", line, err)
		}
		took = append(took, s)
	}
	if len(took) != mpiRounds {
		return 0, errors.New("mpirun printed no times")
	}
	return median(took), nil
}
