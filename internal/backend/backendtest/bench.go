package backendtest

import (
	"fmt"
	"testing"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
)

// Bench measures what a backend's first device costs: launches of nothing given
// in batches, the way there and back for one, and copies by size. It checks
// that the device computes before it times anything.
func Bench(b *testing.B, c Config) {
	if c.Impls == nil {
		c.Impls = GoImpls
	}
	b.Run("launch", func(b *testing.B) {
		r := benchRig(b, &c)
		d := r.devs[0]
		task := &graph.Task{Name: "nothing", Steps: []graph.Step{r.step("noop", 1, 0)}}
		m := meter{d: d, window: 256}
		b.ReportAllocs()
		b.ResetTimer()
		for left := b.N; left > 0; left -= min(left, 64) {
			for range min(left, 64) {
				m.add(driver.Op{Kind: driver.Launch, Lane: d.compute(), Task: task})
			}
			m.send(b)
		}
		m.drain(b, 0)
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "launches/s")
	})
	b.Run("round trip", func(b *testing.B) {
		r := benchRig(b, &c)
		d := r.devs[0]
		task := &graph.Task{Name: "nothing", Steps: []graph.Step{r.step("noop", 1, 0)}}
		m := meter{d: d}
		b.ResetTimer()
		for range b.N {
			m.add(driver.Op{Kind: driver.Launch, Lane: d.compute(), Task: task})
			m.send(b)
			m.drain(b, 0)
		}
	})
	for _, way := range []string{"in", "out", "within"} {
		for _, n := range []int64{4 << 10, 64 << 10, 1 << 20, 16 << 20} {
			b.Run(fmt.Sprintf("copy %s/%dKiB", way, n>>10), func(b *testing.B) {
				r := benchRig(b, &c)
				d := r.devs[0]
				x, y, host := d.alloc(n), d.alloc(n), make([]byte, n)
				r.sent(d, d.write(x, 0, host), d.write(y, 0, host))
				o := driver.Op{Kind: driver.Copy, Bytes: n}
				switch way {
				case "in":
					o.Lane, o.Src, o.HostSrc, o.Dst = d.in(), driver.NoBuffer, host, x
				case "out":
					o.Lane, o.Src, o.Dst, o.HostDst = d.out(), x, driver.NoBuffer, host
				case "within":
					o.Lane, o.Src, o.Dst = d.in(), x, y
				}
				m := meter{d: d, window: 8}
				b.SetBytes(n)
				b.ResetTimer()
				for range b.N {
					m.add(o)
					m.send(b)
				}
				m.drain(b, 0)
			})
		}
	}
}

func benchRig(b *testing.B, c *Config) *rig {
	b.Helper()
	r := newRig(b, c, 1, false)
	d := r.devs[0]
	d.direct = d.Info().HostMemory
	d.alive("it was opened")
	return r
}

// meter gives a device operations without the rig's bookkeeping, whose time would
// be measured too. It keeps at most window and a batch in flight, and looks only at
// errors and counts.
type meter struct {
	d      *dev
	window int
	batch  []driver.Op
	flight int
	got    [512]driver.Completion
}

func (m *meter) add(o driver.Op) {
	m.d.seq[o.Lane]++
	o.Seq = m.d.seq[o.Lane]
	m.batch = append(m.batch, o)
}

func (m *meter) send(b *testing.B) {
	if err := m.d.Submit(m.batch); err != nil {
		b.Fatal(err)
	}
	m.flight += len(m.batch)
	m.batch = m.batch[:0]
	m.drain(b, m.window)
}

// drain waits until at most n operations are in flight.
func (m *meter) drain(b *testing.B, n int) {
	for {
		got := m.d.Completions(m.got[:])
		for i := range m.got[:got] {
			if err := m.got[i].Err; err != nil {
				b.Fatal(err)
			}
		}
		if m.flight -= got; m.flight <= n {
			return
		}
		if got == 0 {
			<-m.d.woke
		}
	}
}
