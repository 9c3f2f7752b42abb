package relativity

// What tests name from outside the package.
type (
	BodyJob  = bodyJob
	BoostJob = boostJob
	LightJob = lightJob
	OrbitJob = orbitJob
)

// What tests name from outside the package.
var ErrWrong = errWrong
