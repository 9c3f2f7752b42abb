package all

import "github.com/weft-run/weft/experimental/driver"

// Add adds the row of a backend whose devices run in worker processes.
func Add(name string, open func(struct{}) driver.Driver) {
	backends = append(backends, inWorkers(name, nil, open, func(Options) struct{} { return struct{}{} }, func(*struct{}, int) {}, func() bool { return false }))
}
