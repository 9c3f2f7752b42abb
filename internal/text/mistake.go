package text

// Mistake is an error in what a person wrote: on a command line, in a file that it names, or in the parameters of a
// job. A command that returns one ends with status 2, and a server answers with status 400.
type Mistake struct{ Err error }

func (m Mistake) Error() string { return m.Err.Error() }

// Unwrap returns the error that says what the mistake is.
func (m Mistake) Unwrap() error { return m.Err }
