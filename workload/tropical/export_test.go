package tropical

// What tests name from outside the package.
type (
	Job      = job
	TrainJob = trainJob
)

// What tests name from outside the package.
var ErrWrong = errWrong
