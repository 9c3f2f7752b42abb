//go:build !linux

package driver

// shared exists on Linux alone: elsewhere no board has one.
type shared struct{}

func (*shared) moved()       {}
func (*shared) did()         {}
func (*shared) saw()         {}
func (*shared) enter(*Board) {}
func (*shared) leave()       {}

// Retire waits for nothing: no board's memory is shared.
func (b *Board) Retire() {}

// Leave forgets a member of a shared board.
func (b *Board) Leave(int) {}
