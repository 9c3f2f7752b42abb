package sim

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/weft-run/weft/machine"
)

// BenchmarkSimMillion simulates a million tasks on 1,024 devices, engine and
// policy included, and reports the seconds of a simulation and the most memory
// the process ever had from the system. The targets are 5 s and 1 GiB.
func BenchmarkSimMillion(b *testing.B) {
	const devices, tasks = 1024, 1_000_000
	m := &machine.Machine{HostBPS: 1e10}
	for i := range devices {
		m.Devices = append(m.Devices, machine.Device{
			Name: fmt.Sprintf("cuda:%d", i), Backend: "cuda", Kind: machine.Discrete, MemBytes: 1 << 34,
			Rates: machine.Rates{Ops: [5]float64{1e12}, MemoryBPS: 1e12, LaunchNS: 5000},
		})
		m.Links = append(m.Links, machine.Link{A: machine.Host, B: machine.DeviceID(i), BPS: 1e10})
	}
	spec := Spec{Kind: "independent", N: tasks, Ops: 1e8}
	g, err := spec.Graph()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		res, err := Run(Config{Machine: m, Jobs: []Job{{Graph: g}}, Unchecked: true, Noise: 0.2})
		if err != nil {
			b.Fatal(err)
		}
		if r := &res.Runs[0]; r.Err != nil || r.Report.Executed != tasks {
			b.Fatalf("%+v", r)
		}
	}
	var ms runtime.MemStats
	runtime.ReadMemStats(&ms)
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/op")
	b.ReportMetric(float64(ms.Sys)/(1<<20), "MiB")
	b.ReportMetric(0, "ns/op")
}
