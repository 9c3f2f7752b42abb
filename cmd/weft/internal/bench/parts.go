package bench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/internal/host"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// partRow describes the run of one benchmark of a suite.
type partRow struct {
	Part    string  `json:"part"`
	Rows    int     `json:"rows"`
	Seconds float64 `json:"seconds_taken"`
	// Others is the mean number of cores that other programs used meanwhile; -1 if it is not
	// known.
	Others float64 `json:"cores_used_by_others"`
	// Why says why rows are missing: the machine cannot run it, it took too long, or it
	// failed.
	Why    string `json:"why,omitempty"`
	Failed bool   `json:"failed,omitempty"`
}

// spoiled reports whether other programs used so much of the machine that figures are
// off by more than runs on an idle machine differ: 5 % of its cores.
func (p *partRow) spoiled() bool { return p.Others > 0.05*float64(runtime.NumCPU()) }

// note is the remark shown with the figures of a part.
func (p *partRow) note() string {
	var out string
	if p.spoiled() {
		out = fmt.Sprintf("other programs used %.1f of %s meanwhile, which spoils these figures", p.Others, terminal.Count(runtime.NumCPU(), "core"))
	}
	if p.Why != "" {
		if out != "" {
			out += "; "
		}
		out += p.Why
	}
	return out
}

// watch begins to measure how long a benchmark takes and what other programs do
// meanwhile; the function it returns ends that.
func (p *partRow) watch() (ended func()) {
	before, known := host.ReadProcessor()
	began := time.Now()
	return func() {
		took := time.Since(began)
		p.Seconds, p.Others = took.Seconds(), -1
		if after, ok := host.ReadProcessor(); ok && known {
			p.Others = after.Others(before, took)
		}
	}
}

// part is a benchmark of a suite.
type part struct {
	name, title string
	own         bool // it chooses devices itself where the user named none
	measure     func(m *meter) error
	rows        func() int
	write       func(w io.Writer)
}

// rowsPart makes a part of a benchmark whose rows go into a report.
func rowsPart[T any](name, title string, into *[]T, measure func(m *meter) ([]T, error), write func(w io.Writer, rows []T)) part {
	return part{
		name: name, title: title,
		measure: func(m *meter) (err error) { *into, err = measure(m); return err },
		rows:    func() int { return len(*into) },
		write:   func(w io.Writer) { write(w, *into) },
	}
}

// parts are the benchmarks of a suite, in the order they are shown.
func (o *suite) parts(r *suiteReport) []part {
	strong := &scaling{only: o.only, atLeast: o.atLeast}
	weak := &scaling{only: o.only, atLeast: o.atLeast, weak: true}
	operations := &collectives{ops: operationNames(), sizes: []string{"4KiB", "1MiB"}, counts: []int{2, 4}, peers: true}
	parts := []part{
		rowsPart("strong", "strong scaling: the same work on more devices", &r.Strong, strong.measure, writeScaling),
		rowsPart("weak", "weak scaling: work that grows with the devices", &r.Weak, weak.measure, writeScaling),
		rowsPart("overhead", "overhead of a task", &r.Overhead, (&overhead{o.tasks}).measure, writeOverhead),
		rowsPart("sync", "synchronisation", &r.Sync, measureSync, writeSync),
		rowsPart("memory", "memory", &r.Memory, (&memory{o.sizes}).measure, writeMemory),
		rowsPart("balance", "balance", &r.Balance, (&balance{only: o.only}).measure, writeBalance),
		rowsPart("p2p", "copies between devices", &r.P2P, (&p2p{size: "64MiB"}).measure, writeP2P),
		rowsPart("collective", "collective operations", &r.Collective, operations.measure, operations.text),
		rowsPart("pipeline", "streams", &r.Pipeline, measurePipelines, writePipelines),
		rowsPart("replica", "replicas", &r.Replica, measureReplicas, writeReplicas),
		rowsPart("product", "products by a vendor's library", &r.Product,
			(&products{precisions: []string{"fp32", "tf32", "bf16"}, size: 4096, burst: 10}).measure, writeProducts),
		rowsPart("faults", "kernels that break a GPU", &r.Faults,
			(&faults{resident: "256MiB", arena: "2GiB", count: 10, standbys: 3}).measure, writeFaults),
		rowsPart("failover", "workers that are killed", &r.Failover, (&failover{kills: 20, seed: 1}).measure, writeFailover),
	}
	for i := range parts {
		parts[i].own = slices.Contains([]string{"collective", "product", "faults", "failover"}, parts[i].name)
	}
	return parts
}

// measure fills the report. A benchmark that this machine cannot run, that takes too long
// or that fails keeps the rows that are complete; the last of these is an error, failed,
// after all others were measured. After an interrupt the report has what was complete.
func (o *suite) measure(m *meter, r *suiteReport) (failed, interrupt error) {
	given := m.options.Devices
	if _, err := m.several(); err != nil {
		return nil, err
	}
	var err error
	if r.here, err = m.machine(); err != nil {
		return nil, err
	}
	r.Machine = machine.Encode(r.here)
	r.Policy, r.Partitioner = cmp.Or(m.options.Policy, sched.Default), cmp.Or(m.options.Partitioner, sched.DefaultPartitioner)
	for _, d := range r.here.Devices {
		if d.Joins != "" {
			r.Native = append(r.Native, d.Name+" ("+d.Joins+")")
		}
	}
	parts := o.parts(r)
	// What takes minutes comes last, so that an interrupt leaves most of the rest.
	order := append(slices.Clone(parts[2:]), parts[:2]...)
	var failures []error
	for _, p := range order {
		one := *m // some change their options
		if p.own {
			one.options.Devices = given
		}
		row, err := p.run(&one, o.timeout)
		r.Parts = append(r.Parts, row)
		if m.ctx.Err() != nil {
			return nil, err
		}
		if row.Failed {
			failures = append(failures, fmt.Errorf("%s: %w", p.name, err))
		}
	}
	return errors.Join(failures...), nil
}

// run measures a part.
func (p *part) run(m *meter, timeout time.Duration) (row partRow, err error) {
	row = partRow{Part: p.name}
	outer := m.ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		m.ctx, cancel = context.WithTimeoutCause(outer, timeout, errTimeout)
		defer cancel()
	}
	ended := row.watch()
	err = p.measure(m)
	ended()
	row.Rows = p.rows()
	usage := text.Mistake{}
	switch {
	case err == nil || outer.Err() != nil:
	case m.ctx.Err() != nil:
		row.Why = endedEarly(timeout)
	case errors.As(err, &usage), errors.Is(err, weft.ErrNoDevices), errors.Is(err, weft.ErrNoDevice), errors.Is(err, weft.ErrOptions), errors.Is(err, host.ErrMemory):
		row.Why = "cannot run here: " + terminal.OneLine(err.Error())
	default:
		row.Why, row.Failed = "failed: "+terminal.OneLine(err.Error()), true
	}
	return row, err
}

// Setup says by what tasks were placed and work was cut, and which devices take part in
// collectives of a vendor's library.
func (r *suiteReport) Setup() string {
	native := "no device has NCCL"
	if len(r.Native) > 0 {
		native = "native collectives on " + strings.Join(r.Native, ", ")
	}
	return fmt.Sprintf("policy %s, partitioner %s, %s", r.Policy, r.Partitioner, native)
}

// part returns how a part went; an empty row if it was not begun.
func (r *suiteReport) part(name string) partRow {
	for _, p := range r.Parts {
		if p.Part == name {
			return p
		}
	}
	return partRow{Part: name}
}

func (r *suiteReport) text(w *bytes.Buffer) {
	fmt.Fprintf(w, "%s\n%s, %s\ncommit %s\n%s\n\n", r.Command, r.Platform, r.When.Format(time.DateTime), r.Commit, terminal.Wrap(r.Setup(), terminal.Width))
	terminal.Machine(w, r.here)
	var missing [][2]string
	for _, p := range (&suite{}).parts(r) {
		row := r.part(p.name)
		if p.rows() == 0 {
			if row.Why != "" {
				missing = append(missing, [2]string{p.name, row.Why})
			}
			continue
		}
		fmt.Fprintf(w, "\n%s\n", p.title)
		if note := row.note(); note != "" {
			fmt.Fprintf(w, "%s\n", terminal.Wrap("("+note+")", terminal.Width))
		}
		fmt.Fprintln(w)
		p.write(w)
	}
	if len(missing) > 0 {
		fmt.Fprintf(w, "\nnot measured\n\n")
		for _, m := range missing {
			fmt.Fprintln(w, terminal.Wrap(m[0]+": "+m[1], terminal.Width))
		}
	}
}
