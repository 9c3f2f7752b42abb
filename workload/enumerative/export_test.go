package enumerative

// What tests name from outside the package.
type (
	CurveJob = curveJob
	Job      = job
)

// What tests name from outside the package.
var ErrWrong = errWrong
