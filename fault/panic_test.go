package fault_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/weft-run/weft/fault"
)

func explode(with any) { panic(with) }

func recovered(task string, with any) (err *fault.PanicError) {
	defer func() { err = fault.Recovered(task, recover()) }()
	explode(with)
	return nil
}

// The error of a panic says of which task it is, with what it panicked and where, and is that value too
// where the value is an error.
func TestRecovered(t *testing.T) {
	for _, c := range []struct {
		task, text string
		with       any
		is         []error
		isNot      error
	}{
		{"", "panic: boom, in fault_test.explode (panic_test.go:", "boom", []error{fault.ErrPanic}, io.EOF},
		{"t", "task t: panic: EOF, in fault_test.explode (panic_test.go:", io.EOF, []error{fault.ErrPanic, io.EOF}, fault.ErrTimeout},
	} {
		err := recovered(c.task, c.with)
		if !strings.HasPrefix(err.Error(), c.text) || err.Value != c.with || !strings.Contains(string(err.Stack), "explode") {
			t.Errorf("%v, with %v, on\n%s", err, err.Value, err.Stack)
		}
		for _, is := range c.is {
			if !errors.Is(err, is) {
				t.Errorf("%v is not %v", err, is)
			}
		}
		if errors.Is(err, c.isNot) {
			t.Errorf("%v is %v", err, c.isNot)
		}
	}
	// What is taken off a stack that did not panic has no place.
	if err := fault.Recovered("", "x"); err.At != "an unknown function" {
		t.Errorf("%+v", err)
	}
}
