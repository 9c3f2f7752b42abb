// Package model runs graphs that are files: a graph in JSON, the sources of its kernels and its
// weights beside it. [Load] reads and checks one, [Model.Prepare] puts the weights on a runtime,
// once for all runs, and [Prepared.Run] runs it with inputs and outputs whose types are checked:
// slices of numbers, or arrays from NumPy's files.
//
//	m, err := model.Load(model.Dir("models/blur"), "blur.json", model.Limits{})
//	p, err := m.Prepare(rt)
//	defer p.Release()
//	report, err := p.Run(ctx, model.Bind("image", in), model.Bind("smooth", out))
//
// [graph.Decode] documents the format. Files are named relative to the folder. What a model can use
// on CPU cores is the Go functions that its runtime was opened with, by their names; for GPUs it
// brings sources.
//
// A model may come from a stranger: it cannot make the loader read a file outside of its folder, over
// a link or from a pipe, nor take more memory than its [Limits] allow. Its kernels are code, which
// is run: SECURITY.md says where.
//
// # How a model is run
//
// [Load] decodes the graph, adds up what its data take, reads the sources of its kernels into
// Impl.Source and looks at the headers of its weights. [Dir] opens what is below the folder, over
// no link, and nothing that is no regular file. [Model.Prepare] prepares the graph and reads the
// files of weights, one at a time; they are resident data that all runs read. [Prepared.Run]
// compares what is bound with the ports: name, type, shape, bytes. Types are the file's word
// (graph.Data.Elem and Shape); the engine and the devices see bytes. Arrays are files of NumPy's
// format or bare elements. [Prepared.On] ties a graph to one device.
package model
