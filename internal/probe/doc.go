// Package probe lists the kernels that measure a device: what each computes and how much work one
// item of it is. One of them also checks that a device works (Graph). The list is data. A backend
// whose dialect has no code here brings its own (driver.Traits.Probes). internal/exec runs the kernels
// and uses the times.
//
// The check takes 4 KiB, which differ each time, through the memory of a device and computes with
// integers and float32 in each of 256 items. Check compares every byte with what the host computes
// in integers. Products and sums stay below 2²⁴, so that all devices have the same bits, with a
// fused multiply-add or without. A device without an implementation of it passes.
package probe
