//go:build !linux

package chaos

import (
	"errors"
	"math/rand/v2"
	"time"
)

// Any says that there are no workers here.
func Any(*rand.Rand, Strike) (time.Time, error) {
	return time.Time{}, errors.New("worker processes need Linux")
}
