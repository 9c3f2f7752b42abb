//go:build !amd64 && !arm64

package fold

// do does what the bits of what ask for.
func (a *args) do(what int) { a.lanes(what) }
