package bench

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/consensys/gnark-crypto/ecc"
	"github.com/consensys/gnark-crypto/ecc/bn254"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr/fft"
	groth16 "github.com/consensys/gnark/backend/groth16/bn254"
	"github.com/consensys/gnark/backend/witness"
	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/zk"
	"github.com/weft-run/weft/workload/zk/msm"
	"github.com/weft-run/weft/workload/zk/ntt"
)

// zkRow is one part of a proof on devices, with gnark's time for it on all cores.
type zkRow struct {
	What    string `json:"what"`
	Size    int    `json:"size,omitempty"` // points, elements or constraints
	Devices string `json:"devices"`
	// Seconds is the median time of a run, with copies of data that is not resident; Kernels is
	// the time of its kernels, over all devices.
	Seconds float64 `json:"seconds,omitempty"`
	Kernels float64 `json:"kernel_seconds,omitempty"`
	// Gnark is the median time that gnark takes on Cores cores, and Speedup its ratio to Seconds.
	Gnark   float64 `json:"gnark_seconds,omitempty"`
	Cores   int     `json:"cores,omitempty"`
	Speedup float64 `json:"speedup,omitempty"`
	// Rate is multiplications a second, of rows that measure it.
	Rate float64 `json:"rate,omitempty"`
	// Products is the number of products of field elements, Floor the time that their
	// multiply-adds take at the measured rate, and Share its ratio to Kernels.
	Products float64 `json:"products,omitempty"`
	Floor    float64 `json:"floor_seconds,omitempty"`
	Share    float64 `json:"share,omitempty"`
	// Same says that a proof has the bytes of gnark's with the same random numbers. Lost is the
	// stage in which a worker was killed, Hit whether it had a task then, and Added the time that
	// this added to the proof.
	Same  bool    `json:"same_bytes,omitempty"`
	Lost  string  `json:"lost_in,omitempty"`
	Hit   bool    `json:"hit,omitempty"`
	Added float64 `json:"added_seconds,omitempty"`
}

// zkBench is the benchmark of zk.
type zkBench struct {
	only        []string
	points, log int
	constraints int
	circuit     string
	sets        []string
	lose        string
}

// errOtherBytes is the error for a proof that is not gnark's with the same random numbers.
var errOtherBytes = errors.New("the proof has other bytes than gnark's")

// zkParts are the names of the parts for --only.
var zkParts = []string{"rate", "msm", "ntt", "groth16"}

func newZK(s Setup) *cobra.Command {
	var o zkBench
	c := benchmark[zkRow]{
		use:   "zk",
		short: "Proofs and their parts, compared with gnark on all cores",
		long: `Measure multi-scalar multiplication (resident points, scalars from the host), a
number-theoretic transform of resident elements, and Groth16 proofs, in turns
with gnark on all cores, and compare results with gnark's: proofs are made with
the same random numbers as gnark's own, and must have the same bytes. Each has
the time that its multiply-adds would take at the rate that the device reaches
when it does nothing else, and the share of that rate that it reaches.

--sets proves on other sets of devices too, and --lose kills a worker of a set
in each stage of a proof and reports the time that this adds.`,
		repeat: 3, measure: o.measure, text: writeZK,
	}.command(s)
	c.Example = `  weft bench zk --devices cuda:0 --points 4194304 --log 24 --constraints 1048576`
	f := c.Flags()
	f.StringSliceVar(&o.only, "only", nil, "`parts` to measure: rate, msm, ntt, groth16 (all)")
	f.IntVar(&o.points, "points", 1<<16, "points of a sum")
	f.IntVar(&o.log, "log", 18, "log of the elements of a transform")
	f.IntVar(&o.constraints, "constraints", 1<<13, "constraints of a proof, about")
	f.StringVar(&o.circuit, "circuit", zk.Chain, "mimc, range or merkle")
	f.StringArrayVar(&o.sets, "sets", nil, "further `devices` that prove, such as cuda:0/2; may be repeated")
	f.StringVar(&o.lose, "lose", "", "`devices` that lose a worker in each stage, such as cuda:0/2")
	terminal.Complete(c, "only", func() []string { return zkParts })
	terminal.Complete(c, "circuit", zk.Circuits)
	return c
}

func (o *zkBench) check() error {
	for _, name := range o.only {
		if err := terminal.MustName("part", name, zkParts); err != nil {
			return err
		}
	}
	switch {
	case o.points < 1 || o.points > 1<<26:
		return terminal.Usagef("--points %d: there must be 1 to %d", o.points, 1<<26)
	case o.log < 1 || o.log > ntt.MaxLog:
		return terminal.Usagef("--log %d: it must be 1 to %d", o.log, ntt.MaxLog)
	}
	if err := (zk.Config{Circuit: o.circuit, Constraints: o.constraints}).Validate(); err != nil {
		return terminal.Usage(err)
	}
	return nil
}

// wants says whether a part is measured.
func (o *zkBench) wants(part string) bool { return len(o.only) == 0 || slices.Contains(o.only, part) }

func (o *zkBench) measure(m *meter) (rows []zkRow, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	rt, err := m.open(nil)
	if err != nil {
		return nil, err
	}
	defer func() {
		if rt != nil {
			rt.Close()
		}
	}()
	r := &zkRun{o: o, m: m, rt: rt}
	for _, part := range []struct {
		name    string
		measure func() error
	}{{"rate", r.rates}, {"msm", r.sum}, {"ntt", r.transform}, {"groth16", r.proofs}} {
		if !o.wants(part.name) {
			continue
		}
		if err := terminal.Abandonable(m.ctx, part.measure); err != nil {
			return r.rows, err
		}
	}
	rt.Close()
	rt = nil
	if r.job != nil {
		err = cmp.Or(r.others(), r.losses())
	}
	return r.rows, err
}

// zkRun is one run of the benchmark.
type zkRun struct {
	o    *zkBench
	m    *meter
	rt   *weft.Runtime
	rows []zkRow
	adds float64 // multiply-adds a second

	keys *zk.Keys
	w    witness.Witness
	want []byte // the proof as gnark makes it
	job  *provenJob
}

// names returns the names of the devices, with commas between them.
func names(rt *weft.Runtime) string {
	var all []string
	for _, d := range rt.Devices() {
		all = append(all, d.Name)
	}
	return strings.Join(all, ",")
}

// perProduct is the number of multiply-adds of words that a product of field elements takes, and
// opsPerProduct its operations in the Work of tasks.
const (
	perProduct    = 136
	opsPerProduct = 2 * perProduct
)

// add adds a row, with the medians of times in seconds.
func (r *zkRun) add(row zkRow, took, kernels, gnark []float64) {
	row.Devices = cmp.Or(row.Devices, names(r.rt))
	row.Seconds, row.Cores = median(took), runtime.GOMAXPROCS(0)
	if len(kernels) > 0 {
		row.Kernels = median(kernels)
	}
	if len(gnark) > 0 {
		row.Gnark = median(gnark)
		row.Speedup = row.Gnark / row.Seconds
	}
	if r.adds > 0 && row.Products > 0 && row.Kernels > 0 {
		row.Floor = row.Products * perProduct / r.adds
		row.Share = row.Floor / row.Kernels
	}
	r.rows = append(r.rows, row)
}

// timed returns the seconds that a function takes.
func timed(fn func() error) (float64, error) {
	began := time.Now()
	err := fn()
	return time.Since(began).Seconds(), err
}

// busy returns the seconds of kernels in a run, over all devices.
func busy(rep *weft.Report) (s float64) {
	for _, d := range rep.Devices {
		s += d.Busy.Seconds()
	}
	return s
}

//go:embed rate.ptx.gz
var ratePTX []byte

// rateParams are the parameters of the kernels that measure rates.
type rateParams struct{ Rounds uint32 }

// rateKernel is a kernel that measures a rate, for cores and for GPUs of NVIDIA.
func rateKernel(name, entry string) *graph.Kernel {
	return &graph.Kernel{Name: name, Impls: []graph.Impl{
		{Dialect: graph.Go, Entry: name},
		{Dialect: graph.PTX, Arch: "sm_75", Entry: entry, Source: ratePTX, Per: [3]uint32{256}, Block: [3]uint32{256}},
	}}
}

const wordsKernel, productsKernel = "bench.words", "bench.products"

// words multiplies and adds as the kernel for GPUs does.
func words(c *weft.Call, p rateParams, lo, hi int) {
	in, out := weft.View[uint64](c.Args[0]), weft.View[uint64](c.Args[1])
	for i := lo; i < hi; i++ {
		var x [8]uint64
		for k := range x {
			x[k] = in[4*i+k%4] + uint64(k)
		}
		by := uint64(uint32(in[4*i]) | 1)
		for range p.Rounds {
			for k := range x {
				x[k] += uint64(uint32(x[k])) * by
			}
		}
		for k := range 4 {
			out[4*i+k] = x[k] ^ x[k+4]
		}
	}
}

// scalars multiplies as the kernel for GPUs does.
func scalars(c *weft.Call, p rateParams, lo, hi int) {
	in, out := weft.View[fr.Element](c.Args[0]), weft.View[fr.Element](c.Args[1])
	for i := lo; i < hi; i++ {
		x, y := in[i], in[i]
		y.Mul(&y, &y)
		for range p.Rounds {
			x.Mul(&x, &in[i])
			y.Mul(&y, &in[i])
		}
		out[i].Add(&x, &y)
	}
}

// rateItems is the number of items of a launch that measures a rate: about 2,000 for each of the 132
// multiprocessors of an H200.
const rateItems = 1 << 18

// rates measures multiplications a second.
func (r *zkRun) rates() error {
	most, cores := uint32(1<<15), false // long enough that a GPU's clock rises
	for _, d := range r.rt.Devices() {
		if d.HostMemory {
			most, cores = 128, true
		}
	}
	in := msm.DrawScalars(1, rateItems)
	for _, k := range []struct {
		name, entry, what string
		per               float64 // multiplications of an item in a round
		rounds            uint32
		of                func(*weft.Call, rateParams, int, int)
	}{
		{wordsKernel, "rate_words", "multiply-adds of words", 8, most, words},
		{productsKernel, "rate_products", "products of scalars", 2, most / 16, scalars},
	} {
		out := make([]fr.Element, rateItems)
		var b graph.Builder
		from := b.Data(graph.Data{Name: "in", Bytes: fr.Bytes * rateItems, Input: true})
		to := b.Data(graph.Data{Name: "out", Bytes: fr.Bytes * rateItems, Output: true})
		p := rateParams{k.rounds}
		b.Add(graph.Task{
			Name: k.what, Steps: []graph.Step{graph.Step{Kernel: rateKernel(k.name, k.entry), Launch: graph.Grid(rateItems)}.With(p)},
			Uses: []graph.Use{{Data: from, Access: graph.Read}, {Data: to, Access: graph.Write}},
		})
		g, err := b.Build()
		if err != nil {
			return err
		}
		var took, whole []float64
		for i := range r.m.repeat + 1 {
			rep, err := r.rt.Run(r.m.ctx, g, weft.Bind("in", in), weft.Bind("out", out))
			if err != nil {
				return err
			}
			if i > 0 {
				took, whole = append(took, busy(rep)), append(whole, rep.Elapsed().Seconds())
			}
		}
		const some = 16
		sample, want := make([]byte, some*fr.Bytes), make([]byte, some*fr.Bytes)
		copy(weft.View[fr.Element](sample), in)
		k.of(&weft.Call{Args: [][]byte{sample, want}}, p, 0, some)
		if !slices.Equal(weft.View[fr.Element](want), out[:some]) {
			return fmt.Errorf("%s: wrong products", k.what)
		}
		rate := k.per * rateItems * float64(k.rounds) / best(took)
		// The faster of both is nearer to what the device can do. Cores multiply longer words.
		switch {
		case k.name == productsKernel:
			r.adds = max(r.adds, rate*perProduct)
		case !cores:
			r.adds = max(r.adds, rate)
		}
		r.add(zkRow{What: k.what, Rate: rate}, whole, took, nil)
	}
	return nil
}

// sum measures a multi-scalar multiplication.
func (r *zkRun) sum() error {
	points, _ := msm.Draw[bn254.G1Affine](1, r.o.points)
	scalars := msm.DrawScalars(1, r.o.points)
	bases, err := msm.Put(r.rt, points)
	if err != nil {
		return err
	}
	defer bases.Release()
	j, err := bases.Job(scalars)
	if err != nil {
		return err
	}
	done, err := workload.Feed(r.rt, j)
	if err != nil {
		return err
	}
	defer done()
	var took, kernels, gnark []float64
	for i := range r.m.repeat + learning {
		var rep *weft.Report
		s, err := timed(func() error {
			res, err := workload.Run(r.m.ctx, r.rt, j)
			if err == nil {
				rep = res.Report
			}
			return err
		})
		if err != nil {
			return err
		}
		if i > 0 && i < learning {
			continue
		}
		var want bn254.G1Affine
		g, err := timed(func() error {
			_, err := want.MultiExp(points, scalars, ecc.MultiExpConfig{})
			return err
		})
		if err != nil {
			return err
		}
		if got := j.Result(); got != want {
			return fmt.Errorf("the sum of %d points is %v, and gnark-crypto's %v", len(points), &got, &want)
		}
		if i >= learning {
			took, kernels, gnark = append(took, s), append(kernels, busy(rep)), append(gnark, g)
		}
	}
	r.add(zkRow{What: "msm g1", Size: r.o.points, Products: j.Whole().Work.Ops / opsPerProduct}, took, kernels, gnark)
	return nil
}

// transform measures a transform of resident elements.
func (r *zkRun) transform() error {
	n := 1 << r.o.log
	x := msm.DrawScalars(2, n)
	d, err := weft.Put(r.rt, "elements", x)
	if err != nil {
		return err
	}
	defer d.Release()
	tr, err := ntt.NewTransformer(r.rt, r.o.log, ntt.Transform{})
	if err != nil {
		return err
	}
	defer tr.Release()
	domain := fft.NewDomain(uint64(n))
	var took, kernels, gnark []float64
	for i := range r.m.repeat + 1 {
		var rep *weft.Report
		s, err := timed(func() (err error) {
			rep, err = tr.Do(r.m.ctx, d)
			return err
		})
		if err != nil {
			return err
		}
		g, _ := timed(func() error {
			domain.FFT(x, fft.DIF)
			return nil
		})
		if i > 0 {
			took, kernels, gnark = append(took, s), append(kernels, busy(rep)), append(gnark, g)
			continue
		}
		fft.BitReverse(x)
		got, err := d.Get(r.m.ctx)
		if err != nil {
			return err
		}
		if !slices.Equal(got, x) {
			return fmt.Errorf("the transform of 2^%d elements is not gnark-crypto's", r.o.log)
		}
	}
	r.add(zkRow{What: "ntt", Size: n, Products: float64(n) / 2 * float64(r.o.log)}, took, kernels, gnark)
	return nil
}

// counting takes the place of random numbers, so that two proofs have the same.
type counting struct{ n byte }

func (c *counting) Read(b []byte) (int, error) {
	for i := range b {
		c.n += 37
		b[i] = c.n
	}
	return len(b), nil
}

// withoutChance calls a function with crypto/rand replaced, so that it draws the same numbers in every call.
func withoutChance(fn func() error) error {
	old := rand.Reader
	rand.Reader = &counting{}
	defer func() { rand.Reader = old }()
	return fn()
}

// provenJob is a proof that notes when the circuit is solved.
type provenJob struct {
	*zk.Job
	solved time.Time
	begun  func(solved time.Time) // called then, if it is set
	rep    *weft.Report
}

// Begin solves the circuit.
func (j *provenJob) Begin(ctx context.Context, rt *weft.Runtime) error {
	err := j.Job.Begin(ctx, rt)
	j.solved = time.Now()
	if err == nil && j.begun != nil {
		j.begun(j.solved)
	}
	return err
}

// prove makes a proof and returns the seconds that all of it took, those from the solved circuit on,
// and its bytes.
func (j *provenJob) prove(m *meter, rt *weft.Runtime) (whole, solved float64, proof []byte, err error) {
	err = withoutChance(func() error {
		began := time.Now()
		res, err := workload.Run(m.ctx, rt, j)
		if err != nil {
			return err
		}
		whole, solved, j.rep = time.Since(began).Seconds(), time.Since(j.solved).Seconds(), res.Report
		var b bytes.Buffer
		_, err = j.Proof().WriteTo(&b)
		proof = b.Bytes()
		return err
	})
	return whole, solved, proof, err
}

// proofs measures Groth16.
func (r *zkRun) proofs() error {
	compiled, w, err := zk.Shipped(r.o.circuit, r.o.constraints, 1)
	if err != nil {
		return err
	}
	r.w = w
	setup, err := timed(func() (err error) {
		r.keys, err = zk.Setup(context.Background(), compiled)
		return err
	})
	if err != nil {
		return err
	}
	size := r.keys.Circuit.GetNbConstraints()
	r.add(zkRow{What: "setup", Size: size, Devices: "cpu"}, []float64{setup}, nil, nil)
	j, err := r.newJob()
	if err != nil {
		return err
	}
	defer j.Release()
	r.job = j
	var whole, solved, kernels, gnark, gnarkSolved []float64
	for i := range r.m.repeat + learning {
		all, some, proof, err := j.prove(r.m, r.rt)
		if err != nil {
			return err
		}
		if i > 0 && i < learning {
			continue
		}
		g, gs, err := r.gnark()
		if err != nil {
			return err
		}
		if !bytes.Equal(proof, r.want) {
			return errOtherBytes
		}
		if err := j.Check(); err != nil {
			return err
		}
		if i >= learning {
			whole, solved, kernels = append(whole, all), append(solved, some), append(kernels, busy(j.rep))
			gnark, gnarkSolved = append(gnark, g), append(gnarkSolved, gs)
		}
	}
	products := j.Whole().Work.Ops / opsPerProduct
	r.add(zkRow{What: "groth16, from the solved circuit", Size: size, Products: products, Same: true}, solved, kernels, gnarkSolved)
	r.add(zkRow{What: "groth16, all of it", Size: size, Same: true}, whole, nil, gnark)
	return nil
}

// newJob is the proof as a job for another runtime.
func (r *zkRun) newJob() (*provenJob, error) {
	j, err := zk.NewJob(r.keys, r.w)
	return &provenJob{Job: j}, err
}

// gnark returns the seconds that gnark's proof takes, and those without solving the circuit.
func (r *zkRun) gnark() (whole, solved float64, err error) {
	var p *groth16.Proof
	err = withoutChance(func() error {
		whole, err = timed(func() (err error) {
			p, err = groth16.Prove(r.keys.Circuit, r.keys.Proving, r.w)
			return err
		})
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	solving, err := timed(func() error {
		_, err := r.keys.Circuit.Solve(r.w)
		return err
	})
	var b bytes.Buffer
	if err == nil {
		_, err = p.WriteTo(&b)
	}
	r.want = b.Bytes()
	return whole, max(whole-solving, 0), err
}

func writeZK(w io.Writer, rows []zkRow) {
	table := [][]any{{"what", "size", "devices", "time", "kernels", "gnark", "speedup", "floor", "share"}}
	some := func(x float64, format string) string {
		if x == 0 || math.IsNaN(x) {
			return ""
		}
		return fmt.Sprintf(format, x)
	}
	ms := func(s float64) string { return some(s*1e3, "%.4g ms") }
	for _, r := range rows {
		what, took := r.What, ms(r.Seconds)
		if r.Rate > 0 {
			took = fmt.Sprintf("%.4g G/s", r.Rate/1e9)
		}
		switch {
		case r.Hit:
			what += ", lost in " + r.Lost + ": added " + ms(r.Added)
		case r.Lost != "":
			what += ", no kill hit " + r.Lost
		}
		table = append(table, []any{what, r.Size, r.Devices, took, ms(r.Kernels), ms(r.Gnark), some(r.Speedup, "%.3g"), ms(r.Floor), some(100*r.Share, "%.0f %%")})
	}
	terminal.Table(w, table)
}
