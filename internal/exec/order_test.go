package exec_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/backend/fake"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/exec"
	"github.com/weft-run/weft/machine"
)

// ledger is what devices were given so far, over all of them.
type ledger struct {
	mu    sync.Mutex
	made  map[*noted]map[driver.Buffer]bool
	given map[driver.Lane]uint32
	whose map[driver.Lane]*noted
	from  int // copies from another device
	wrong []string
}

// noted is a device that writes down what it is given.
type noted struct {
	driver.Device
	all *ledger
}

func (n *noted) CanCopyFrom(o driver.Device) bool {
	return n.Device.(driver.PeerCopier).CanCopyFrom(o.(*noted).Device)
}

func (n *noted) Traits() driver.Traits {
	return driver.Traits{HostLink: machine.Link{A: machine.Host, Kind: machine.PCIe, BPS: 1e9, LatencyNS: 1e6}}
}

func (n *noted) LinkTo(driver.Device) (machine.Link, error) {
	return machine.Link{Kind: machine.NVLink, BPS: 1e12, LatencyNS: 100}, nil
}

func (n *noted) Attach(b *driver.Board, lanes []driver.Lane, wake func()) {
	for _, l := range lanes {
		n.all.whose[l] = n
	}
	n.Device.Attach(b, lanes, wake)
}

func (n *noted) Submit(batch []driver.Op) error {
	a := n.all
	a.mu.Lock()
	for i := range batch {
		op := &batch[i]
		switch op.Kind {
		case driver.Alloc:
			a.made[n][op.Buf] = true
		case driver.Free:
			delete(a.made[n], op.Buf)
		default:
			a.given[op.Lane] = op.Seq
		}
		if op.From == nil {
			continue
		}
		src := op.From.(*noted)
		a.from++
		if i < len(batch)-1 { // others' copies from there may come before it then
			a.wrong = append(a.wrong, fmt.Sprintf("a copy from %s that was held back for what came after it", src.Info().Name))
		}
		if !a.made[src][op.Src] {
			a.wrong = append(a.wrong, fmt.Sprintf("a copy from buffer %d of %s, which it does not have yet", op.Src, src.Info().Name))
		}
		for _, w := range op.Waits {
			if a.whose[w.Lane] == src && a.given[w.Lane] < w.Seq {
				a.wrong = append(a.wrong, fmt.Sprintf("a copy that waits for %v of %s, which it was not given yet", w, src.Info().Name))
			}
		}
		op.From = src.Device
	}
	a.mu.Unlock()
	return n.Device.Submit(batch)
}

type notedDriver struct {
	driver.Driver
	all *ledger
}

func (d notedDriver) Open(ctx context.Context, log *slog.Logger) ([]driver.Device, error) {
	devs, err := d.Driver.Open(ctx, log)
	for i, dev := range devs {
		n := &noted{dev, d.all}
		d.all.made[n] = make(map[driver.Buffer]bool)
		devs[i] = n
	}
	return devs, err
}

// A device that copies from another's buffer finds it made, and what the copy waits
// for given, whichever of the two is sent its work first: a worker process looks
// up where the buffer lies when it is given the copy, and once found the one that
// had its number before.
func TestCopiesFromOthersComeInOrder(t *testing.T) {
	all := &ledger{made: make(map[*noted]map[driver.Buffer]bool), given: make(map[driver.Lane]uint32), whose: make(map[driver.Lane]*noted)}
	devices, err := fake.New(fake.Options{Devices: 3, Peer: true, Funcs: map[string]driver.Func{"inc": inc}})
	if err != nil {
		t.Fatal(err)
	}
	copier, err := cpu.New(cpu.Options{Cores: 1}).Open(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	x, err := exec.Open(context.Background(), exec.Config{
		Drivers: []driver.Driver{notedDriver{devices, all}}, Copier: copier[0],
	})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close(context.Background())
	// Chains that go from device to device, against the order of their numbers too.
	const n, chains, length = 1000, 6, 12
	var b graph.Builder
	in := b.Data(graph.Data{Name: "in", Bytes: n, Input: true})
	out := b.Data(graph.Data{Name: "out", Bytes: chains * n, Output: true})
	for c := range chains {
		from := graph.Use{Data: in, Bytes: n}
		for i := range length {
			to := graph.Use{Data: out, Offset: int64(c) * n, Bytes: n, Access: graph.Write}
			if i < length-1 {
				to = graph.Use{Data: b.Data(graph.Data{Name: fmt.Sprint(c, i), Bytes: n}), Bytes: n, Access: graph.Write}
			}
			b.Add(graph.Task{
				Name:  fmt.Sprintf("link %d of %d", i, c),
				Steps: []graph.Step{{Kernel: kernel("inc"), Launch: graph.Launch{Grid: [3]uint32{n, 1, 1}}}},
				Uses:  []graph.Use{from, to},
				On:    graph.Constraint{Only: []string{fmt.Sprintf("fake:%d", (c+i*(1+c%2))%3)}},
			})
			from = graph.Use{Data: to.Data, Bytes: n}
		}
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	for run := range 5 {
		src, dst := make([]byte, n), make([]byte, chains*n)
		for i := range src {
			src[i] = byte(i + run)
		}
		if _, err := x.Run(context.Background(), g, engine.RunOptions{}, memory(src, dst)); err != nil {
			t.Fatal(err)
		}
		for i := range dst {
			if dst[i] != src[i%n]+length {
				t.Fatalf("run %d: byte %d is %d, want %d", run, i, dst[i], src[i%n]+length)
			}
		}
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.from == 0 {
		t.Error("no device copied from another")
	}
	for i, w := range all.wrong {
		if i == 5 {
			t.Fatalf("and %d more", len(all.wrong)-i)
		}
		t.Error(w)
	}
}
