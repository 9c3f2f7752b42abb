package main

import (
	"os"
	"testing"

	"github.com/weft-run/weft"
)

func TestMain(m *testing.M) {
	weft.Worker()
	os.Exit(m.Run())
}

// check runs the example, its tasks dealt out to the devices in turns.
func check(t *testing.T, devices string, compile bool) {
	t.Helper()
	says, err := run(t.Context(), weft.Options{Devices: devices, Policy: "roundrobin", NoCalibrate: true, CacheDir: "off"}, saxpy(compile), 100_003)
	if err != nil {
		t.Fatalf("%s: %v", devices, err)
	}
	t.Log(says)
}

func TestCPU(t *testing.T) { check(t, "cpu/2", false) }
