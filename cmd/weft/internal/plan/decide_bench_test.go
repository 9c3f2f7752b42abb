package plan

import (
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"time"
)

var (
	decisions = flag.Int("decisions", 1000, "decisions of BenchmarkDecide, at least")
	pause     = flag.Duration("pause", 5*time.Millisecond, "between two of them: a decision is asked for now and then")
	busyLoops = flag.Int("busy", runtime.NumCPU(), "processes that compute meanwhile where it is busy")
)

// busyEnv makes a process of this test compute until its standard input ends.
const busyEnv = "WEFT_PLAN_BUSY"

func TestMain(m *testing.M) {
	if os.Getenv(busyEnv) != "" {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(0)
		}()
		for x := 1.0; ; x = math.Sqrt(x + 1) {
		}
	}
	os.Exit(m.Run())
}

// BenchmarkDecide tells the 99th percentile of the time of at least a thousand decisions, on
// a machine that is idle otherwise and while other processes keep every core busy.
func BenchmarkDecide(b *testing.B) {
	r := job()
	r.Deadline = 2 * time.Hour
	for _, offers := range []int{0, 20000} {
		c, name := Shipped(), "shipped"
		if offers > 0 {
			c, name = manyOffers(rand.New(rand.NewPCG(9, 9)), offers), fmt.Sprint(offers)
		}
		for _, busy := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/busy=%t", name, busy), func(b *testing.B) {
				if busy {
					keepBusy(b, *busyLoops)
				}
				var took []time.Duration
				for range max(b.N, *decisions) {
					time.Sleep(*pause)
					began := time.Now()
					if _, err := Decide(r, c, sheet{}); err != nil {
						b.Fatal(err)
					}
					took = append(took, time.Since(began))
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2]), "ns/op") // the median
				b.ReportMetric(took[len(took)*99/100].Seconds()*1e3, "p99-ms")
				b.ReportMetric(float64(len(took)), "decisions")
			})
		}
	}
}

// keepBusy starts processes that compute until the benchmark ends.
func keepBusy(b *testing.B, processes int) {
	for range processes {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), busyEnv+"=1", "GOMAXPROCS=1")
		in, err := c.StdinPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			in.Close()
			_ = c.Wait()
		})
	}
}
