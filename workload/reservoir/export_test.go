package reservoir

// What tests name from outside the package.
type (
	Job       = job
	StreamJob = streamJob
)

// What tests name from outside the package.
var ErrWrong = errWrong
