package zk

import (
	"fmt"
	"math/big"
	"slices"
	"sync"

	"github.com/consensys/gnark-crypto/ecc/bn254/fr"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr/fft"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/signature"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/zk/msm"
	"github.com/weft-run/weft/workload/zk/ntt"
)

// scalarWords is the words of 64 bits that a scalar has, scalarBytes the bytes.
const (
	scalarWords = fr.Limbs
	scalarBytes = 8 * scalarWords
)

var (
	// cosetKernel takes the values of a polynomial on the roots of unity to those on their
	// coset, on cores. Its arguments are both.
	cosetKernel = workload.Only("zk.coset", graph.GoKernel("zk.coset").Impls[0])
	// quotientKernel divides ab − c by the polynomial that is zero on the roots of unity, on
	// cores. Its arguments are the values of a, b and c on the coset, and the coefficients of
	// the quotient.
	quotientKernel = workload.Only("zk.quotient", graph.GoKernel("zk.quotient").Impls[0])
	// passKernel is a pass of a transform on GPUs, and productKernel is ab − c there.
	passKernel    = onGPUs(ntt.Pass)
	productKernel = onGPUs(&graph.Kernel{Name: "zk.product", Impls: []graph.Impl{
		workload.PTX(ptx, "zk_product", 256, 256), workload.SPIRV(spirv, "zk_product", 64, 64),
	}})
)

// onGPUs returns a kernel that does its work on GPUs only; on cores it is empty, because another kernel
// of the task does it there.
func onGPUs(k *graph.Kernel) *graph.Kernel {
	impls := slices.DeleteFunc(slices.Clone(k.Impls), func(i graph.Impl) bool { return i.Dialect == graph.Go })
	return &graph.Kernel{Name: k.Name, Impls: append([]graph.Impl{{Dialect: graph.Go}}, impls...)}
}

// transformParams are the parameters of cosetKernel and quotientKernel.
type transformParams struct {
	log int // of the number of values, to base 2
}

// productParams are the parameters of productKernel.
type productParams struct {
	n int // values
}

// maxLog is the largest size of a transform on GPUs.
const maxLog = ntt.MaxLog

// Funcs are the Go kernels of this workload and of those that it uses.
func Funcs() map[string]weft.Func {
	return workload.Funcs(signature.Funcs(kernels), msm.Funcs(), ntt.Funcs())
}

var kernels = []signature.Kernel{
	signature.Of(signature.Kernel{
		Name: "zk.coset", Does: "values of a polynomial on the coset of 2^log roots of unity", Grid: "1",
		Args: []signature.Arg{signature.In("values on the roots", graph.U8), signature.Out("values on the coset", graph.U8)},
	}, transformNeed(2), coset),
	signature.Of(signature.Kernel{
		Name: "zk.quotient", Does: "coefficients of (ab − c) / (x^(2^log) − 1)", Grid: "1",
		Args: []signature.Arg{signature.In("a on the coset", graph.U8), signature.In("b on the coset", graph.U8), signature.In("c on the coset", graph.U8), signature.Out("coefficients", graph.U8)},
	}, transformNeed(4), quotient),
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

// divisor is the inverse of the polynomial that is zero on the 2^log roots of unity, which is the
// same on all of the coset.
func divisor(log int) (by fr.Element) {
	unit := fr.One()
	by.Exp(fft.GeneratorFullMultiplicativeGroup(), new(big.Int).SetUint64(1<<log))
	by.Sub(&by, &unit).Inverse(&by)
	return by
}

func quotient(c *weft.Call, p transformParams, _, _ int) {
	x, y, z, out := weft.View[fr.Element](c.Args[0]), weft.View[fr.Element](c.Args[1]), weft.View[fr.Element](c.Args[2]), weft.View[fr.Element](c.Args[3])[:1<<p.log]
	by := divisor(p.log)
	for i := range out {
		out[i].Mul(&x[i], &y[i])
		out[i].Sub(&out[i], &z[i])
		out[i].Mul(&out[i], &by)
	}
	domainOf(p.log).FFTInverse(out, fft.DIF, fft.OnCoset(), one)
	fft.BitReverse(out)
}
