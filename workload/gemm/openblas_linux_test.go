package gemm

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/cpu"
)

// openBLAS is the peer: its SGEMM on one thread, found at run time.
type openBLAS struct {
	core  string
	sgemm func(order, transA, transB, m, n, k int32, alpha float32, a *float32, lda int32, b *float32, ldb int32, beta float32, c *float32, ldc int32)
}

func findOpenBLAS() (lib openBLAS, ok bool) {
	// OpenBLAS takes its slowest kernels on a processor newer than itself, so
	// tell it what to use. Its getenv reads the C environment.
	if _, set := os.LookupEnv("OPENBLAS_CORETYPE"); !set {
		libc, err := purego.Dlopen("libc.so.6", purego.RTLD_NOW)
		if err != nil {
			return lib, false
		}
		var setenv func(name, value string, overwrite int32) int32
		purego.RegisterLibFunc(&setenv, libc, "setenv")
		switch {
		case cpu.X86.HasAVX512BF16:
			setenv("OPENBLAS_CORETYPE", "Cooperlake", 1)
		case cpu.X86.HasAVX512F:
			setenv("OPENBLAS_CORETYPE", "SkylakeX", 1)
		case cpu.X86.HasAVX2:
			setenv("OPENBLAS_CORETYPE", "Haswell", 1)
		}
	}
	h, err := purego.Dlopen("libopenblas.so.0", purego.RTLD_NOW)
	if err != nil {
		return lib, false
	}
	var threads func(int32)
	var core func() string
	purego.RegisterLibFunc(&threads, h, "openblas_set_num_threads")
	purego.RegisterLibFunc(&core, h, "openblas_get_corename")
	purego.RegisterLibFunc(&lib.sgemm, h, "cblas_sgemm")
	threads(1)
	lib.core = core()
	return lib, true
}

// BenchmarkOpenBLAS runs Rows and OpenBLAS turn by turn on the same matrices,
// so that both meet the same neighbours on the machine, and reports the ratio of
// their rates: of the best runs, and of the medians. Without libopenblas
// (Debian: libopenblas0) it reports the own rate alone.
func BenchmarkOpenBLAS(b *testing.B) {
	const n = 1024
	peer, found := findOpenBLAS()
	if found {
		b.Logf("%s against OpenBLAS %s", kernel.Name, peer.core)
	} else {
		b.Log("libopenblas.so.0 is not installed: no ratio")
	}
	x, y, c := square(n)
	scratch := make([]float32, scratchFloats)
	var own, theirs []time.Duration
	for b.Loop() {
		t0 := time.Now()
		computeRows(c, x, y, n, n, 0, n, scratch)
		own = append(own, time.Since(t0))
		if !found {
			continue
		}
		if len(own) == 1 {
			if _, err := checkProduct(c, x, y, n, n, n, 1); err != nil {
				b.Fatal(err)
			}
			clear(c)
		}
		t0 = time.Now()
		const rowMajor, asIs = 101, 111
		peer.sgemm(rowMajor, asIs, asIs, n, n, n, 1, &x[0], n, &y[0], n, 0, &c[0], n)
		theirs = append(theirs, time.Since(t0))
		if len(own) == 1 {
			if _, err := checkProduct(c, x, y, n, n, n, 1); err != nil {
				b.Fatal("OpenBLAS: ", err)
			}
		}
	}
	slices.Sort(own)
	rate := func(d time.Duration) float64 { return ops(n, n, n) / float64(d.Nanoseconds()) }
	b.ReportMetric(rate(own[0]), "best-GFLOP/s")
	if found {
		slices.Sort(theirs)
		b.ReportMetric(rate(theirs[0]), "openblas-GFLOP/s")
		b.ReportMetric(rate(own[0])/rate(theirs[0]), "best-ratio")
		b.ReportMetric(rate(own[len(own)/2])/rate(theirs[len(theirs)/2]), "median-ratio")
	}
}
