package pipeline

import (
	"context"
	"fmt"
	"runtime"
)

// Five is the form most streams have: load an item, preprocess it, run it on
// devices, postprocess it, aggregate. Each stage may be left out but Device.
type Five[T any] struct {
	Load        func(ctx context.Context, item *T) error
	Preprocess  func(ctx context.Context, item *T) error
	Device      Stage[T] // as OnDevices makes it
	Postprocess func(ctx context.Context, item *T) error
	// Aggregate is called for one item after another, in the order of the source.
	Aggregate func(ctx context.Context, item *T) error
	// Loads is the number of items loaded at a time (2, since loading is mostly
	// waiting), Cores the number preprocessed and the number postprocessed at a
	// time (the cores of the machine, at least two).
	Loads, Cores int
}

// New makes the pipeline.
func (f Five[T]) New(o Options) (*Pipeline[T], error) {
	if f.Loads < 0 || f.Cores < 0 {
		return nil, fmt.Errorf("%w: %d loads and %d cores: use 0 or more", ErrStages, f.Loads, f.Cores)
	}
	if f.Loads == 0 {
		f.Loads = 2
	}
	if f.Cores == 0 {
		f.Cores = min(max(runtime.GOMAXPROCS(0), 2), MaxWorkers)
	}
	var stages []Stage[T]
	add := func(s Stage[T]) {
		if s.Do != nil {
			stages = append(stages, s)
		}
	}
	add(Stage[T]{Name: "load", Do: f.Load, Workers: f.Loads})
	add(Stage[T]{Name: "preprocess", Do: f.Preprocess, Workers: f.Cores})
	if f.Device.Do == nil {
		return nil, fmt.Errorf("%w: there is no device stage: make one with OnDevices", ErrStages)
	}
	if f.Device.Name == "" {
		f.Device.Name = "device"
	}
	add(f.Device)
	add(Stage[T]{Name: "postprocess", Do: f.Postprocess, Workers: f.Cores})
	add(Stage[T]{Name: "aggregate", Do: f.Aggregate, Ordered: true})
	return New(o, stages...)
}
