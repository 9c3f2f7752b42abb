//go:build !linux

package chaos

import (
	"errors"
	"math/rand/v2"
)

// Any says that there are no workers here.
func Any(*rand.Rand, Strike) error {
	return errors.New("worker processes need Linux")
}
