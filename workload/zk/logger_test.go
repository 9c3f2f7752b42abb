package zk

import (
	"os"
	"os/exec"
	"testing"

	"github.com/consensys/gnark/logger"
)

// A program that imports this package keeps gnark's logger as it is. gnark sets it to none in programs whose
// name ends in .test, so that this one runs again by another name.
func TestLoggerIsTheirs(t *testing.T) {
	if os.Getenv("WEFT_TEST_LOGGER") != "" {
		if l := logger.Logger(); l.GetLevel().String() == "disabled" {
			t.Error("gnark's logger is disabled")
		}
		return
	}
	c := exec.Command(os.Args[0], "-test.run", "^TestLoggerIsTheirs$")
	c.Args[0], c.Env = "program", append(os.Environ(), "WEFT_TEST_LOGGER=1")
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
