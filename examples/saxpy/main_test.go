package main

import (
	"log"
	"os"
	"testing"

	"github.com/weft-run/weft"
)

// What is measured here is kept from other programs.
func TestMain(m *testing.M) {
	weft.Worker()
	cache, err := os.MkdirTemp("", "weft-test-")
	if err == nil {
		err = os.Setenv("XDG_CACHE_HOME", cache)
	}
	if err != nil {
		log.Fatal(err)
	}
	code := m.Run()
	os.RemoveAll(cache)
	os.Exit(code)
}

func Example() {
	main()
	// Output: [1 3 5 7] <nil>
}
