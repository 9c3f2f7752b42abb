package ntt

import (
	"context"
	"fmt"

	"github.com/consensys/gnark-crypto/ecc/bn254/fr"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
)

// Transformer transforms resident data in place, on the device where it is: nothing is copied
// from and to the host but the tables, once. It is safe for concurrent use.
type Transformer struct {
	rt     *weft.Runtime
	log    int
	g      *graph.Graph
	tables *weft.Data[fr.Element]
}

// NewTransformer prepares transforms of 2^log elements on a runtime that was opened with [Funcs]
// among its kernels. It is released before the runtime closes.
func NewTransformer(rt *weft.Runtime, log int, t Transform) (*Transformer, error) {
	c := Config{Transform: t, Log: log}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return newTransformer(rt, &job{c: c, log: log, most: logLocal})
}

// newTransformer prepares the transforms of a job.
func newTransformer(rt *weft.Runtime, j *job) (*Transformer, error) {
	log := j.log
	const useElements, useTables, workspace = 0, 1, 2
	first, last := j.scales()
	task := j.whole()
	// The last pass would read where it writes if their number is odd: it then writes to the
	// workspace.
	target, between := useElements, workspace
	if odd := len(task.Steps)%2 == 1; odd {
		target, between = workspace, useElements
	}
	task.Steps = j.passes(passParams{size: log, rows: 1}, first, last, orderRows, useElements, target, useTables, between)
	if target == workspace {
		task.Steps = append(task.Steps, moves(moveParams{rows: 1, cols: 1 << log}, workspace, useElements))
	}
	task.Workspace = Size << log
	var b graph.Builder
	elements := b.Data(graph.Data{Name: "elements", Bytes: Size << log, Input: true, Output: true, Tolerance: graph.SameBytes})
	roots := b.Data(graph.Data{Name: "tables", Bytes: int64(Size * tableLen(log)), Input: true, Tolerance: graph.SameBytes})
	task.Uses = []graph.Use{{Data: elements, Access: graph.ReadWrite}, {Data: roots, Access: graph.Read}}
	b.Add(task)
	g, err := b.Build()
	if err != nil {
		return nil, err
	}
	d, err := weft.Put(rt, "ntt tables", tables(log, j.c.Transform))
	if err != nil {
		return nil, fmt.Errorf("ntt: %w", err)
	}
	return &Transformer{rt: rt, log: log, g: g, tables: d}, nil
}

// Do transforms 2^log elements in place.
func (t *Transformer) Do(ctx context.Context, x *weft.Data[fr.Element]) (*weft.Report, error) {
	rep, err := t.rt.Run(ctx, t.g, x.As("elements"), t.tables.As("tables"))
	if err != nil {
		err = fmt.Errorf("ntt: transform of 2^%d resident elements: %w", t.log, err)
	}
	return rep, err
}

// Release gives up the tables.
func (t *Transformer) Release() { t.tables.Release() }
