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

func check(t *testing.T, devices string) {
	t.Helper()
	says, err := run(t.Context(), weft.Options{Devices: devices, NoCalibrate: true, CacheDir: "off"}, 100_003)
	if err != nil {
		t.Fatalf("%s: %v", devices, err)
	}
	t.Log(says)
}

func TestCPU(t *testing.T) { check(t, "cpu/2") }
