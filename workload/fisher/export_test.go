package fisher

// What tests name from outside the package.
type (
	DivergenceJob = divergenceJob
	Job           = job
)

// What tests name from outside the package.
var ErrWrong = errWrong
