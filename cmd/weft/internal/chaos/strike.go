package chaos

import (
	"errors"
	"fmt"
)

// Strike is a way to harm a worker process.
type Strike uint8

const (
	Kill    Strike = iota // it is killed at once (SIGKILL)
	Stop                  // it stops and never goes on (SIGSTOP), until it is given up on
	Slow                  // it is stopped for most of the time for a while, too short to be given up on
	Corrupt               // the memory by which it talks with the parent is overwritten with noise
)

// strikes are all of them.
var strikes = []Strike{Kill, Stop, Slow, Corrupt}

var strikeNames = [...]string{"kill", "hang", "slow", "corrupt"}

func (s Strike) String() string {
	if int(s) < len(strikeNames) {
		return strikeNames[s]
	}
	return fmt.Sprintf("unknown(%d)", uint8(s))
}

// ErrNone says that no worker is there to be struck.
var ErrNone = errors.New("no worker process is there to be struck")
