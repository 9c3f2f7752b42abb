package bench

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/host"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/machine"
)

// p2pRow is the rate and latency of copies from one device to another.
type p2pRow struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Link joins the devices: a kind of link as in machine files, or "memory" for
	// devices that compute in one memory, within which the copy is.
	Link string `json:"link"`
	// Direct is set where one device copies from the other; otherwise data goes
	// through host memory.
	Direct    bool    `json:"direct"`
	Bytes     int64   `json:"bytes"`
	BPS       float64 `json:"bytes_per_second"`
	LatencyUS float64 `json:"latency_us"`
}

// p2p is the benchmark of that name.
type p2p struct{ size string }

func newP2P(s Setup) *cobra.Command {
	var o p2p
	c := benchmark[p2pRow]{
		use:   "p2p",
		short: "Bandwidth and latency between every two devices",
		long: `Copy from every device to every other: a large buffer, whose best time is the
bandwidth, and 64 bytes, whose median time is the latency, from asking the
driver until the completion is seen. Devices that cannot copy from each other go
through host memory, as a run of theirs would. Link is what joins them.`,
		repeat: 9, measure: o.measure, text: writeP2P,
	}.command(s)
	c.Flags().StringVar(&o.size, "size", "64MiB", "`size` of the large buffer")
	return c
}

// tinyBytes is the size of a copy whose time is nearly all latency.
const tinyBytes = 64

func (o *p2p) measure(m *meter) (rows []p2pRow, err error) {
	size, err := text.ParseSize(o.size)
	if err != nil || size < tinyBytes {
		return nil, terminal.Usagef("--size %s: a size is written such as 16MiB and is at least %d", o.size, tinyBytes)
	}
	if err := host.Enough("bench p2p", 8*size); err != nil {
		return nil, err
	}
	if _, err := m.several(); err != nil {
		return nil, err
	}
	mach, err := m.machine() // with the links that opening a runtime found
	if err != nil {
		return nil, err
	}
	b, err := openBare(m.ctx, m.options.Devices, mach)
	defer func() { err = errors.Join(err, b.close()) }()
	if err != nil {
		return nil, err
	}
	p := m.progress("pair", len(b.devs)*(len(b.devs)-1))
	defer p.Finish()
	host := make([]byte, size)
	for i := range b.devs {
		for j := range b.devs {
			if i == j {
				continue
			}
			from, to := b.devs[i].Info().Name, b.devs[j].Info().Name
			p.At("%s to %s", from, to)
			row, err := b.pair(m, mach, i, j, host)
			if err != nil {
				return rows, fmt.Errorf("from %s to %s: %w", from, to, err)
			}
			rows = append(rows, row)
			p.Add()
		}
	}
	return rows, nil
}

// pair measures copies from device i to device j.
func (b *bare) pair(m *meter, mach *machine.Machine, i, j int, host []byte) (row p2pRow, err error) {
	for _, d := range []int{i, j} {
		free, failed := b.buffers(m.ctx, d, host)
		if failed != nil {
			return row, failed
		}
		defer func() { err = errors.Join(err, free()) }()
	}
	from, to := b.devs[i].Info(), b.devs[j].Info()
	row = p2pRow{From: from.Name, To: to.Name, Link: machine.HostLink.String(), Bytes: int64(len(host))}
	a, _ := mach.Lookup(from.Name)
	c, _ := mach.Lookup(to.Name)
	if l, ok := mach.LinkBetween(a, c); ok {
		row.Link = mach.Links[l].Kind.String()
	}
	once := func(n int64) (time.Duration, error) {
		out, err := b.do(m.ctx, i, laneOut, driver.Op{Kind: driver.Copy, Bytes: n, Src: bufA, Dst: driver.NoBuffer, HostDst: host[:n]})
		if err != nil {
			return 0, err
		}
		in, err := b.do(m.ctx, j, laneIn, driver.Op{Kind: driver.Copy, Bytes: n, Src: driver.NoBuffer, HostSrc: host[:n], Dst: bufB})
		return out + in, err
	}
	peer, can := b.devs[j].(driver.PeerCopier)
	switch {
	case mach.MemoryOf(a) == mach.MemoryOf(c):
		row.Link, row.Direct = "memory", true
		once = func(n int64) (time.Duration, error) {
			return b.do(m.ctx, j, laneIn, driver.Op{Kind: driver.Copy, Bytes: n, Src: bufA, Dst: bufB})
		}
	case can && peer.CanCopyFrom(b.devs[i]):
		row.Direct = true
		once = func(n int64) (time.Duration, error) {
			return b.do(m.ctx, j, laneIn, driver.Op{Kind: driver.Copy, Bytes: n, From: b.devs[i], Src: bufA, Dst: bufB})
		}
	}
	var large, tiny []float64
	for k := range m.repeat + 1 {
		l, err := once(row.Bytes)
		if err != nil {
			return row, err
		}
		t, err := once(tinyBytes)
		if err != nil {
			return row, err
		}
		if k > 0 { // the first warms up
			large, tiny = append(large, l.Seconds()), append(tiny, t.Seconds()*1e6)
		}
	}
	row.BPS, row.LatencyUS = float64(row.Bytes)/best(large), median(tiny)
	return row, nil
}

func writeP2P(w io.Writer, rows []p2pRow) {
	table := [][]any{{"from", "to", "link", "route", "rate", "latency"}}
	for _, r := range rows {
		route := "direct"
		if !r.Direct {
			route = "through host memory"
		}
		table = append(table, []any{r.From, r.To, r.Link, route, terminal.SI(r.BPS, "B/s"), fmt.Sprintf("%.1f µs", r.LatencyUS)})
	}
	terminal.Table(w, table)
}
