// Package plan answers what a job would take and what it would cost: on the devices of
// this machine, on a rented one, or on both together.
//
// A Catalogue holds facts about GPUs and prices of instances. A Predictor says how long
// a Need takes on some GPUs. Decide compares every way to run the job under the stated
// Assumptions and returns the best one with the reasons why the others lost. The package
// is pure: it reads no clock, no file and no network; prices and dates are given to it.
package plan

import (
	"time"

	"github.com/weft-run/weft/graph"
)

// Need is the demand of a job on a machine.
type Need struct {
	Name         string
	Flops, Bytes float64 // operations and bytes of device memory traffic of the whole job
	// Upload and Download are the bytes that go to a machine elsewhere and come back.
	Upload, Download float64
	PeakBytes        int64 // device memory if the job runs on one device
	HostBytes        int64 // host memory beside the devices
	// State is the size of a checkpoint. 0 means that the job cannot be continued: after
	// an interruption it begins anew.
	State int64
	// Parts is the number of equal, independent parts that may run on different machines;
	// 0 and 1 mean that the job stays together.
	Parts int

	// Workload names the workload whose recorded runs say something about the job; empty
	// if there is none.
	Workload string
	// Unit is the arithmetic that most of Flops are of.
	Unit     graph.Unit
	Launches float64 // kernels that are started one after another
	// Serial is the number of steps within launches that must run one after another, as in a simulation
	// whose steps a device runs without returning to the host.
	Serial float64 `json:",omitempty"`
	// Chains is the number of such sequences of Serial steps that run side by side, each on a part of a
	// device that does not grow with the device; 0 means that all of it works on each step.
	Chains float64 `json:",omitempty"`
	// Dialects are the languages that all kernels of the job have code in; nil allows any device.
	Dialects []graph.Dialect `json:",omitempty"`
	// Runs is the number of times that the job's graph is run; 0 means 1. Flops, Bytes, Launches and
	// Serial are totals over all runs; data is copied to devices and back in each run.
	Runs float64
	// LeastBytes is the device memory without which no device can run the job, whatever
	// stays in host memory meanwhile; 0 means PeakBytes.
	LeastBytes int64
	// First are beginnings of the job after which there is less to upload; those that are zero
	// are none.
	First [3]First `json:",omitzero"`
}

// Estimate is a predicted time in seconds with a 90 % interval.
type Estimate struct {
	Median, Low, High float64
	Measured          bool   // the prediction rests on runs on this very device model
	Bottleneck        string // what limits the job there: "compute", "memory", "link", "launch", "steps"
	Fits              bool   // device memory suffices
	Why               string // why it does not fit, or what the estimate rests on
}

// Predictor says how long a job takes on count equal GPUs of one machine. The answer
// depends on the arguments alone: Decide asks once for each pair of GPU and count.
type Predictor interface {
	Predict(need Need, gpu GPU, count int) Estimate
}

// GPU is a model of the catalogue. Rates are dense peaks per second; 0 means unknown.
type GPU struct {
	Name       string `json:"name"`
	Vendor     string `json:"vendor,omitempty"`
	Arch       string `json:"arch,omitempty"`
	Capability string `json:"compute_capability,omitempty"`
	// MemoryBytes is the memory by the data sheet, in decimal gigabytes.
	MemoryBytes int64   `json:"memory_bytes"`
	MemoryBPS   float64 `json:"memory_bps"`
	FP32        float64 `json:"fp32,omitempty"`
	TF32        float64 `json:"tf32,omitempty"`
	BF16        float64 `json:"bf16,omitempty"`
	FP16        float64 `json:"fp16,omitempty"`
	FP8         float64 `json:"fp8,omitempty"`
	INT8        float64 `json:"int8,omitempty"`
	LinkBPS     float64 `json:"link_bps,omitempty"` // NVLink or its like, all links together; 0 for none
	PCIe        string  `json:"pcie,omitempty"`     // as in "gen4"
	Source      string  `json:"source,omitempty"`
	Unverified  string  `json:"unverified,omitempty"` // fields that no source confirms
}

// Instance is a machine that can be rented, with its prices.
type Instance struct {
	Cloud       string  `json:"cloud"`
	Type        string  `json:"type"`
	Region      string  `json:"region,omitempty"`
	GPU         string  `json:"gpu"` // name of a GPU of the catalogue
	GPUs        int     `json:"gpus"`
	VCPUs       int     `json:"vcpus,omitempty"`
	MemoryBytes int64   `json:"memory_bytes,omitempty"` // host memory; 0 unknown
	OnDemand    float64 `json:"on_demand"`              // US dollars an hour
	Spot        float64 `json:"spot,omitempty"`         // US dollars an hour; 0 if there is no spot price
	Link        string  `json:"link,omitempty"`         // between its GPUs, as in "NVLink4/NVSwitch"
	// NetworkBPS is the rate to other instances in bytes per second; 0 unknown.
	NetworkBPS float64   `json:"network_bps,omitempty"`
	PriceDate  time.Time `json:"price_date"`
	Source     string    `json:"source,omitempty"`
	Note       string    `json:"note,omitempty"`
	Unverified string    `json:"unverified,omitempty"`
}

// Offer is an instance at one of its prices.
type Offer struct {
	Instance
	OnSpot bool // at the spot price, and may be taken away
}

// Price returns the price of the offer in US dollars an hour.
func (o Offer) Price() float64 {
	if o.OnSpot {
		return o.Spot
	}
	return o.OnDemand
}
