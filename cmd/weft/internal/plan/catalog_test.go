package plan

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

func TestShipped(t *testing.T) {
	c := Shipped()
	if len(c.GPUs) < 31 || len(c.Instances) < 49 {
		t.Fatalf("%d GPUs and %d instances", len(c.GPUs), len(c.Instances))
	}
	for _, n := range c.Instances {
		if strings.HasPrefix(n.GPU, "H100") && n.GPUs == 12 {
			t.Errorf("%s: a 12-GPU H100 machine", n.Type)
		}
		if n.OnDemand <= 0 || n.PriceDate.Year() < 2025 {
			t.Errorf("%s: price %v of %v", n.Type, n.OnDemand, n.PriceDate)
		}
		if n.Source == "" {
			t.Errorf("%s: no source", n.Type)
		}
	}
	for _, g := range c.GPUs {
		if strings.HasPrefix(g.Name, "H200") && g.MemoryBytes < 141e9 {
			t.Errorf("%s with %d bytes", g.Name, g.MemoryBytes)
		}
		if g.Source == "" {
			t.Errorf("%s: no source", g.Name)
		}
	}
	// The machines that weft is to scale to.
	if g, err := c.GPU("RTX-4060"); err != nil || g.MemoryBytes != 8e9 || g.FP32 != 15.11e12 || g.MemoryBPS != 272e9 {
		t.Errorf("RTX-4060: %+v, %v", g, err)
	}
	var a3 Instance
	for _, n := range c.Instances {
		if n.Type == "a3-highgpu-8g" {
			a3 = n
		}
	}
	if a3.GPU != "H100-SXM" || a3.GPUs != 8 || a3.OnDemand != 87.83246 || a3.NetworkBPS != 125e9 || a3.MemoryBytes == 0 {
		t.Errorf("a3-highgpu-8g: %+v", a3)
	}
	if got := len(c.Offers()); got <= len(c.Instances) || got > 2*len(c.Instances) {
		t.Errorf("%d offers", got)
	}
}

const (
	gpuHead      = "name,memory_gb,mem_bw_gbps,fp32_tflops\n"
	instanceHead = "cloud,instance_type,region,gpu,gpu_count,usd_per_hour_ondemand,usd_per_hour_spot_min,price_date\n"
)

func TestAddErrors(t *testing.T) {
	cases := []struct {
		name, src string
		line      int
		want      string
	}{
		{"empty", "", 1, "the file is empty"},
		{"first column", "price,gpu\n", 1, `unknown first column "price"`},
		{"unknown column", "name,memory_gb,mem_bw_gbps,fp32_tflop\n", 1, `unknown column "fp32_tflop"; did you mean fp32_tflops?`},
		{"missing column", "name,memory_gb,mem_bw_gbps\n", 1, "column fp32_tflops is missing"},
		{"column twice", "name,memory_gb,mem_bw_gbps,fp32_tflops,name\n", 1, "column name is there twice"},
		{"few fields", gpuHead + "X,1,2\n", 2, "3 fields, expected 4"},
		{"number", gpuHead + "X,8,300,12\nY,8,abc,12\n", 3, `mem_bw_gbps: "abc"; expected a number`},
		{"not a number", gpuHead + "X,NaN,300,12\n", 2, `memory_gb: "NaN"`},
		{"empty name", gpuHead + ",8,300,12\n", 2, "name is empty"},
		{"H200 of 80 GB", gpuHead + "H200-SXM,80,4800,67\n", 2, "no H200 with 80 GB; expected 141"},
		{"wrong unit", gpuHead + "X,8,0.3,12\n", 2, "wrong unit"},
		{"twice", gpuHead + "X,8,300,12\nX,8,300,12\n", 3, "X is already in line 2"},
		{"lines in quotes", "name,memory_gb,mem_bw_gbps,fp32_tflops,source\nX,8,300,12,\"a \"\"b\"\"\"\nY,8,300,-1,c\n", 3, "fp32_tflops"},
		{"quote", gpuHead + "X,8,\"300,12\n", 2, "stands in quotes"},
		{"12 H100", instanceHead + "a,b,c,H100-SXM,12,98,,2026-01-01\n", 2, "no machine has 12 H100-SXM; expected 1, 2, 4, 8 or 16"},
		{"unknown GPU", instanceHead + "a,b,c,H100-SMX,8,98,,2026-01-01\n", 2, `unknown GPU "H100-SMX"; did you mean H100-SXM?`},
		{"case", instanceHead + "a,b,c,h100-sxm,8,98,,2026-01-01\n", 2, "did you mean H100-SXM?"},
		{"free", instanceHead + "a,b,c,H100-SXM,8,0,,2026-01-01\n", 2, "usd_per_hour_ondemand"},
		{"negative", instanceHead + "a,b,c,H100-SXM,8,-3,,2026-01-01\n", 2, "usd_per_hour_ondemand"},
		{"dear spot", instanceHead + "a,b,c,H100-SXM,8,3,4,2026-01-01\n", 2, "above usd_per_hour_ondemand"},
		{"no date", instanceHead + "a,b,c,H100-SXM,8,3,,\n", 2, "price_date is empty"},
		{"date", instanceHead + "a,b,c,H100-SXM,8,3,,01/02/2026\n", 2, "expected a day, as 2026-08-22"},
		{"half a GPU", instanceHead + "a,b,c,L4,1.5,3,,2026-01-01\n", 2, "whole number"},
		{"same instance", instanceHead + "a,b,c,L4,1,3,,2026-01-01\na,b,c,L4,1,2,,2026-01-01\n", 3, "a b c is already in line 2"},
		{"control character", instanceHead + "a\x1b[2J,b,c,L4,1,3,,2026-01-01\n", 2, "cannot be shown"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			k := Shipped()
			gpus, instances := len(k.GPUs), len(k.Instances)
			err := k.Add([]byte(c.src))
			at := (*graph.SyntaxError)(nil)
			if !errors.As(err, &at) || at.Line != c.line || !strings.Contains(at.Reason, c.want) {
				t.Errorf("got %v, want line %d: … %s …", err, c.line, c.want)
			}
			if len(k.GPUs) != gpus || len(k.Instances) != instances {
				t.Error("the catalogue has changed")
			}
		})
	}
}

func TestAddReplaces(t *testing.T) {
	c := Shipped()
	n := len(c.Instances)
	err := c.Add([]byte(instanceHead +
		"gcp,a3-highgpu-8g,us-central1,H100-SXM,8,70,40,2026-11-01\n" +
		"ours,rack,,RTX-4090,3,1.5,,2026-11-01\n"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, i := range c.Instances {
		if i.Type == "a3-highgpu-8g" && i.OnDemand == 70 || i.Type == "rack" && i.GPUs == 3 {
			found++
		}
	}
	region := ""
	for _, i := range Shipped().Instances {
		if i.Type == "a3-highgpu-8g" {
			region = i.Region
		}
	}
	want := n + 1
	if region != "us-central1" {
		want++
	}
	if found != 2 || len(c.Instances) != want {
		t.Errorf("%d found of %d instances, want 2 of %d", found, len(c.Instances), want)
	}
}

// Devices are found in the catalogue by the names that drivers give them.
func TestModel(t *testing.T) {
	c := Shipped()
	for _, x := range []struct {
		device string
		gb     float64
		want   string
	}{
		{"NVIDIA GeForce RTX 4060", 8.2, "RTX-4060"},
		{"NVIDIA GeForce RTX 4060 Ti", 8.2, ""},
		{"NVIDIA GeForce RTX 4060 Laptop GPU", 8.2, ""},
		{"NVIDIA L40S", 48, "L40S"},
		{"NVIDIA L40", 48, "L40"},
		{"NVIDIA H100 80GB HBM3", 85, "H100-SXM"},
		{"NVIDIA H100 PCIe", 85, "H100-PCIe"},
		{"NVIDIA H200", 150, "H200-SXM"},
		{"NVIDIA A100-SXM4-40GB", 42, "A100-SXM-40"},
		{"NVIDIA A100-SXM4-80GB", 85, "A100-SXM-80"},
		{"Intel Arc A770", 16, ""},
		{"", 0, ""},
	} {
		d := machine.Device{Model: x.device, Kind: machine.Discrete, MemBytes: int64(x.gb * 1e9)}
		if g, ok := c.Model(&d); g.Name != x.want || ok != (x.want != "") {
			t.Errorf("%s: %q, want %q", x.device, g.Name, x.want)
		}
	}
}

func TestStale(t *testing.T) {
	day := time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC)
	n := Instance{PriceDate: day.AddDate(0, 0, -90)}
	if n.stale(day, 90) || !n.stale(day.AddDate(0, 0, 1), 90) {
		t.Error("a price is stale when it is more than 90 days old")
	}
}

func FuzzAdd(f *testing.F) {
	few := []byte(gpuHead + "L4,24,300,30\nH100-SXM,80,3350,67\n")
	f.Add(few)
	f.Add([]byte(gpuHead + "X,8,300,12\n\"Y\",8,300,\"12\"\n"))
	f.Add([]byte(instanceHead + "a,b,c,L4,8,98,9,2026-01-01\n"))
	f.Add([]byte(instanceHead + "a,b,c,H100-SXM,12,98,,2026-01-01\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		c := new(Catalogue)
		if err := c.Add(few); err != nil {
			t.Fatal(err)
		}
		if err := c.Add(src); err != nil {
			at := (*graph.SyntaxError)(nil)
			if !errors.As(err, &at) || at.Line < 1 || at.Line > 2+strings.Count(string(src), "\n") || at.Reason == "" {
				t.Fatalf("no mistake with a line: %v", err)
			}
			return
		}
		for _, o := range c.Offers() {
			if _, err := c.GPU(o.GPU); err != nil || !(o.Price() > 0) || o.GPUs < 1 {
				t.Fatalf("%+v: %v", o, err)
			}
		}
		for _, g := range c.GPUs {
			if g.MemoryBytes <= 0 || !(g.MemoryBPS > 0) || !(g.FP32 > 0) {
				t.Fatalf("%+v", g)
			}
		}
	})
}
