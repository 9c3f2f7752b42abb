//go:build !amd64

package fold

// best is the fastest kernel this machine has.
const best = inGo

// do does what the bits of what ask for.
func (a *args) do(what int) { a.lanes(what) }
