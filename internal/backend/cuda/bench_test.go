//go:build gpu || stub || cgo

package cuda

import (
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
)

// drain collects n completions, looking without pause.
func (r *rig) drain(n int, done []driver.Completion) {
	for n > 0 {
		k := r.dev.Completions(done)
		for _, c := range done[:k] {
			if c.Err != nil {
				r.Fatal(c.Err)
			}
		}
		if n -= k; k == 0 {
			runtime.Gosched()
		}
	}
}

// BenchmarkLaunch: independent small kernels with a completion each, some hundred
// in flight.
func BenchmarkLaunch(b *testing.B) {
	r := openRig(b, Options{})
	buf := r.alloc(4096)
	g := args(4096, buf)
	task := &graph.Task{Steps: []graph.Step{step(testKernel("add_one"), 1024)}}
	batch := make([]driver.Op, 64)
	done := make([]driver.Completion, 1024)
	r.must(r.launch(0, task, g, r.copyIn(buf, make([]byte, 4096))))
	flight := 0
	b.ResetTimer()
	for n := 0; n < b.N; n += len(batch) {
		for i := range batch {
			r.seq[0]++
			batch[i] = driver.Op{Kind: driver.Launch, Lane: r.first, Seq: r.seq[0], Task: task, Args: g}
		}
		r.submit(batch...)
		flight += len(batch)
		for flight > 256 {
			k := r.dev.Completions(done)
			if flight -= k; k == 0 {
				runtime.Gosched()
			}
		}
	}
	r.drain(flight, done)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "launches/s")
}

// BenchmarkRoundTrip: 4 KB in, a kernel, 4 KB out, from mapped memory.
func BenchmarkRoundTrip(b *testing.B) {
	r := openRig(b, Options{})
	buf := r.alloc(4096)
	host := make([]byte, 2<<20)
	if err := r.dev.(driver.HostMapper).MapHost(host); err != nil {
		b.Fatal(err)
	}
	task := &graph.Task{Steps: []graph.Step{step(testKernel("add_one"), 1024)}}
	g := args(4096, buf)
	done := make([]driver.Completion, 16)
	batch := make([]driver.Op, 3)
	waits := make([]driver.Wait, 2)
	var took []time.Duration
	for range 200 + b.N {
		begin := time.Now()
		batch[0], waits[0] = r.on(r.in(), driver.Op{Kind: driver.Copy, Bytes: 4096, Src: driver.NoBuffer, Dst: buf, HostSrc: host[:4096]})
		batch[1], waits[1] = r.on(0, driver.Op{Kind: driver.Launch, Task: task, Args: g})
		batch[1].Waits = waits[:1]
		batch[2], _ = r.on(r.out(), driver.Op{Kind: driver.Copy, Bytes: 4096, Src: buf, Dst: driver.NoBuffer, HostDst: host[4096:8192]})
		batch[2].Waits = waits[1:2]
		r.submit(batch...)
		r.drain(3, done)
		took = append(took, time.Since(begin))
	}
	took = took[200:]
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2])/1e3, "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100])/1e3, "p99-µs")
	if err := r.dev.(driver.HostMapper).UnmapHost(host); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkCopy: large copies each way from mapped and from plain memory.
func BenchmarkCopy(b *testing.B) {
	const n = 256 << 20
	for _, mapped := range []bool{true, false} {
		for _, in := range []bool{true, false} {
			name := map[bool]string{true: "mapped", false: "plain"}[mapped] + map[bool]string{true: "In", false: "Out"}[in]
			b.Run(name, func(b *testing.B) {
				r := openRig(b, Options{})
				buf := r.alloc(n)
				host := make([]byte, n)
				for i := 0; i < n; i += 4096 {
					host[i] = 1
				}
				m := r.dev.(driver.HostMapper)
				if mapped {
					if err := m.MapHost(host); err != nil {
						b.Fatal(err)
					}
				}
				b.SetBytes(n)
				for b.Loop() {
					if in {
						r.must(r.copyIn(buf, host))
					} else {
						r.must(r.copyOut(host, buf))
					}
				}
				if mapped {
					if err := m.UnmapHost(host); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkGEMM: resident products of 8192³, by events of the device's own clock.
func BenchmarkGEMM(b *testing.B) {
	const n = 8192
	for _, entry := range []string{"cublas.sgemm", "cublas.tf32gemm", "cublas.bf16gemm"} {
		b.Run(entry, func(b *testing.B) {
			r := openRig(b, Options{})
			x, y, z := r.alloc(4*n*n), r.alloc(4*n*n), r.alloc(4*n*n)
			host := make([]uint32, n*n)
			for i := range host { // floats between 1 and 2, also as bfloat16
				h := uint32(i) * 2654435761
				host[i] = 0x3f803f80 | h&0x007f007f
			}
			r.must(r.copyIn(x, bytesOf(host)), r.copyIn(y, bytesOf(host)))
			kern := &graph.Kernel{Name: entry, Impls: []graph.Impl{{Dialect: graph.Library, Entry: entry}}}
			task := &graph.Task{Steps: []graph.Step{{Kernel: kern, Params: params(graph.MatMul{M: n, K: n, N: n})}}}
			for range 3 {
				r.must(r.launch(0, task, args(4*n*n, x, y, z)))
			}
			const flight = 10
			var last driver.Wait
			best := time.Duration(1 << 62)
			for b.Loop() {
				begin := time.Now()
				for range flight {
					last = r.launch(0, task, args(4*n*n, x, y, z))
				}
				r.must(last)
				best = min(best, time.Since(begin))
			}
			b.ReportMetric(2*n*n*n*flight*float64(b.N)/b.Elapsed().Seconds()/1e12, "TFLOP/s")
			b.ReportMetric(2*n*n*n*flight/best.Seconds()/1e12, "best-TFLOP/s")
		})
	}
}

// BenchmarkCalls: what the calls of the launch path cost by themselves, and what
// the GPU makes of them: launches alone, and with a ticket after so many.
func BenchmarkCalls(b *testing.B) {
	p, _, err := openPlatform(Options{LibraryPath: libraryPath(b)}, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	d, err := p.open(0)
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	a := d.api
	if err := a.do(d.f, &a.ctxSetCurrent, d.ctx); err != nil {
		b.Fatal(err)
	}
	sync := a.lib.bind("cuStreamSynchronize")
	s := d.streams[0]
	v := d.kernel(testKernel("empty")).variants[0]
	st := &graph.Step{Launch: graph.Launch{Grid: [3]uint32{1}, Block: [3]uint32{32}}}
	for _, every := range []int{0, 1, 4, 8, 16, 32} {
		b.Run(fmt.Sprint("ticket", every), func(b *testing.B) {
			var inCalls time.Duration
			const burst = 256
			for n := 0; n < b.N; n += burst {
				begin := time.Now()
				for i := range burst {
					if err := d.launch(v, st, nil, &op{stream: s}, s, false); err != nil {
						b.Fatal(err)
					}
					if every > 0 && i%every == 0 {
						a.code(d.f, &a.streamWrite, s.handle, s.addr, uintptr(i), 0)
					}
				}
				inCalls += time.Since(begin)
				a.code(d.f, &sync, s.handle)
			}
			b.ReportMetric(float64(inCalls)/float64(b.N), "call-ns/op")
		})
	}
}
