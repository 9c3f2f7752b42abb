package elastic

import "github.com/weft-run/weft/internal/protein/network"

// Matrix is the matrix whose modes a job finds.
func (j *job) Matrix() *network.Matrix { return j.matrix }

// What tests name from outside the package.
type Job = job

// What tests name from outside the package.
var ErrWrong = errWrong
