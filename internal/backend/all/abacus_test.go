package all_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/backend/fake"
	"github.com/weft-run/weft/machine"
)

// The abacus is a backend that nothing else knows: its folder would hold this file. It has memory of its
// own, for which it takes a scripted device, and one dialect: the source of a kernel is a list of lines
// such as "+ 3" and "* 2", which are done to each word of 32 bits of the argument.
const (
	abacusName                  = "abacus"
	abacusDialect graph.Dialect = "abacus"
)

type abacus struct{}

func newAbacus(struct{}) driver.Driver { return abacus{} }

func (abacus) Name() string { return abacusName }

func (abacus) Open(ctx context.Context, log *slog.Logger) ([]driver.Device, error) {
	funcs := map[string]driver.Func{abacusName: calculate}
	for name, fn := range cpu.Probes() {
		funcs[name] = fn
	}
	drv, err := fake.New(fake.Options{MemBytes: 64 << 20, Funcs: funcs})
	if err != nil {
		return nil, err
	}
	devs, err := drv.Open(ctx, log)
	for i, d := range devs {
		devs[i] = &frame{Device: d, number: i}
	}
	return devs, err
}

// frame is a device of the abacus.
type frame struct {
	driver.Device
	number int
}

func (f *frame) Info() machine.Device {
	info := f.Device.Info()
	info.Name, info.Backend, info.Model = fmt.Sprintf("%s:%d", abacusName, f.number), abacusName, "beads on wires"
	info.UUID, info.Dialects = fmt.Sprintf("%s-%d", abacusName, f.number), []graph.Dialect{abacusDialect}
	return info
}

// Traits bring the kernels that measure and check the device.
func (f *frame) Traits() driver.Traits {
	t := f.Device.Traits()
	t.Probes = make(map[string]graph.Impl)
	for name := range cpu.Probes() {
		t.Probes[name] = graph.Impl{Dialect: abacusDialect, Entry: name}
	}
	return t
}

// Submit has the scripted device run kernels in the dialect: their source becomes a parameter.
func (f *frame) Submit(batch []driver.Op) error {
	batch = slices.Clone(batch)
	for i := range batch {
		if batch[i].Task == nil {
			continue
		}
		t := *batch[i].Task
		t.Steps = slices.Clone(t.Steps)
		for k := range t.Steps {
			s := &t.Steps[k]
			at := slices.IndexFunc(s.Kernel.Impls, func(impl graph.Impl) bool { return impl.Dialect == abacusDialect })
			if at < 0 {
				continue // the scripted device refuses what it has no code for
			}
			impl := s.Kernel.Impls[at]
			impl.Dialect = graph.Go
			if len(impl.Source) > 0 {
				s.Params = impl.Source
			}
			s.Kernel = &graph.Kernel{Name: s.Kernel.Name, Impls: []graph.Impl{impl}}
		}
		batch[i].Task = &t
	}
	return f.Device.Submit(batch)
}

// calculate runs the source of a kernel, which Submit has put among the parameters.
func calculate(c *driver.Call, _, _ int) {
	words := c.Args[0]
	for line := range strings.Lines(string(c.Params)) {
		var sign string
		var by uint32
		if _, err := fmt.Sscanf(line, "%s %d", &sign, &by); err != nil || sign != "+" && sign != "*" {
			c.Fail(fmt.Errorf("no program for an abacus: %q", line))
			return
		}
		for i := 0; i+4 <= len(words); i += 4 {
			x := binary.NativeEndian.Uint32(words[i:])
			if sign == "+" {
				x += by
			} else {
				x *= by
			}
			binary.NativeEndian.PutUint32(words[i:], x)
		}
	}
}
