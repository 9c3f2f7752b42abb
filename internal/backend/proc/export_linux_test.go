package proc

// Confine and ShutFiles are the two walls of a confined process, which tests try each by itself.
var (
	Confine         = confine
	ShutFiles       = shutFiles
	LandlockVersion = landlockVersion
)
