package network

import "github.com/weft-run/weft/workload"

// Rows is the number of rows in the first blocks of a job.
func Rows(j workload.Job, blocks int64) int64 {
	switch j := j.(type) {
	case *rankingJob:
		return j.spread().rows(0, blocks).Hi
	case *layerJob:
		return j.spread().rows(0, blocks).Hi
	}
	panic(j.Name())
}

// Start are the medoids that a job begins with, and Sums what it adds up in its last step.
func (j *distancesJob) Start() []uint32 { return j.start }

func (j *distancesJob) Sums() []float32 { return j.sums }

// What tests name from outside the package.
var ErrWrong = errWrong

// What tests name from outside the package.
type (
	DistanceJob = distancesJob
	LayersJob   = layerJob
	RankJob     = rankingJob
)
