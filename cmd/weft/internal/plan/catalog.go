package plan

import (
	"bytes"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/machine"
)

//go:embed gpus.csv
var shippedGPUs []byte

//go:embed instances.csv
var shippedInstances []byte

// Catalogue holds GPU models and the instances that have them.
type Catalogue struct {
	GPUs      []GPU
	Instances []Instance
	gpus      map[string]int // position in GPUs by name
	instances map[string]int // position in Instances by cloud, type and region
}

// Shipped returns a fresh copy of the catalogue that comes with weft.
func Shipped() *Catalogue {
	c := new(Catalogue)
	for _, src := range [][]byte{shippedGPUs, shippedInstances} {
		if err := c.Add(src); err != nil {
			panic("plan: " + err.Error()) // TestShipped reads them
		}
	}
	return c
}

// GPU returns the model of that name.
func (c *Catalogue) GPU(name string) (GPU, error) {
	if i, ok := c.gpus[name]; ok {
		return c.GPUs[i], nil
	}
	names := make([]string, len(c.GPUs))
	for i, g := range c.GPUs {
		names[i] = g.Name
	}
	slices.Sort(names)
	return GPU{}, text.Unknown("GPU", name, names)
}

// Model returns the model that a device is of, as "NVIDIA H100 80GB HBM3" is an H100-SXM. Where
// several are possible it is the one with the longest name.
func (c *Catalogue) Model(device *machine.Device) (GPU, bool) {
	best := -1
	for i, g := range c.GPUs {
		m, _ := MachineOf(g, 1)
		if sameModel(device, &m.Devices[0]) && (best < 0 || len(g.Name) > len(c.GPUs[best].Name)) {
			best = i
		}
	}
	if best < 0 {
		return GPU{}, false
	}
	return c.GPUs[best], true
}

// Offers returns every price of every instance.
func (c *Catalogue) Offers() []Offer {
	offers := make([]Offer, 0, 2*len(c.Instances))
	for _, i := range c.Instances {
		offers = append(offers, Offer{Instance: i})
		if i.Spot > 0 {
			offers = append(offers, Offer{Instance: i, OnSpot: true})
		}
	}
	return offers
}

// Add reads a file of the catalogue: comma-separated values with a line of column names.
// A file whose first column is "name" describes GPUs, one whose first column is "cloud"
// instances; optional columns may be missing or empty. A row for a GPU or an instance that
// is already there replaces it, so that a user's file can correct a price. Every error is
// a *graph.SyntaxError for the first mistake found, and leaves the catalogue as it was.
func (c *Catalogue) Add(src []byte) error {
	t := table{csv: csv.NewReader(bytes.NewReader(src))}
	t.csv.FieldsPerRecord = -1
	if err := t.header(); err != nil {
		return err
	}
	next := Catalogue{
		GPUs: slices.Clone(c.GPUs), Instances: slices.Clone(c.Instances),
		gpus: make(map[string]int, len(c.GPUs)), instances: make(map[string]int, len(c.Instances)),
	}
	for i, g := range next.GPUs {
		next.gpus[g.Name] = i
	}
	for i, n := range next.Instances {
		next.instances[n.key()] = i
	}
	seen := map[string]int{} // line by key
	for {
		more, err := t.next()
		if err != nil {
			return err
		}
		if !more {
			break
		}
		var key string
		if t.kind == &gpuColumns {
			g := t.gpu()
			key = g.Name
			put(next.gpus, key, &next.GPUs, g)
		} else {
			n := t.instance(&next)
			key = n.key()
			put(next.instances, key, &next.Instances, n)
		}
		if first, twice := seen[key]; twice {
			t.fail("%s is already in line %d; remove one of the rows", strings.TrimSuffix(strings.ReplaceAll(key, "\x00", " "), " "), first)
		}
		if seen[key] = t.line; t.err != nil {
			return t.err
		}
	}
	*c = next
	return nil
}

// put sets the element with a key, or appends it.
func put[T any](at map[string]int, key string, list *[]T, x T) {
	if i, ok := at[key]; ok {
		(*list)[i] = x
		return
	}
	at[key] = len(*list)
	*list = append(*list, x)
}

func (i Instance) key() string { return i.Cloud + "\x00" + i.Type + "\x00" + i.Region }

// columns are the columns of a kind of file; required ones come first.
type columns struct {
	required int
	names    []string
}

var gpuColumns = columns{4, []string{"name", "memory_gb", "mem_bw_gbps", "fp32_tflops",
	"vendor", "arch", "compute_capability", "tf32_tflops_dense", "bf16_tflops_dense", "fp16_tflops_dense",
	"fp8_tflops_dense", "int8_tops_dense", "nvlink_gbps_total", "pcie", "source", "unverified_fields"}}

var instanceColumns = columns{6, []string{"cloud", "instance_type", "gpu", "gpu_count", "usd_per_hour_ondemand", "price_date",
	"region", "vcpus", "memory_gib", "usd_per_hour_spot_min", "usd_per_gpu_hour", "intra_node_link", "inter_node_gbps",
	"source", "note", "unverified_fields"}}

// table is a file being read, with its present row.
type table struct {
	csv  *csv.Reader
	kind *columns
	at   map[string]int // position of a column
	row  []string
	line int
	err  *graph.SyntaxError // the first mistake of the row
}

func (t *table) fail(format string, args ...any) {
	if t.err == nil {
		t.err = &graph.SyntaxError{Line: t.line, Reason: fmt.Sprintf(format, args...)}
	}
}

// read reads a row. It returns false at the end.
func (t *table) read() (bool, error) {
	row, err := t.csv.Read()
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	if bad := (*csv.ParseError)(nil); errors.As(err, &bad) {
		return false, &graph.SyntaxError{Line: bad.Line, Reason: bad.Err.Error() + "; a field with a comma or a quote stands in quotes, and a quote within is doubled"}
	}
	if err != nil {
		return false, &graph.SyntaxError{Line: 1, Reason: err.Error()}
	}
	t.line, _ = t.csv.FieldPos(0)
	t.row = row
	return true, nil
}

// header reads the names of the columns, which tell the kind of file.
func (t *table) header() error {
	const kinds = `the first line names the columns: "name,…" of a file of GPUs, "cloud,…" of one of instances`
	t.line = 1
	some, err := t.read()
	if err != nil {
		return err
	}
	switch {
	case !some:
		t.fail("the file is empty; %s", kinds)
		return t.err
	case t.row[0] == gpuColumns.names[0]:
		t.kind = &gpuColumns
	case t.row[0] == instanceColumns.names[0]:
		t.kind = &instanceColumns
	default:
		t.fail("unknown first column %q; %s", t.row[0], kinds)
		return t.err
	}
	t.at = make(map[string]int)
	for i, name := range t.row {
		if !slices.Contains(t.kind.names, name) {
			t.fail("%v", text.Unknown("column", name, t.kind.names))
		}
		if _, twice := t.at[name]; twice {
			t.fail("column %s is there twice", name)
		}
		t.at[name] = i
	}
	for _, name := range t.kind.names[:t.kind.required] {
		if _, ok := t.at[name]; !ok {
			t.fail("column %s is missing", name)
		}
	}
	if t.err != nil {
		return t.err
	}
	return nil
}

// next reads a row of as many fields as there are columns.
func (t *table) next() (bool, error) {
	more, err := t.read()
	if !more || err != nil {
		return false, err
	}
	if len(t.row) != len(t.at) {
		t.fail("%s, expected %d as in the first line", text.Count(len(t.row), "field"), len(t.at))
		return false, t.err
	}
	return true, nil
}

// text returns a field, "" where the column is missing.
func (t *table) text(column string) string {
	i, ok := t.at[column]
	if !ok {
		return ""
	}
	s := t.row[i]
	if s == "" && slices.Contains(t.kind.names[:t.kind.required], column) {
		t.fail("%s is empty", column)
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' }) {
		t.fail("%s: %q has characters that cannot be shown", column, s)
	}
	return s
}

// number returns a field that is a number from lo to hi, 0 where it is empty.
func (t *table) number(column string, lo, hi float64) float64 {
	s := t.text(column)
	if s == "" {
		return 0
	}
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || !(x >= lo && x <= hi) { // written so that NaN fails
		t.fail("%s: %q; expected a number from %g to %g", column, s, lo, hi)
		return 0
	}
	return x
}

// whole returns a field that is a whole number from lo to hi, 0 where it is empty.
func (t *table) whole(column string, lo, hi float64) int {
	x := t.number(column, lo, hi)
	if x != math.Trunc(x) {
		t.fail("%s: %q; expected a whole number", column, t.text(column))
	}
	return int(x)
}

func (t *table) gpu() GPU {
	g := GPU{
		Name: t.text("name"), Vendor: t.text("vendor"), Arch: t.text("arch"), Capability: t.text("compute_capability"),
		MemoryBytes: int64(t.number("memory_gb", 0.001, 1e6) * 1e9),
		MemoryBPS:   t.number("mem_bw_gbps", 0.1, 1e6) * 1e9,
		FP32:        t.number("fp32_tflops", 0.001, 1e6) * 1e12,
		TF32:        t.number("tf32_tflops_dense", 0, 1e6) * 1e12,
		BF16:        t.number("bf16_tflops_dense", 0, 1e6) * 1e12,
		FP16:        t.number("fp16_tflops_dense", 0, 1e6) * 1e12,
		FP8:         t.number("fp8_tflops_dense", 0, 1e6) * 1e12,
		INT8:        t.number("int8_tops_dense", 0, 1e6) * 1e12,
		LinkBPS:     t.number("nvlink_gbps_total", 0, 1e6) * 1e9,
		PCIe:        t.text("pcie"), Source: t.text("source"), Unverified: t.text("unverified_fields"),
	}
	if why := g.wrong(); why != "" {
		t.fail("%s", why)
	}
	return g
}

func (t *table) instance(c *Catalogue) Instance {
	n := Instance{
		Cloud: t.text("cloud"), Type: t.text("instance_type"), Region: t.text("region"), GPU: t.text("gpu"),
		GPUs: t.whole("gpu_count", 1, 1024), VCPUs: t.whole("vcpus", 0, 1e6),
		MemoryBytes: int64(t.number("memory_gib", 0, 1e6) * (1 << 30)),
		OnDemand:    t.number("usd_per_hour_ondemand", 0.0001, 1e6),
		Spot:        t.number("usd_per_hour_spot_min", 0.0001, 1e6),
		Link:        t.text("intra_node_link"), NetworkBPS: t.number("inter_node_gbps", 0, 1e6) * 1e9 / 8,
		Source: t.text("source"), Note: t.text("note"), Unverified: t.text("unverified_fields"),
	}
	if date := t.text("price_date"); t.err == nil {
		var err error
		if n.PriceDate, err = time.Parse(time.DateOnly, date); err != nil {
			t.fail("price_date: %q; expected a day, as 2026-08-22", date)
		}
	}
	if t.err != nil {
		return n
	}
	if _, err := c.GPU(n.GPU); err != nil {
		t.fail("gpu: %v", err)
	}
	if why := n.wrong(t.number("usd_per_gpu_hour", 0.0001, 1e6)); why != "" {
		t.fail("%s", why)
	}
	return n
}
