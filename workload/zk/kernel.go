package zk

import (
	"fmt"
	"math/big"
	"sync"

	"github.com/consensys/gnark-crypto/ecc"
	"github.com/consensys/gnark-crypto/ecc/bn254"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr/fft"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/signature"
)

// Words of 64 bits that a scalar, a point of G1 and one of G2 have.
const (
	scalarWords = 4
	pointWords1 = 2 * scalarWords
	pointWords2 = 2 * pointWords1
)

// Bytes that they take.
const (
	scalarBytes = 8 * scalarWords
	pointBytes1 = 8 * pointWords1
	pointBytes2 = 8 * pointWords2
)

var (
	// cosetKernel takes the values of a polynomial on the roots of unity to those on their
	// coset. Its arguments are both.
	cosetKernel = graph.GoKernel("zk.coset")
	// quotientKernel divides ab − c by the polynomial that is zero on the roots of unity. Its
	// arguments are the values of a, b and c on the coset, and the coefficients of the quotient
	// in the order of a proving key, which is that of reversed bits.
	quotientKernel = graph.GoKernel("zk.quotient")
	// sumKernel1 and sumKernel2 multiply points of G1 and G2 by scalars and add them up. Their
	// arguments are points, scalars and sums of parts; the grid is the parts.
	sumKernel1 = graph.GoKernel("zk.msm1")
	sumKernel2 = graph.GoKernel("zk.msm2")
	// addKernel1 and addKernel2 add up points of G1 and G2. Their arguments are points and
	// their sum.
	addKernel1 = graph.GoKernel("zk.add1")
	addKernel2 = graph.GoKernel("zk.add2")
)

// transformParams are the parameters of cosetKernel and quotientKernel.
type transformParams struct {
	log int // of the number of values, to base 2
}

// sumParams are the parameters of sumKernel1 and sumKernel2.
type sumParams struct {
	n, parts int // points, and parts that they are added up in
}

// addParams are the parameters of addKernel1 and addKernel2.
type addParams struct {
	n int // points
}

// maxLog is the largest size of a transform: scalars have as many roots of unity.
const maxLog = 28

// Funcs are the Go kernels of this workload.
func Funcs() map[string]weft.Func { return signature.Funcs(kernels) }

var kernels = []signature.Kernel{
	signature.Of(signature.Kernel{
		Name: "zk.coset", Does: "values of a polynomial on the coset of 2^log roots of unity", Grid: "1",
		Args: []signature.Arg{signature.In("values on the roots", graph.U8), signature.Out("values on the coset", graph.U8)},
	}, transformNeed(2), coset),
	signature.Of(signature.Kernel{
		Name: "zk.quotient", Does: "coefficients of (ab − c) / (x^(2^log) − 1), their bits reversed", Grid: "1",
		Args: []signature.Arg{signature.In("a on the coset", graph.U8), signature.In("b on the coset", graph.U8), signature.In("c on the coset", graph.U8), signature.Out("coefficients", graph.U8)},
	}, transformNeed(4), quotient),
	signature.Of(signature.Kernel{
		Name: "zk.msm1", Does: "sums of n points of BN254's G1 times scalars, in parts", Grid: "parts",
		Args: []signature.Arg{signature.In("points", graph.U8), signature.In("scalars", graph.U8), signature.Out("sums", graph.U8)},
	}, sumNeed(pointWords1), sums1),
	signature.Of(signature.Kernel{
		Name: "zk.msm2", Does: "sums of n points of BN254's G2 times scalars, in parts", Grid: "parts",
		Args: []signature.Arg{signature.In("points", graph.U8), signature.In("scalars", graph.U8), signature.Out("sums", graph.U8)},
	}, sumNeed(pointWords2), sums2),
	signature.Of(signature.Kernel{
		Name: "zk.add1", Does: "sum of n points of BN254's G1", Grid: "1",
		Args: []signature.Arg{signature.In("points", graph.U8), signature.Out("sum", graph.U8)},
	}, addNeed(pointWords1), add1),
	signature.Of(signature.Kernel{
		Name: "zk.add2", Does: "sum of n points of BN254's G2", Grid: "1",
		Args: []signature.Arg{signature.In("points", graph.U8), signature.Out("sum", graph.U8)},
	}, addNeed(pointWords2), add2),
}

// addNeed says what the sum of points takes.
func addNeed(words int) func(*weft.Call, addParams) (signature.Need, error) {
	return func(_ *weft.Call, p addParams) (n signature.Need, err error) {
		n.Items = 1
		n.Elements[0], n.Elements[1] = signature.Product(p.n, words), int64(words)
		return n, nil
	}
}

// transformNeed says what a transform takes that has a number of arguments.
func transformNeed(args int) func(*weft.Call, transformParams) (signature.Need, error) {
	return func(_ *weft.Call, p transformParams) (n signature.Need, err error) {
		if p.log > maxLog {
			return n, fmt.Errorf("log is %d: %d is the most", p.log, maxLog)
		}
		n.Items = 1
		for i := range args {
			n.Elements[i] = signature.Product(scalarWords, 1<<p.log)
		}
		return n, nil
	}
}

// sumNeed says what sums of points take.
func sumNeed(words int) func(*weft.Call, sumParams) (signature.Need, error) {
	return func(_ *weft.Call, p sumParams) (n signature.Need, err error) {
		n.Items = int64(p.parts)
		n.Elements[0], n.Elements[1], n.Elements[2] = signature.Product(p.n, words), signature.Product(p.n, scalarWords), signature.Product(p.parts, words)
		return n, signature.Positive([]string{"n", "parts"}, p.n, p.parts)
	}
}

// domains has the tables of transforms: a *fft.Domain by the logarithm of its size.
var domains sync.Map

// domainOf returns the tables of a size.
func domainOf(log int) *fft.Domain {
	if d, ok := domains.Load(log); ok {
		return d.(*fft.Domain)
	}
	d, _ := domains.LoadOrStore(log, fft.NewDomain(1<<log))
	return d.(*fft.Domain)
}

// one has a transform use one core, since others have tasks of their own.
var one = fft.WithNbTasks(1)

func coset(c *weft.Call, p transformParams, _, _ int) {
	d, out := domainOf(p.log), weft.View[fr.Element](c.Args[1])[:1<<p.log]
	copy(out, weft.View[fr.Element](c.Args[0]))
	d.FFTInverse(out, fft.DIF, one)
	if c.Stopped() {
		return
	}
	d.FFT(out, fft.DIT, fft.OnCoset(), one)
}

func quotient(c *weft.Call, p transformParams, _, _ int) {
	d := domainOf(p.log)
	x, y, z, out := weft.View[fr.Element](c.Args[0]), weft.View[fr.Element](c.Args[1]), weft.View[fr.Element](c.Args[2]), weft.View[fr.Element](c.Args[3])[:1<<p.log]
	// On the coset the divisor is the same everywhere.
	var by fr.Element
	unit := fr.One()
	by.Exp(d.FrMultiplicativeGen, new(big.Int).SetUint64(d.Cardinality))
	by.Sub(&by, &unit).Inverse(&by)
	for i := range out {
		out[i].Mul(&x[i], &y[i])
		out[i].Sub(&out[i], &z[i])
		out[i].Mul(&out[i], &by)
	}
	d.FFTInverse(out, fft.DIF, fft.OnCoset(), one)
}

// part returns the points of a part.
func (p *sumParams) part(i int) (lo, hi int) {
	at := func(i int) int { return int(int64(p.n) * int64(i) / int64(p.parts)) }
	return at(i), at(i + 1)
}

func sums1(c *weft.Call, p sumParams, lo, hi int) {
	points, scalars, out := weft.View[bn254.G1Affine](c.Args[0]), weft.View[fr.Element](c.Args[1]), weft.View[bn254.G1Affine](c.Args[2])
	for i := lo; i < hi && !c.Stopped(); i++ {
		from, to := p.part(i)
		if _, err := out[i].MultiExp(points[from:to], scalars[from:to], ecc.MultiExpConfig{NbTasks: 1}); err != nil {
			c.Fail(err)
		}
	}
}

func sums2(c *weft.Call, p sumParams, lo, hi int) {
	points, scalars, out := weft.View[bn254.G2Affine](c.Args[0]), weft.View[fr.Element](c.Args[1]), weft.View[bn254.G2Affine](c.Args[2])
	for i := lo; i < hi && !c.Stopped(); i++ {
		from, to := p.part(i)
		if _, err := out[i].MultiExp(points[from:to], scalars[from:to], ecc.MultiExpConfig{NbTasks: 1}); err != nil {
			c.Fail(err)
		}
	}
}

func add1(c *weft.Call, p addParams, _, _ int) {
	points := weft.View[bn254.G1Affine](c.Args[0])[:p.n]
	var all bn254.G1Jac
	for i := range points {
		all.AddMixed(&points[i])
	}
	weft.View[bn254.G1Affine](c.Args[1])[0].FromJacobian(&all)
}

func add2(c *weft.Call, p addParams, _, _ int) {
	points := weft.View[bn254.G2Affine](c.Args[0])[:p.n]
	var all bn254.G2Jac
	for i := range points {
		all.AddMixed(&points[i])
	}
	weft.View[bn254.G2Affine](c.Args[1])[0].FromJacobian(&all)
}
