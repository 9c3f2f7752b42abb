package sched

import "time"

// Prediction is the expected duration of a run and the part of each device in it.
type Prediction struct {
	// Median is the time expected; nine runs of ten take from Low to High.
	Median, Low, High time.Duration
	// Samples is the least number of measurements behind any task's time: 0
	// means that some kernel never ran and its time follows from rates alone.
	Samples int
	// Devices has what each device would do, in the order of their IDs.
	Devices []DevicePrediction
	// Alone is the duration of the graph on each device alone, in the
	// order of their IDs: 0 for one that cannot, nil for a graph too large to
	// look at so often.
	Alone []time.Duration
	// Why compares using all devices with using one, in words.
	Why string
}

// DevicePrediction is a device's part of a prediction.
type DevicePrediction struct {
	Name  string
	Tasks int
	Busy  time.Duration
	Share float64 // of all computing time
}
